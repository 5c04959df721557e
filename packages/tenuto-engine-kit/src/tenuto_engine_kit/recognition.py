"""What recognition engines share: audio in, a transcript out.

A model's answer is checked: segments with impossible times are left out and recorded as doubts, and the
worker has a doubtful chunk transcribed once more.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tenuto_engine import EngineError, Result, Run

Floats = npt.NDArray[np.float32]
Segment = dict[str, Any]

RATE = 16_000
LONGEST_S = 15 * 60
"""The longest chunk; the worker's are at most 650 seconds long."""
BEYOND_S = 2.0
"""A segment may end this far after the chunk, and is then cut; further out, its times are made up."""

_FRAME = RATE // 50
_LABEL = re.compile(r"[\[(（【<]\s*([^\[\]()（）【】<>]{1,60}?)\s*[\])）】>]\Z")
_TYPES = (
    ("silence", re.compile(r"silen|blank.?audio|静音|沉默|无声")),
    ("singing", re.compile(r"sing|song|歌|唱")),
    ("music", re.compile(r"music|melody|音乐|音樂|♪")),
    ("noise", re.compile(r"nois|sound|laugh|applau|cough|breath|cheer|cry|噪|笑|掌声|咳|声|聲")),
)


def report_piece(run: Run, start_s: float, end_s: float, text: str) -> None:
    """Report a segment whose text is final while the run continues; in the order of the text."""
    run.segment(text.encode("utf-8", "replace"), {"start": round(start_s, 3), "end": round(end_s, 3)})


@dataclass
class Heard:
    """A transcript being built: segments in the order of the model."""

    length_s: float
    run: Run | None = None
    """Gets each segment with words as it is added: only if what is added is final and in order."""
    segments: list[Segment] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """Why the transcript may be incomplete. The caller may transcribe the chunk once more."""
    misplaced: int = 0

    def add(self, start: Any, end: Any, text: str, **more: Any) -> None:
        """Add a segment with times in seconds from the chunk's start, unless the times are impossible."""
        start_s, end_s = number(start), number(end)
        if start_s is None or end_s is None or not self._is_inside(start_s, end_s):
            self.misplaced += 1
            return
        start_s, end_s = max(0.0, start_s), min(end_s, self.length_s)
        times = {"start": round(min(start_s, end_s), 3), "end": round(end_s, 3)}
        self.segments.append({**times, "text": text.strip(), **more})
        if self.run is not None and text.strip():
            report_piece(self.run, times["start"], times["end"], text.strip())

    def told(self, model_id: str, revision: str, language: str | None) -> Result:
        """The transcript as a run's result."""
        if self.misplaced:
            self.doubts.append(f"Segments with impossible times were left out: {self.misplaced}.")
        value = {
            "language": language,
            "segments": self.segments,
            "warnings": self.warnings,
            "doubts": self.doubts,
        }
        content = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        metadata = {"model_id": model_id, "model_revision": revision}
        return Result("application/json", content, metadata, round(self.length_s * 1000))

    def _is_inside(self, start_s: float, end_s: float) -> bool:
        return -BEYOND_S <= start_s <= end_s <= self.length_s + BEYOND_S and start_s < self.length_s


def part_of(run: Run) -> Floats:
    """The chunk's samples in -1..1 from `run.inputs["audio"]`: PCM16, little-endian, mono, 16 kHz."""
    audio = run.inputs["audio"]
    if len(audio) % 2:
        raise EngineError("input_unreadable", "The audio is not a whole number of 16-bit samples.")
    if len(audio) > 2 * RATE * LONGEST_S:
        raise EngineError("input_unreadable", f"A chunk has at most {LONGEST_S} s.")
    return np.frombuffer(audio, "<i2").astype(np.float32) / np.float32(32768)


def pieces(samples: Floats, longest_s: float) -> Iterator[tuple[float, Floats]]:
    """The audio cut at quiet moments: the start of each piece in seconds, and its samples.

    A cut is made in the last third of the maximum length of a piece.
    """
    longest, start = int(longest_s * RATE), 0
    while len(samples) - start > longest:
        first = start + longest * 2 // 3
        loudness = _loudness(samples[first : start + longest])
        end = first + (int(np.argmin(loudness)) * _FRAME + _FRAME // 2 if loudness.size else 0)
        yield start / RATE, samples[start:end]
        start = end
    if start < len(samples):
        yield start / RATE, samples[start:]


def loudest(samples: Floats, seconds: float) -> Floats:
    """The loudest stretch of this many seconds; everything if it is shorter."""
    loudness = _loudness(samples)
    count = int(seconds * RATE) // _FRAME
    if loudness.size <= count:
        return samples
    sums = np.cumsum(np.concatenate([[0.0], loudness]))
    first = int(np.argmax(sums[count:] - sums[:-count])) * _FRAME
    return samples[first : first + count * _FRAME]


def label_of(text: str) -> str | None:
    """The sound type of a text that is only a label in brackets; None for words."""
    found = _LABEL.match(text.strip())
    if not found:
        return None
    name = found[1].casefold()
    # Speech that was not understood is still speech.
    if "speech" in name or "unintelligible" in name or "inaudible" in name:
        return "speech"
    return next((kind for kind, said in _TYPES if said.search(name)), None)


def number(value: Any) -> float | None:
    """A finite number of seconds, also from text; else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None


def letters(text: str) -> str:
    """Letters and digits of a text, without case, for comparisons."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def _loudness(samples: Floats) -> npt.NDArray[np.float64]:
    """The mean square of every 20 ms."""
    whole = len(samples) // _FRAME * _FRAME
    frames = samples[:whole].astype(np.float64).reshape(-1, _FRAME)
    return np.asarray((frames * frames).mean(axis=1), np.float64)
