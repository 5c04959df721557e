"""What programs made for OpenAI really send, and what each of them reads of the answer.

The bodies and the reading are those of the programs' own sources, which `docs/openai.md` names. LiteLLM and
wyoming_openai are run by test_contract_real.py.
"""

import base64
import io
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import soundfile

from servers import recordings
from servers.callers import ON_ONE_DATABASE, Caller, Operator
from servers.openai_calls import draw, speak

pytestmark = [ON_ONE_DATABASE, pytest.mark.variant("program")]

SCRIPT = Path(__file__).parents[1] / "browser" / "openai.mjs"
SPEECH: dict[str, tuple[dict[str, Any], str | None]] = {
    "LibreChat": (
        {"input": "Hold the note.", "model": "tts-1", "voice": "alloy", "backend": "kokoro"},
        "backend",
    ),
    "SillyTavern": (
        {"input": "One . Two", "response_format": "mp3", "voice": "onyx", "speed": 1, "model": "tts-1"},
        None,
    ),
    "Home Assistant": (
        {"model": "gpt-4o-mini-tts", "voice": "marin", "input": "Lights.", "instructions": "None"},
        None,
    ),
}
"""By program: the body, and what of it has no meaning here; each takes the answer for an MP3."""
IMAGES: dict[str, tuple[dict[str, Any], str | None]] = {
    "LibreChat's image tool": (
        {"model": "gpt-image-1", "prompt": "A cat.", "n": 1, "size": "auto", "user": "68"}
        | {"background": "auto", "output_format": "png", "output_compression": 100, "quality": "auto"},
        "user, background, output_compression, quality",
    ),
    "n8n": (
        {"model": "dall-e-2", "prompt": "A cat.", "n": 2, "size": "256x256", "quality": None}
        | {"response_format": "b64_json"},
        None,
    ),
}
TRANSCRIPTS: dict[str, tuple[dict[str, str], str | None]] = {
    "Open WebUI with segments": (
        {"model": "whisper-1", "response_format": "verbose_json", "timestamp_granularities[]": "segment"},
        None,
    ),
    "SillyTavern": ({"model": "whisper-1", "language": ""}, None),
    "n8n": ({"model": "whisper-1", "language": "en", "temperature": "0"}, "temperature"),
}


@pytest.fixture(scope="module")
def caller(operator: Operator) -> Caller:
    """One account for all programs, that can pay."""
    return operator.caller(credit="100")


@pytest.mark.parametrize("program", SPEECH)
def test_speech(caller: Caller, program: str) -> None:
    """200, the whole sound in the form that the program takes it for, under a header that says the same."""
    body, ignored = SPEECH[program]
    answer = speak(caller, body)
    sound = soundfile.info(io.BytesIO(answer.content))

    assert (200, "audio/mpeg") == (answer.status_code, answer.headers["content-type"]), answer.text
    assert (ignored, "MP3") == (answer.headers.get("x-service-ignored"), sound.format)
    # Nextcloud reads what it can as JSON, and only the rest as sound.
    assert answer.content[:1] not in b'{["'


@pytest.mark.parametrize("program", IMAGES)
def test_images(caller: Caller, program: str) -> None:
    """`data` with as many images as were asked for, each inside the answer: programs fetch no address."""
    body, ignored = IMAGES[program]
    answer = draw(caller, body)
    images = answer.json()["data"]

    assert (200, ignored) == (answer.status_code, answer.headers.get("x-service-ignored")), answer.text
    assert body["n"] == len(images)
    assert all(base64.b64decode(image["b64_json"]).startswith(b"\x89PNG\r\n") for image in images)
    assert not any("url" in image for image in images)


@pytest.mark.parametrize("program", TRANSCRIPTS)
def test_transcripts(caller: Caller, program: str) -> None:
    """`text` is not empty, which LibreChat takes for an error; segments tell how long it was."""
    fields, ignored = TRANSCRIPTS[program]
    answer = caller.http.post(
        "/v1/audio/transcriptions",
        headers={"Authorization": f"Bearer {caller.key}"},
        data=fields,
        files={"file": ("audio.wav", recordings.recording(3), "audio/wav")},
    )
    shown: Mapping[str, Any] = answer.json()

    assert (200, ignored) == (answer.status_code, answer.headers.get("x-service-ignored")), answer.text
    assert 3 == len(shown["text"].split())
    # Nextcloud counts its users' seconds by the end of the last segment, LiteLLM by the duration.
    assert "segments" not in shown or 0 < shown["segments"][-1]["end"] <= shown["duration"]


@pytest.mark.parametrize("path", ["/v1/test", "/v1/readyz", "/health"])
def test_wyoming_takes_us_for_no_other_server(caller: Caller, path: str) -> None:
    """It asks for these to recognise Kokoro-FastAPI, LocalAI and Speaches."""
    assert 404 == caller.get(path).status_code


def test_openais_client_for_node_speaks_draws_lists_and_chats(chatting: Operator) -> None:
    """AnythingLLM and others use it; it runs as they run it, on the package of npm's registry."""
    caller = chatting.caller(credit="10")
    base = str(caller.http.base_url).rstrip("/")
    done = subprocess.run(
        ["node", str(SCRIPT)],
        env=os.environ | {"ADDRESS": f"{base}/v1", "KEY": caller.key},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    assert 1 == len(set(told["wav"]))
    assert ["audio/mpeg", "fff3"] == told["mp3"]
    assert told["streamedBytes"] > 0
    assert ["speech.audio.delta", "speech.audio.done"] == [told["events"][0], told["events"][-1]]
    assert ["PNG", "PNG"] == told["images"]
    assert {"fake/speech", "there/chat"} <= set(told["models"])
    assert ("fake/speech", "assistant") == (told["model"], told["chat"])
    assert [400, "invalid_request", "model"] == told["refused"]
