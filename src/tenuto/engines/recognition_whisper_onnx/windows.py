"""Where someone speaks, and windows of at most half a minute around it. Knows no words.

A window is cut out as it is, pauses within it included, so that a time in it is a time of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .model_file import Floats

FRAMES_PER_SECOND = 100
LONGEST_S = 29.0
"""A window, edges included. The model hears 30 s."""
_LIKELY = 0.4
"""From this probability on a frame is voice. A word that is missed here is missed for good, so it is low."""
_SHORTEST_S = 0.1
"""A voice that is shorter is a click."""
_BREATH_S = 0.3
"""Voices so close together are one."""
_EDGE_S = 0.25
"""How much of what is around a voice belongs to its window: soft first and last sounds."""
_PAUSE_S = 4.0
"""After a longer pause a new window begins: in long silence the model makes up words."""
_CUT_FROM_S = 18.0
"""A voice without a pause is cut no earlier than here."""
_LEFT_S = 0.5
"""Voices of so much after the last words of a window are heard once more by themselves."""
_QUIET_S = 0.2
"""How long the quietest place of a voice is."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the recording, in seconds."""

    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


def voices(probabilities: Floats) -> list[Span]:
    """Where someone speaks or sings: [frames, (speech, singing, music)] → stretches with breaths between."""
    likely = np.maximum(probabilities[:, 0], probabilities[:, 1]) >= _LIKELY
    steps = np.flatnonzero(np.diff(np.concatenate([[0], likely.astype(np.int8), [0]])))
    found: list[Span] = []
    for first, last in steps.reshape(-1, 2) / FRAMES_PER_SECOND:
        if found and first - found[-1].end < _BREATH_S:
            found[-1] = Span(found[-1].start, float(last))
        else:
            found.append(Span(float(first), float(last)))
    return [span for span in found if span.length >= _SHORTEST_S]


def windows(found: Iterable[Span], samples: Floats, rate: int) -> list[Span]:
    """Voices packed into windows, each cut in a pause or, where there is none, at a quiet place."""
    total = len(samples) / rate
    room = LONGEST_S - 2 * _EDGE_S
    packed: list[Span] = []
    for span in found:
        for piece in _pieces(span, samples, rate, room):
            last = packed[-1] if packed else None
            if last and piece.start - last.end <= _PAUSE_S and piece.end - last.start <= room:
                packed[-1] = Span(last.start, piece.end)
            else:
                packed.append(piece)
    return list(_with_edges(packed, total))


def halves(span: Span, samples: Floats, rate: int) -> list[Span]:
    """A window cut at the quietest place of its middle third."""
    third = span.length / 3
    at = _quietest(samples, rate, span.start + third, span.end - third)
    return [Span(span.start, at), Span(at, span.end)]


def left_over(window: Span, told_until: float, found: Iterable[Span]) -> Span | None:
    """What comes after the last words of a window, if voices do: the model sometimes stops early."""
    voiced = (min(span.end, window.end) - max(span.start, told_until) for span in found)
    if sum(length for length in voiced if length > 0) < _LEFT_S:
        return None
    return Span(told_until, window.end)


def _pieces(span: Span, samples: Floats, rate: int, room: float) -> Iterator[Span]:
    start = span.start
    while span.end - start > room:
        at = _quietest(samples, rate, start + _CUT_FROM_S, start + room)
        yield Span(start, at)
        start = at
    yield Span(start, span.end)


def _with_edges(packed: list[Span], total: float) -> Iterator[Span]:
    """Each window with some of what is around it, but nothing of its neighbours."""
    for index, span in enumerate(packed):
        before = packed[index - 1].end if index else 0.0
        after = packed[index + 1].start if index + 1 < len(packed) else total
        start = max(span.start - _EDGE_S, (before + span.start) / 2 if index else 0.0)
        end = min(span.end + _EDGE_S, (span.end + after) / 2 if index + 1 < len(packed) else total)
        yield Span(start, end)


def _quietest(samples: Floats, rate: int, first: float, last: float) -> float:
    """The middle of the quietest moment between two times."""
    block = rate // FRAMES_PER_SECOND
    part = samples[round(first * rate) : round(last * rate)]
    part = part[: len(part) // block * block]
    powers: npt.NDArray[np.float64] = (part.reshape(-1, block).astype(np.float64) ** 2).mean(axis=1)
    width = round(_QUIET_S * FRAMES_PER_SECOND)
    if len(powers) < width:
        return (first + last) / 2
    sums = np.convolve(powers, np.ones(width), "valid")
    return first + (int(np.argmin(sums)) + width / 2) / FRAMES_PER_SECOND
