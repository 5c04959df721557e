"""The fake engines, as a worker sees them: in a host of their own."""

import io
import os
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenuto.features.fakes.entries import FOLDER
from tenuto.host.child_host import ChildHost
from tenuto.host.host import (
    EngineFailed,
    EngineSpec,
    HostDeadline,
    HostError,
    HostLost,
    HostResult,
    OutcomeUnknown,
)


@pytest.fixture
def speech() -> Iterator[ChildHost]:
    """Give a loaded host of the fake speech engine."""
    host = ChildHost(EngineSpec("fake_speech:FakeSpeech", sys.executable, folder=FOLDER))
    host.load()
    yield host
    host.close()


def speak(host: ChildHost, text: str, **changes: Any) -> HostResult:
    """Do one run; what is not a parameter of the run goes to the host."""
    run: dict[str, Any] = {
        "on_segment": lambda content, metadata: None,
        "on_progress": lambda progress: None,
        "deadline_s": 30.0,
    }
    for name in (*run, "cancelled", "grace_s", "run_id"):
        if name in changes:
            run[name] = changes.pop(name)
    return host.run({"text": text, **changes}, {}, **run)


def samples(content: bytes) -> bytes:
    """Give the samples of a WAV that must be mono PCM16 at 24 kHz."""
    with wave.open(io.BytesIO(content)) as wav:
        assert (1, 2, 24_000) == (wav.getnchannels(), wav.getsampwidth(), wav.getframerate())
        frames: bytes = wav.readframes(wav.getnframes())
        return frames


def test_speech_is_as_long_as_its_text_and_says_that_it_is_fake(speech: ChildHost) -> None:
    """60 ms a character; the metadata names the model, its revision, and what it is."""
    result = speak(speech, "Hello, 世界")

    assert ("audio/wav", 540) == (result.media_type, result.duration_ms)
    assert 540 * 24 * 2 == len(samples(result.content))
    assert {"model_id": "fake/speech", "model_revision": "1", "fake": True, "segments": 1} == result.metadata


def test_segments_joined_are_the_whole(speech: ChildHost) -> None:
    """Each segment but the first begins with the silence; joined, they are the artifact (R60)."""
    segments: list[bytes] = []
    progress: list[tuple[int, int]] = []
    result = speak(
        speech,
        "x" * 50,
        stream=True,
        interval_silence=100,
        on_segment=lambda content, metadata: segments.append(samples(content)),
        on_progress=lambda heard: progress.append((heard["completed"], heard["total"])),
    )

    assert [1200, 1300, 700] == [len(segment) // 48 for segment in segments]
    assert samples(result.content) == b"".join(segments)
    assert bytes(100 * 48) == segments[1][: 100 * 48]
    assert [(1, 3), (2, 3), (3, 3)] == progress


@pytest.mark.parametrize(
    ("directive", "error", "then_alive"),
    [
        ("raise", EngineFailed, True),
        ("transient", EngineFailed, True),
        ("nan", EngineFailed, True),
        ("crash", HostLost, False),
        ("exit", HostLost, False),
        ("hang", HostDeadline, False),
        ("hang_gil", HostDeadline, False),
    ],
)
def test_directives_make_it_misbehave(
    speech: ChildHost, directive: str, error: type[HostError], then_alive: bool
) -> None:
    with pytest.raises(error) as caught:
        speak(speech, f"[fake:{directive}] hello", deadline_s=0.5)

    assert (error, then_alive) == (type(caught.value), speech.alive)
    assert (directive == "transient") == getattr(caught.value, "transient", False)
    if directive == "exit":
        assert 3 == getattr(caught.value, "exit_code", None)


@pytest.mark.parametrize("directive", ["", "[fake:unknown]", "[fake:crash]"])
def test_a_metered_call_is_noted_before_it_can_fail(tmp_path: Path, directive: str) -> None:
    """The journal holds one line for each call that was charged, whatever became of it."""
    journal = tmp_path / "journal"
    options = {"journal": os.fspath(journal)}
    host = ChildHost(EngineSpec("fake_speech:FakeMetered", sys.executable, options, folder=FOLDER))
    info = host.load()
    try:
        result = speak(host, directive + "hello", run_id="attempt_1")
    except OutcomeUnknown:
        assert "[fake:unknown]" == directive
    except HostLost:
        assert "[fake:crash]" == directive
    else:
        assert ("", "fake/metered-speech") == (directive, result.metadata["model_id"])
    host.close()

    assert "attempt_1\n" == journal.read_text()
    assert ("fake/metered-speech", False) == (info["model_id"], info["rerunnable"])
