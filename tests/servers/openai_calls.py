"""What callers send to OpenAI's routes for sound and images, and OpenAI's own package on our base address."""

import io
import json
from typing import TYPE_CHECKING, Any

import httpx2
import soundfile

from servers import recordings
from servers.callers import Caller

if TYPE_CHECKING:
    import openai

HELLO = {"model": "tts-1", "voice": "alloy", "input": "Hold the note."}
CAT = {"model": "dall-e-3", "prompt": "A cat.", "size": "256x256"}
FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "float.wav": ("WAV", "FLOAT"),
    "mp3": ("MP3", None),
    "flac": ("FLAC", "PCM_16"),
    "opus": ("OGG", "OPUS"),
    "caf": ("CAF", "PCM_16"),
}
"""Container and encoding of a recording, as libsndfile calls them."""
Part = tuple[str, str | None, bytes]
"""A field of a form: its name, a file name if it is a file, and its content."""


def package(caller: Caller) -> "openai.OpenAI":
    """The package, with the caller's key; it tries nothing again."""
    import openai  # Not above: it takes a second, which every process that collects a file would spend.

    url = str(caller.http.base_url).rstrip("/") + "/v1"
    return openai.OpenAI(base_url=url, api_key=caller.key, max_retries=0)


def post(caller: Caller, path: str, value: Any, **headers: str) -> httpx2.Response:
    """A body of JSON; headers are named with underscores."""
    named = {"Content-Type": "application/json"} | _named(headers)
    return caller.request("POST", path, headers=named, content=json.dumps(value).encode())


def speak(caller: Caller, body: dict[str, Any], **headers: str) -> httpx2.Response:
    return post(caller, "/v1/audio/speech", body, **headers)


def draw(caller: Caller, body: dict[str, Any], **headers: str) -> httpx2.Response:
    return post(caller, "/v1/images/generations", body, **headers)


def transcribe(caller: Caller, content: bytes, *more: tuple[str, str], **fields: str) -> httpx2.Response:
    """The answer to a form with this file; `more` are fields that come twice, capitals begin a header."""
    headers = {name: fields.pop(name) for name in list(fields) if name[0].isupper()}
    texts = [*({"model": "whisper-1"} | fields).items(), *more]
    parts: list[Part] = [(name, None, value.encode()) for name, value in texts]
    return send_form(caller, form([*parts, ("file", "Wörter.wav", content)]), **headers)


def send_form(
    caller: Caller,
    body: bytes,
    content_type: str | None = None,
    *,
    to: str = "transcriptions",
    **headers: str,
) -> httpx2.Response:
    named = {"Content-Type": content_type or "multipart/form-data; boundary=b0undary"} | _named(headers)
    return caller.request("POST", f"/v1/audio/{to}", headers=named, content=body)


def form(parts: list[Part], boundary: str = "b0undary") -> bytes:
    pieces = []
    for name, file_name, content in parts:
        file = "" if file_name is None else f'; filename="{file_name}"'
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        pieces.append(head.encode() + content + b"\r\n")
    return b"".join(pieces) + f"--{boundary}--\r\n".encode()


def sound(name: str = "wav", words: int = 3) -> bytes:
    """A recording that no other call gives, of so many words for the fake engine, in one of `FORMATS`."""
    samples, rate = soundfile.read(io.BytesIO(recordings.recording(words)), dtype="int16")
    container, encoding = FORMATS[name]
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, subtype=encoding)
    return file.getvalue()


def jobs_of(answer: httpx2.Response) -> list[str]:
    """The ids of the jobs behind an answer."""
    return answer.headers["x-service-job"].split(", ")


def request_of(caller: Caller, answer: httpx2.Response) -> Any:
    """The body of the first job behind an answer."""
    return caller.get(f"/v1/jobs/{jobs_of(answer)[0]}/request").json()


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
