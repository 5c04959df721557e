"""Fake recognition engines, for tests and trials: no model, and words that mean nothing (`"fake": true`).

A word is a stretch of sound between silences (20 ms of zeros), and is named by a hash of its samples: the
same sound is the same word, wherever it is and in whichever part, and it is reported at once. A stretch
whose samples all have one value is a directive: what goes wrong is chosen by the sound itself, since a
recording has no parameters.

    1001, 1002   an exception; an EngineError that may pass
    1003, 1004   the end of the process with exit code 3; deaf to a cancel
    1005, 1006   bytes that are not JSON; a segment with a time that is not a number
    1007, 1008   a segment past the end of the part; a segment of an unknown type
    1009         only the second engine raises
    1101 … 1198  wait 0.1 s … 9.8 s, and 1199 a minute; a cancel ends it
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from array import array
from collections.abc import Iterator
from typing import Any

from tenuto_engine import EngineError, Result, Run

from .fake_speech import label, sleep

LANGUAGES = ("zh", "en", "ja", "es", "ar")
AUTOMATIC = "auto"
RATE = 16_000
FRAME_BYTES = 640
SPEAKERS = 2
_SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "wo", "xu", "za")
_FOREVER_S = 3600


class FakeSegmentText:
    """The first transcript: words with speakers (two, chosen by the sound) and the silences between them."""

    model_id = "fake/segment-text"

    def __init__(self, options: dict[str, Any]) -> None:
        self.info = label(self.model_id)

    def run(self, run: Run) -> Result:
        names: dict[int, str] = {}
        segments: list[dict[str, Any]] = []
        before = 0.0
        for start, end, samples in _sounds(run.inputs["audio"]):
            _misbehave(run, samples, segments, start)
            if start > before:
                segments.append(_segment(before, start, "", speaker=None, type="silence"))
            who = _digest(samples)[0] % SPEAKERS
            speaker = names.setdefault(who, f"S{len(names) + 1:02}")
            segments.append(_segment(start, end, _word(samples), speaker=speaker, type="speech"))
            run.segment(_word(samples).encode(), {"start": start, "end": end})
            before = end
        embeddings = {name: [float(who == index) for index in range(SPEAKERS)] for who, name in names.items()}
        return _result(run, self.model_id, segments, speakers=embeddings)


class FakeWordTimestamps:
    """The second transcript: each word by itself."""

    model_id = "fake/word-timestamps"

    def __init__(self, options: dict[str, Any]) -> None:
        self.info = label(self.model_id)

    def run(self, run: Run) -> Result:
        segments: list[dict[str, Any]] = []
        for start, end, samples in _sounds(run.inputs["audio"]):
            if _directive(samples) == 1009:
                raise ValueError("the fake engine was told to raise")
            segments.append(_segment(start, end, _word(samples)))
            run.segment(_word(samples).encode(), {"start": start, "end": end})
        return _result(run, self.model_id, segments)


def _sounds(audio: bytes) -> Iterator[tuple[float, float, bytes]]:
    """The start and end in seconds and the samples of each stretch between silences."""
    start = None
    for at in range(0, len(audio) + FRAME_BYTES, FRAME_BYTES):
        frame = audio[at : at + FRAME_BYTES]
        silent = frame.count(0) == len(frame)
        if start is None and not silent:
            start = at
        elif start is not None and silent:
            samples = audio[start:at].strip(b"\0")
            yield start / (2 * RATE), min(at, len(audio)) / (2 * RATE), samples
            start = None


def _misbehave(run: Run, samples: bytes, segments: list[dict[str, Any]], start: float) -> None:
    directive = _directive(samples)
    if directive == 1001:
        raise ValueError("the fake engine was told to raise")
    if directive == 1002:
        raise EngineError("engine_failed", "the fake engine was told to fail for a while", transient=True)
    if directive == 1003:
        os._exit(3)
    if directive == 1004:
        time.sleep(_FOREVER_S)
    if directive == 1005:
        segments.append({"garbage": True})
    if directive == 1006:
        segments.append(_segment(float("nan"), start, "nan", speaker=None, type="speech"))
    if directive == 1007:
        segments.append(_segment(start, 1e6, "late", speaker=None, type="speech"))
    if directive == 1008:
        segments.append(_segment(start, start, "odd", speaker=None, type="thunder"))
    if 1101 <= directive <= 1199:
        sleep(run, 60 if directive == 1199 else (directive - 1100) / 10)


def _directive(samples: bytes) -> int:
    """The value that all samples share, or 0; a trimmed zero byte at an end does not matter."""
    values = array("h", samples[: len(samples) // 2 * 2])
    return values[0] if len(values) > 1 and values.count(values[0]) == len(values) else 0


def _digest(samples: bytes) -> bytes:
    return hashlib.blake2b(samples, digest_size=8).digest()


def _word(samples: bytes) -> str:
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in _digest(samples))


def _segment(start: float, end: float, text: str, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "text": text, **more}


def _result(run: Run, model_id: str, segments: list[dict[str, Any]], **more: Any) -> Result:
    """The transcript, in the requested language if it is one of LANGUAGES; else in English, with a warning
    if the caller named one."""
    wanted = run.parameters.get("language")
    is_known = wanted in (None, AUTOMATIC, *LANGUAGES)
    warnings = [] if is_known else [f"the language {wanted!r} is not known"]
    seconds = len(run.inputs["audio"]) // (2 * RATE)
    run.progress("recognising", seconds, seconds, "seconds")
    language = wanted if wanted in LANGUAGES else "en"
    transcript = {"language": language, "segments": segments, "warnings": warnings, **more}
    content = json.dumps(transcript, ensure_ascii=False).encode()
    if any("garbage" in segment for segment in segments):
        content = b"no JSON at all"
    return Result("application/json", content, label(model_id))
