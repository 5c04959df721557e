"""The fake engines, as a worker sees them: in a host of their own."""

import io
import os
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.speed import at_least
from tenuto.features.fakes.entries import FOLDER
from tenuto.host.child_host import ChildHost
from tenuto.host.host import (
    Cancellation,
    Cancelled,
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


def test_the_same_text_sounds_the_same_and_another_does_not(speech: ChildHost) -> None:
    """Every character has its tone; a space is silent."""
    first, again, other = (speak(speech, text).content for text in ("abc a", "abc a", "abd a"))

    assert first == again
    assert first != other
    character = 60 * 24 * 2
    spoken = samples(first)
    assert spoken[:character] == spoken[4 * character :]
    assert bytes(character) == spoken[3 * character : 4 * character]


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


def test_without_stream_there_are_no_segments_and_the_result_is_the_same(speech: ChildHost) -> None:
    """Streaming changes what is shown, not what is made."""
    segments: list[bytes] = []
    quiet = speak(speech, "x" * 50, on_segment=lambda content, metadata: segments.append(content))

    assert [] == segments
    assert speak(speech, "x" * 50, stream=True).content == quiet.content


def test_a_duration_factor_stretches(speech: ChildHost) -> None:
    """Larger is slower."""
    assert 90 == speak(speech, "x", duration_factor=1.5).duration_ms


def test_text_with_nothing_to_speak_fails(speech: ChildHost) -> None:
    """Punctuation alone is refused, by the contract's code."""
    with pytest.raises(EngineFailed) as failed:
        speak(speech, "…!?")

    assert "nothing_to_speak" == failed.value.code


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
    """Each fault is a real one, and goes on as the host promises."""
    with pytest.raises(error) as caught:
        speak(speech, f"[fake:{directive}] hello", deadline_s=0.5)

    assert (error, then_alive) == (type(caught.value), speech.alive)
    assert (directive == "transient") == getattr(caught.value, "transient", False)
    if directive == "exit":
        assert 3 == getattr(caught.value, "exit_code", None)


def test_directives_are_not_spoken(speech: ChildHost) -> None:
    """Only the rest of the text is heard."""
    plain = speak(speech, "hello")

    assert plain.content == speak(speech, "[fake:sleep=0.01][fake:slow_segments=0.01] hello").content


def test_garbage_is_no_wav(speech: ChildHost) -> None:
    """The bytes cannot be decoded, but are said to be audio."""
    result = speak(speech, "[fake:garbage] hello")

    assert ("audio/wav", b"no WAV at all") == (result.media_type, result.content)


def test_memory_is_held(speech: ChildHost) -> None:
    """So many MiB are there while it speaks."""
    assert 8 << 20 == speak(speech, "[fake:memory=8] hello").metadata["held_bytes"]


def test_a_sleep_takes_its_time_and_hears_a_cancel(speech: ChildHost) -> None:
    """Waiting is for tests that need a run to be under way."""
    with at_least(0.1):
        speak(speech, "[fake:sleep=0.1] hello")
    cancelled = Cancellation()
    with pytest.raises(Cancelled) as error:
        speak(
            speech,
            "[fake:slow_segments=0.01] " + "x" * 8000,
            on_progress=lambda _: cancelled.set(),
            cancelled=cancelled,
        )
    assert not error.value.lost


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
