"""What programs made for OpenAI really send, and what each of them reads of the answer.

The bodies and the reading are those of the programs' own sources, which `docs/openai.md` names. The fake
engines speak and draw: what they say does not matter here, its form does.
"""

import base64
import io
import json
import os
import subprocess
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import soundfile

from servers import recordings
from servers.callers import ON_ONE_DATABASE, Caller, Operator

pytestmark = [ON_ONE_DATABASE, pytest.mark.variant("program")]

SCRIPT = Path(__file__).parents[1] / "browser" / "openai.mjs"
FORMS = {
    "mp3": ("audio/mpeg", "MP3"),
    "wav": ("audio/wav", "WAV"),
    "flac": ("audio/flac", "FLAC"),
    "opus": ("audio/ogg", "OGG"),
}
"""The media type of each form, and what libsndfile says that it is."""


@dataclass(frozen=True)
class Sent:
    """A request as a program sends it."""

    program: str
    body: Mapping[str, Any]
    form: str = "mp3"
    """What the program takes the answer for, whatever the header says."""
    headers: Mapping[str, str] | None = None
    ignored: str | None = None

    def __str__(self) -> str:
        return self.program


SPEECH = (
    # The browser's body with the model of the settings before it; the header is looked at, and all but
    # audio/mpeg transcoded. Its pages cut a reply into sentences.
    Sent(
        "Open WebUI",
        {"model": "tts-1", "input": "Hold the note.", "voice": "alloy"},
        headers={"X-OpenWebUI-User-Name": "Ana", "X-OpenWebUI-User-Role": "user"},
    ),
    Sent(
        "LibreChat",
        {"input": "Hold the note.", "model": "tts-1", "voice": "alloy", "backend": "kokoro"},
        ignored="backend",
    ),
    Sent(
        "SillyTavern",
        {"input": "One . Two", "response_format": "mp3", "voice": "onyx", "speed": 1, "model": "tts-1"},
    ),
    *(
        Sent(f"n8n, {form}", {"model": "tts-1", "input": "A", "voice": "nova", "response_format": form}, form)
        for form in ("opus", "flac")
    ),
    Sent(
        "wyoming_openai",
        {"model": "tts-1", "voice": "shimmer", "input": "Lights.", "response_format": "wav", "speed": 1.0},
        "wav",
        {"X-Stainless-Raw-Response": "stream", "X-Stainless-Retry-Count": "0"},
    ),
    Sent(
        "Home Assistant",
        {
            "model": "gpt-4o-mini-tts",
            "voice": "marin",
            "input": "Lights.",
            "instructions": "None",
            "speed": 1.0,
            "response_format": "mp3",
        },
    ),
    Sent(
        "LiteLLM",
        {"model": "gpt-4o-mini-tts", "input": "A.", "voice": "alloy", "response_format": "opus", "extra": {}},
        "opus",
        {"X-Stainless-Lang": "python", "X-Stainless-Retry-Count": "0"},
        ignored="extra",
    ),
)

IMAGES = (
    Sent(
        "Open WebUI",
        {"model": "fake/image", "prompt": "A cat.", "n": 1, "size": "512x512", "response_format": "b64_json"},
    ),
    Sent(
        "LibreChat's image tool",
        {
            "model": "gpt-image-1",
            "prompt": "A cat.",
            "n": 1,
            "background": "auto",
            "output_format": "png",
            "output_compression": 100,
            "quality": "auto",
            "size": "auto",
            "user": "68",
        },
        ignored="background, output_compression, quality, user",
    ),
    Sent(
        "n8n",
        {
            "model": "dall-e-2",
            "prompt": "A cat.",
            "n": 2,
            "size": "256x256",
            "response_format": "b64_json",
            "quality": None,
        },
    ),
)


