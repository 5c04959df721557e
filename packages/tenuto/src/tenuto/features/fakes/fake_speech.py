"""Fake engines, for tests and trials: no model, no meaning, and results that say so (`"fake": true`).

Speech is a tone per character, derived from the character alone: the same text gives the same bytes.
Directives at the start of the text choose what goes wrong, one after the other; they are not spoken:

    [fake:raise] [fake:transient]        an exception with a path in it; an EngineError that may pass
    [fake:hang] [fake:hang_gil]          deaf to a cancel; deaf and holding the interpreter's lock
    [fake:crash] [fake:exit]             a segmentation fault; the end of the process with exit code 3
    [fake:garbage] [fake:nan]            a result that is not a WAV; metadata that is not JSON
    [fake:sleep=S] [fake:slow_segments=S]  wait before the first, before each segment; a cancel ends it
    [fake:memory=MB]                     hold this much memory while speaking
    [fake:segments=N] [fake:segment_kib=K]  first show N segments of K KiB of silence, not part of the result
    [fake:edges=S]                       S seconds of silence before and after what is spoken
    [fake:bad_segment]                   show something that is not a WAV
    [fake:crash_late]                    crash after all segments, before the result
    [fake:unknown]                       only FakeMetered: the call's outcome is not known
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import io
import os
import re
import sys
import time
import wave
from array import array
from functools import lru_cache
from typing import Any

from tenuto_engine import EngineError, InputError, OutcomeUnknown, Result, Run

RATE = 24_000
CHARACTER_MS = 60
SEGMENT_CHARACTERS = 20
WAV_HEADER_BYTES = 44
REVISION = "1"

_DIRECTIVE = re.compile(r"\[fake:(\w+)(?:=([0-9.]+))?\]\s*")
_FOREVER_S = 3600
_LATE_S = 0.2
_CHECK_S = 0.005


class FakeSpeech:
    """Speech of tones: mono PCM16 at 24 kHz, 60 ms a character times `duration_factor`.

    Cut every 20 characters; `interval_silence` comes at the start of every segment but the first.
    """

    model_id = "fake/speech"
    # It waits more than it works, so it keeps any number of slots busy.
    concurrency = 16

    def __init__(self, options: dict[str, Any]) -> None:
        self.info = label(self.model_id)

    def run(self, run: Run) -> Result:
        directives, text = read_directives(str(run.parameters["text"]))
        misbehave(run, directives)
        return _speak(run, text, directives, self.model_id)


class FakeMetered:
    """The same, as an upstream that charges for each call (not rerunnable).

    `options["journal"]` names a file that gets one line with the run's id for each call that was charged.
    """

    model_id = "fake/metered-speech"
    concurrency = 16

    def __init__(self, options: dict[str, Any]) -> None:
        self.info = {**label(self.model_id), "rerunnable": False}
        self._journal = str(options.get("journal", ""))

    def run(self, run: Run) -> Result:
        directives, text = read_directives(str(run.parameters["text"]))
        if self._journal:
            _note(self._journal, run.run_id)
        if "unknown" in directives:
            raise OutcomeUnknown("the fake upstream closed the connection")
        misbehave(run, directives)
        return _speak(run, text, directives, self.model_id)


def read_directives(text: str) -> tuple[dict[str, float], str]:
    """Split the text into its directives, with their numbers (0 if they have none), and what is spoken."""
    directives: dict[str, float] = {}
    while match := _DIRECTIVE.match(text):
        directives[match[1]] = float(match[2] or 0)
        text = text[match.end() :]
    return directives, text


def label(model_id: str) -> dict[str, Any]:
    """The metadata of every fake."""
    return {"model_id": model_id, "model_revision": REVISION, "fake": True}


def _note(journal: str, run_id: str) -> None:
    descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{run_id}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def misbehave(run: Run, directives: dict[str, float]) -> None:
    """Fail as the directives say, before anything is made."""
    if "raise" in directives:
        raise ValueError(f"the fake engine was told to raise, in {__file__}")
    if "transient" in directives:
        raise EngineError("engine_failed", "the fake engine was told to fail for a while", transient=True)
    if "hang" in directives:
        time.sleep(_FOREVER_S)
    if "hang_gil" in directives:
        # PyDLL, unlike CDLL, keeps the lock during the call.
        ctypes.PyDLL(None).sleep(_FOREVER_S)
    if "crash" in directives:
        ctypes.string_at(0)
    if "exit" in directives:
        os._exit(3)
    if "sleep" in directives:
        sleep(run, directives["sleep"])


def sleep(run: Run, seconds: float) -> None:
    """Wait; a cancel ends it."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        run.check_cancelled()
        time.sleep(min(_CHECK_S, left))
    run.check_cancelled()


