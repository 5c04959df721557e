"""LiteLLM as a caller, in an environment of its own: makes every call that we have, and prints what came.

Nothing but loopback may be connected to or looked up, so that a call of LiteLLM's own to the outside is an
error here instead of a wait.
"""

import base64
import json
import os
import struct
import sys
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "::1")
OUTSIDE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "HF_HUB_OFFLINE": "1",
}
"""What keeps LiteLLM from fetching: its prices come from the package."""
CHAT_MODEL = "openai/Qwen/Qwen2.5-Coder-0.5B-Instruct"
QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]


def only_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: refuses every connection and every look-up of a name that is not this machine's."""
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host not in LOOPBACK:
        print(f"refused: {event} {host}", file=sys.stderr)
        raise PermissionError(f"{event} {host}")


def main() -> None:
    os.environ.update(OUTSIDE)
    sys.addaudithook(only_loopback)
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    there = {"api_base": os.environ["ADDRESS"], "api_key": os.environ["KEY"], "timeout": 600}
    printed = {**media(litellm, there), **texts(litellm, there)}
    print(json.dumps(printed))


def media(litellm: Any, there: dict[str, Any]) -> dict[str, Any]:
    """A sentence is spoken in two forms, and transcribed; a picture is drawn."""
    speak = {"model": "openai/tts-1", "voice": "alloy", "input": os.environ["SENTENCE"], **there}
    spoken = [litellm.speech(**speak, response_format=form) for form in ("mp3", "wav")]
    sounds = [answer.content for answer in spoken]
    transcript = litellm.transcription(model="openai/whisper-1", file=("said.mp3", sounds[0]), **there)
    image = litellm.image_generation(
        model="openai/dall-e-3", prompt="A red sun above a blue mountain.", size="256x256", **there
    )
    png = base64.b64decode(image.data[0].b64_json)
    return {
        "starts": [sounds[0][:2].hex(), sounds[1][:4].decode()],
        "jobs": [answer.response.headers["x-service-job"] for answer in spoken],
        "text": transcript.text,
        "duration": transcript.duration,
        "size": struct.unpack(">II", png[16:24]),
    }


def texts(litellm: Any, there: dict[str, Any]) -> dict[str, Any]:
    """A chat and a response, whole and streamed, vectors, and a refusal."""
    chat = {"model": CHAT_MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 16, **there}
    whole = litellm.completion(**chat)
    pieces = list(litellm.completion(**chat, stream=True, stream_options={"include_usage": True}))
    ask = {"model": CHAT_MODEL, "input": QUESTION[0]["content"], "temperature": 0, **there}
    response = litellm.responses(**ask, max_output_tokens=16)
    events = list(litellm.responses(**ask, max_output_tokens=16, stream=True))
    vectors = litellm.embedding(
        model="openai/intfloat/multilingual-e5-small", input=["query: a sun", "passage: a lake"], **there
    )
    try:
        litellm.completion(**{**chat, "model": "openai/invalid-model"})
    except litellm.BadRequestError as error:
        refused = error.status_code
    return {
        "chat": whole.choices[0].message.content,
        "tokens": whole.usage.completion_tokens,
        "streamed": "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices),
        "response": response.output[0].content[0].text,
        "events": [str(getattr(event.type, "value", event.type)) for event in events],
        "vectors": [len(each["embedding"]) for each in vectors.data],
        "refused": refused,
    }


if __name__ == "__main__":
    main()
