"""A service whose operator has set `ffmpeg`: what browsers record, in; AAC, out.

tests/features/decoding has every format, and what is damaged.
"""

import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile

from servers import recordings
from servers.callers import Caller, Operator, faults
from servers.ffmpegs import ffmpeg
from servers.openai_calls import HELLO, request_of, speak, transcribe
from servers.service import RunningService

pytestmark = pytest.mark.variant("program")


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


def test_a_browsers_recording_is_transcribed(caller: Caller, tmp_path: Path) -> None:
    """Stored as a FLAC of 16 kHz of the same length, like every other; what only begins like one is a 400."""
    path = tmp_path / "voice.webm"
    command = [ffmpeg(), "-loglevel", "error", "-f", "flac", "-i", "pipe:0", "-c:a", "libopus", str(path)]
    subprocess.run(command, input=recordings.recording(3), check=True)
    answer = transcribe(caller, path.read_bytes())
    assert 200 == answer.status_code, answer.text
    [input_id] = request_of(caller, answer)["input_artifact_ids"]
    about = soundfile.info(io.BytesIO(caller.get(f"/v1/artifacts/{input_id}/content").content))
    broken = transcribe(caller, b"\x1aE\xdf\xa3" + bytes(5_000))

    assert ("FLAC", 16_000, 1) == (about.format, about.samplerate, about.channels)
    assert 1.7 == pytest.approx(about.duration, abs=0.2)
    assert answer.json()["text"]
    assert [("file", "invalid_recording")] == faults(broken)


def test_speech_as_aac(caller: Caller) -> None:
    """Whole, in ADTS, with its length; also of a job that was made before, and in events."""
    answer = speak(caller, HELLO | {"response_format": "aac"})
    job = caller.read(answer.headers["x-service-job"])
    again = caller.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/rendition?form=aac")
    events = speak(caller, HELLO | {"response_format": "aac", "stream_format": "sse"})

    assert (200, "audio/aac") == (answer.status_code, answer.headers["content-type"]), answer.text
    assert str(len(answer.content)) == answer.headers["content-length"]
    assert b"\xff\xf1" == answer.content[:2]
    assert answer.content == again.content
    assert "speech.audio.done" in events.text