def _speak(run: Run, text: str, directives: dict[str, float], model_id: str) -> Result:
    held = b"\1" * (int(directives.get("memory", 0)) << 20)
    if not any(character.isalnum() for character in text):
        raise InputError("nothing_to_speak", "the text holds nothing to speak")
    frames = round(RATE * CHARACTER_MS / 1000 * float(run.parameters.get("duration_factor", 1)))
    silence = bytes(2 * (RATE * int(run.parameters.get("interval_silence", 200)) // 1000))
    _show_more(run, directives)
    starts = range(0, len(text), SEGMENT_CHARACTERS)
    spoken = []
    for index, start in enumerate(starts):
        sleep(run, directives.get("slow_segments", 0))
        part = b"".join(_tone(character, frames) for character in text[start : start + SEGMENT_CHARACTERS])
        spoken.append(silence + part if index else part)
        if run.parameters.get("stream"):
            run.segment(_wav(spoken[-1]), {"duration_ms": _duration_ms(spoken[-1])})
        run.progress("speaking", index + 1, len(starts), "segments")
    if "crash_late" in directives:
        # Let the segments leave the process first, as in a real crash, which comes a little later.
        sleep(run, _LATE_S)
        ctypes.string_at(0)
    edge = bytes(2 * round(RATE * directives.get("edges", 0)))
    samples = b"".join([edge, *spoken, edge])
    metadata = {**label(model_id), "segments": len(spoken)}
    if run.inputs:
        metadata["inputs"] = {
            name: hashlib.sha256(run.inputs[name]).hexdigest() for name in sorted(run.inputs)
        }
    if "nan" in directives:
        metadata["score"] = float("nan")
    if held:
        metadata["held_bytes"] = len(held)
    content = b"no WAV at all" if "garbage" in directives else _wav(samples)
    return Result("audio/wav", content, metadata, _duration_ms(samples))


def _show_more(run: Run, directives: dict[str, float]) -> None:
    """Segments beyond what is spoken, to exceed the limits of a preview."""
    if "bad_segment" in directives:
        run.segment(b"no WAV at all", {})
    silence = _wav(bytes(max(0, (int(directives.get("segment_kib", 1)) << 10) - WAV_HEADER_BYTES)))
    for _ in range(int(directives.get("segments", 0))):
        run.check_cancelled()
        run.segment(silence, {"duration_ms": _duration_ms(silence)})


@lru_cache(maxsize=4096)
def _tone(character: str, frames: int) -> bytes:
    """A triangle wave of 150 to 1,000 Hz in integers, the same on every machine; spaces are silent."""
    if character.isspace():
        return bytes(2 * frames)
    digest = hashlib.blake2b(character.encode("utf-8", "replace"), digest_size=2).digest()
    frequency = 150 + int.from_bytes(digest, "big") % 850
    half = RATE // 2
    samples = array("h", (abs((i * frequency) % RATE - half) - half // 2 for i in range(frames)))
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()


def _wav(samples: bytes) -> bytes:
    file = io.BytesIO()
    with contextlib.closing(wave.open(file, "wb")) as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(RATE)
        wav.writeframes(samples)
    return file.getvalue()


def _duration_ms(samples: bytes) -> int:
    return round(len(samples) * 1000 / (2 * RATE))