TRANSCRIPTS = (
    # A WAV or what the browser recorded, under its own name; newer lines ask for segments.
    Sent(
        "Open WebUI with segments",
        {"model": "whisper-1", "response_format": "verbose_json", "timestamp_granularities[]": "segment"},
        "verbose_json",
    ),
    # Everything is called audio.wav.
    Sent("SillyTavern", {"model": "whisper-1", "language": ""}, "json"),
    Sent("n8n", {"model": "whisper-1", "language": "en", "temperature": "0"}, "json", ignored="temperature"),
    Sent(
        "wyoming_openai",
        {"model": "whisper-1", "language": "en", "prompt": "", "response_format": "json", "temperature": "0"},
        "json",
        {"X-Stainless-Retry-Count": "0"},
        ignored="temperature",
    ),
    Sent(
        "LiteLLM",
        {
            "model": "whisper-1",
            "response_format": "verbose_json",
            "timestamp_granularities[]": "segment",
            "user": "68",
        },
        "verbose_json",
        ignored="user",
    ),
)
"""The fields of forms; `form` is what is read of the answer."""


@pytest.fixture(scope="module")
def caller(operator: Operator) -> Caller:
    """One account for all programs, that can pay."""
    return operator.caller(credit="100")


def send(caller: Caller, path: str, sent: Sent) -> httpx2.Response:
    headers = {"Content-Type": "application/json", **(sent.headers or {})}
    return caller.request("POST", path, headers=headers, content=json.dumps(sent.body).encode())


@pytest.mark.parametrize("sent", SPEECH, ids=str)
def test_speech(caller: Caller, sent: Sent) -> None:
    """200, the whole sound in the form that the program takes it for, under a header that says the same."""
    answer = send(caller, "/v1/audio/speech", sent)
    media_type, container = FORMS[sent.form]
    sound = soundfile.info(io.BytesIO(answer.content))

    assert (200, media_type) == (answer.status_code, answer.headers["content-type"]), answer.text
    assert str(len(answer.content)) == answer.headers["content-length"]
    assert sent.ignored == answer.headers.get("x-service-ignored")
    assert (container, True) == (sound.format, sound.duration > 0)
    # Nextcloud reads what it can as JSON, and only the rest as sound.
    assert answer.content[:1] not in b'{["'


@pytest.mark.parametrize("sent", IMAGES, ids=str)
def test_images(caller: Caller, sent: Sent) -> None:
    """`data` with as many images as were asked for, each inside the answer: programs fetch no address."""
    answer = send(caller, "/v1/images/generations", sent)
    images = answer.json()["data"]

    assert (200, "application/json") == (answer.status_code, answer.headers["content-type"]), answer.text
    assert sent.ignored == answer.headers.get("x-service-ignored")
    assert sent.body["n"] == len(images)
    assert all(base64.b64decode(image["b64_json"]).startswith(b"\x89PNG\r\n") for image in images)
    assert not any("url" in image for image in images)


@pytest.mark.parametrize("sent", TRANSCRIPTS, ids=str)
def test_transcripts(caller: Caller, sent: Sent) -> None:
    """`text` is not empty, which LibreChat takes for an error; segments tell how long it was."""
    answer = caller.http.post(
        "/v1/audio/transcriptions",
        headers={"Authorization": f"Bearer {caller.key}", **(sent.headers or {})},
        data=sent.body,
        files={"file": ("audio.wav", recordings.recording(3), "audio/wav")},
    )
    shown = answer.json()

    assert (200, "application/json") == (answer.status_code, answer.headers["content-type"]), answer.text
    assert sent.ignored == answer.headers.get("x-service-ignored")
    assert 3 == len(shown["text"].split())
    if sent.form == "verbose_json":
        # Nextcloud counts its users' seconds by the end of the last segment, LiteLLM by the duration.
        assert 0 < shown["segments"][-1]["end"] <= shown["duration"]


def test_wyoming_reads_the_header_of_the_wav(caller: Caller) -> None:
    """The rate, the width and the number of frames are those of the file, not placeholders of a stream."""
    sent = next(each for each in SPEECH if each.program == "wyoming_openai")
    answer = send(caller, "/v1/audio/speech", sent)

    with wave.open(io.BytesIO(answer.content)) as sound:
        assert (1, 2, 24_000) == (sound.getnchannels(), sound.getsampwidth(), sound.getframerate())
        assert (len(answer.content) - 44) // 2 == sound.getnframes()


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
