"""A service whose operator has set `ffmpeg`: what browsers and telephones record, in; AAC, out."""

import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import soundfile

from servers import recordings
from servers.callers import Caller, Operator, faults
from servers.ffmpegs import ffmpeg
from servers.service import RunningService

pytestmark = pytest.mark.variant("program")

WAYS = {
    "voice.webm": ["-c:a", "libopus", "-f", "webm"],
    "voice.m4a": ["-c:a", "aac", "-f", "ipod"],
    "film.mp4": ["-f", "lavfi", "-i", "color=size=32x32:rate=5", "-shortest", "-c:v", "mpeg4", "-c:a", "aac"],
    "audio.wav": ["-c:a", "aac", "-f", "adts"],
    "tagged.aac": ["-c:a", "aac", "-write_id3v2", "1", "-metadata", "title=A talk", "-f", "adts"],
}
"""What LibreChat and SillyTavern send of a browser, a telephone, a film; AAC misnamed and with a title."""
HELLO = {"model": "tts-1", "input": "Hold the note.", "voice": "alloy", "response_format": "aac"}


BUSY_S = 120
"""However busy the machine is."""


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """An account that can pay."""
    folder = tmp_path_factory.mktemp("ffmpeg")
    running = RunningService(folder / "data", variables={"TENUTO_FFMPEG": ffmpeg()})
    running.start()
    operator = Operator(running)
    yield operator.caller(credit="100")
    operator.close()
    running.stop()


def transcribe(caller: Caller, name: str, content: bytes) -> httpx2.Response:
    return caller.http.post(
        "/v1/audio/transcriptions",
        headers={"Authorization": f"Bearer {caller.key}"},
        data={"model": "whisper-1"},
        files={"file": (name, content)},
        timeout=BUSY_S,
    )


def speak(caller: Caller, body: dict[str, str]) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {caller.key}"}
    return caller.http.post("/v1/audio/speech", headers=headers, json=body, timeout=BUSY_S)


@pytest.mark.parametrize("name", WAYS)
def test_other_recordings_are_transcribed(caller: Caller, name: str, tmp_path: Path) -> None:
    """Stored as a FLAC of 16 kHz of the same length, like every other."""
    path = tmp_path / name
    command = [ffmpeg(), "-loglevel", "error", "-f", "flac", "-i", "pipe:0", *WAYS[name], str(path)]
    subprocess.run(command, input=recordings.recording(3), check=True)
    answer = transcribe(caller, name, path.read_bytes())
    assert 200 == answer.status_code, answer.text
    body = caller.get(f"/v1/jobs/{answer.headers['x-service-job']}/request").json()
    stored = caller.get(f"/v1/artifacts/{body['input_artifact_ids'][0]}/content").content
    about = soundfile.info(io.BytesIO(stored))

    assert ("FLAC", 16_000, 1) == (about.format, about.samplerate, about.channels)
    assert 1.7 == pytest.approx(about.duration, abs=0.2)
    assert answer.json()["text"]


@pytest.mark.parametrize("start", [b"\x1aE\xdf\xa3", b"\0\0\0\x20ftypM4A ", b"\xff\xf1\x50\x80"])
def test_what_only_begins_like_one_is_refused(caller: Caller, start: bytes) -> None:
    """400, and nothing is stored."""
    newest = caller.newest()
    answer = transcribe(caller, "a.m4a", start + bytes(5_000))

    assert [("file", "invalid_recording")] == faults(answer), answer.text
    assert newest == caller.newest()


def test_speech_as_aac(caller: Caller) -> None:
    """Whole, in ADTS, with its length; also of a job that was made before, and in events."""
    answer = speak(caller, HELLO)
    job = caller.read(answer.headers["x-service-job"])
    again = caller.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/rendition?form=aac")
    events = speak(caller, HELLO | {"stream_format": "sse"})

    assert (200, "audio/aac") == (answer.status_code, answer.headers["content-type"]), answer.text
    assert str(len(answer.content)) == answer.headers["content-length"]
    assert b"\xff\xf1" == answer.content[:2]
    assert answer.content == again.content
    assert "speech.audio.done" in events.text
