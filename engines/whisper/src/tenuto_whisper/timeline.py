"""The timeline of a chunk: where there is speech or singing, how it is cut into windows, and which sounds are
elsewhere. It works on a hundred frames a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .sound_events import FRAMES_PER_SECOND, MUSIC, SINGING, SPEECH

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Span = tuple[float, float]

VOICE = 0.4
"""The probability from which a frame is speech or singing (the detector's own default)."""
SOUND = 0.5
"""The probability from which a frame is music, or singing rather than speech."""
SHORTEST_VOICE_S = 0.2
PAUSE_S = 0.3
"""Shorter pauses are part of the speech."""
MARGIN_S = 0.2
"""How much audio around speech goes to the model: the detector misses soft beginnings."""
WINDOW_S = 28.0
"""The longest window, with its margins."""
CUT_FROM_S, QUIET_S = 18.0, 0.2
"""Speech without a pause is cut at the quietest moment of this length, no earlier than here."""
APART_S = 2.5
"""A longer pause separates windows: in a long pause the model makes up words."""

SHORTEST_OTHER_S = 1.0
"""Shorter music, noise and silence are not reported."""
JOINED_OTHER_S = 0.6
"""Interruptions shorter than this do not divide them."""
QUIET_DB, LOUDEST_FLOOR_DB, ABOVE_FLOOR_DB = -50.0, -35.0, 8.0
"""Silence is under -50 dB, or little above the part's own background, if that is under -35 dB."""


@dataclass(frozen=True, slots=True)
class Window:
    """Audio that the model gets at once, and the speech in it."""

    start: float
    end: float
    speech: tuple[Span, ...]

    @property
    def length_s(self) -> float:
        return self.end - self.start

    @property
    def speech_s(self) -> float:
        return sum(end - start for start, end in self.speech)


def voices(probabilities: Floats) -> list[Span]:
    """The spans of speech and singing."""
    voiced = _smoothed(np.maximum(probabilities[:, SPEECH], probabilities[:, SINGING])) >= VOICE
    return _spans(voiced, join_s=PAUSE_S, least_s=SHORTEST_VOICE_S)


def windows(
    spans: Sequence[Span], levels_db: Floats, length_s: float, apart_s: float = APART_S
) -> list[Window]:
    """Speech packed into as few windows as possible; longer speech is cut at quiet moments.

    `levels_db` is the loudness of each frame of the part, `length_s` its length; a pause of `apart_s`
    separates two windows. A window includes some audio around its speech, but none of the next one's.
    """
    most_s = WINDOW_S - 2 * MARGIN_S
    packed: list[list[Span]] = []
    for start, end in _no_longer_than(spans, most_s, levels_db):
        near = packed and start - packed[-1][-1][1] < apart_s
        if near and end - packed[-1][0][0] <= most_s:
            packed[-1].append((start, end))
        else:
            packed.append([(start, end)])
    return list(_with_margins(packed, length_s))


def unheard(window: Window, words: Sequence[Span], least_s: float) -> list[Span]:
    """Speech in a window, of at least this length, without words."""
    missing: list[Span] = []
    for start, end in window.speech:
        at = start
        for begin, finish in sorted(words):
            if finish > start and begin < end:
                if begin - at >= least_s:
                    missing.append((at, begin))
                at = max(at, finish)
        if end - at >= least_s:
            missing.append((at, end))
    return missing


def is_sung(probabilities: Floats, span: Span) -> bool:
    """Whether a span is singing rather than speech."""
    heard = _part(probabilities, span)
    return bool(len(heard)) and bool(heard[:, SINGING].mean() > max(SOUND, heard[:, SPEECH].mean()))


def is_voiced(probabilities: Floats, span: Span) -> bool:
    """Whether there is speech or singing in or next to a span."""
    heard = _part(probabilities, (span[0] - MARGIN_S, span[1] + MARGIN_S))
    return bool(len(heard)) and bool(heard[:, :2].max() >= VOICE)


def others(probabilities: Floats, levels_db: Floats, taken: Iterable[Span]) -> list[tuple[Span, str]]:
    """Music, singing without words, silence and noise outside the spans of words."""
    free = np.ones(len(probabilities), dtype=np.bool_)
    for start, end in taken:
        free[_frame(start) : _frame(end) + 1] = False
    smooth = np.stack([_smoothed(probabilities[:, kind], 25) for kind in range(3)], axis=1)
    music = smooth[:, MUSIC] >= SOUND
    sung = (smooth[:, SINGING] >= SOUND) & ~music
    spoken = (np.maximum(smooth[:, SPEECH], smooth[:, SINGING]) >= VOICE) & ~music & ~sung
    quiet = _smoothed(levels_db, 25) < _silence_below(levels_db)
    found: list[tuple[Span, str]] = []
    for name, flags in (
        ("music", music),
        ("singing", sung),
        ("silence", quiet & ~spoken),
        ("noise", ~quiet & ~spoken),
    ):
        for start, end in _spans(flags & free, join_s=JOINED_OTHER_S, least_s=SHORTEST_OTHER_S, within=free):
            found.append(((start, end), name))
            # Report each span only once.
            free[_frame(start) : _frame(end) + 1] = False
    return sorted(found)


def levels(samples: Floats, count: int) -> Floats:
    """The loudness of each frame in dB of full scale."""
    step = 16_000 // FRAMES_PER_SECOND
    padded = np.pad(samples[: count * step], (0, max(0, count * step - len(samples))))
    power = np.square(padded.reshape(count, step)).mean(axis=1)
    found: Floats = (10 * np.log10(power + 1e-10)).astype(np.float32)
    return found


def _silence_below(levels_db: Floats) -> float:
    floor = float(np.percentile(levels_db, 10)) if len(levels_db) else QUIET_DB
    return max(QUIET_DB, floor + ABOVE_FLOOR_DB) if floor < LOUDEST_FLOOR_DB else QUIET_DB


def _no_longer_than(spans: Sequence[Span], most_s: float, levels_db: Floats) -> Iterable[Span]:
    for start, end in spans:
        at = start
        while end - at > most_s:
            cut = _quietest(levels_db, at + CUT_FROM_S, at + most_s)
            yield at, cut
            at = cut
        yield at, end


def _with_margins(packed: Sequence[Sequence[Span]], length_s: float) -> Iterable[Window]:
    for number, speech in enumerate(packed):
        before = packed[number - 1][-1][1] if number else 0.0
        after = packed[number + 1][0][0] if number + 1 < len(packed) else length_s
        start, end = max(before, speech[0][0] - MARGIN_S), min(after, speech[-1][1] + MARGIN_S)
        yield Window(start, end, tuple(speech))


def _quietest(levels_db: Floats, start: float, end: float) -> float:
    """The middle of the quietest moment between two times."""
    first, last = _frame(start), _frame(end)
    smooth = _smoothed(levels_db[first:last], round(QUIET_S * FRAMES_PER_SECOND))
    return (first + int(np.argmin(smooth))) / FRAMES_PER_SECOND


def _spans(flags: Flags, *, join_s: float, least_s: float, within: Flags | None = None) -> list[Span]:
    """Runs of true frames; short interruptions are bridged (not over frames outside `within`)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    found: list[list[int]] = []
    for start, end in edges.reshape(-1, 2):
        gap = slice(found[-1][1], start) if found else slice(0)
        if (
            found
            and start - found[-1][1] < join_s * FRAMES_PER_SECOND
            and (within is None or within[gap].all())
        ):
            found[-1][1] = int(end)
        else:
            found.append([int(start), int(end)])
    spans = [(start / FRAMES_PER_SECOND, end / FRAMES_PER_SECOND) for start, end in found]
    return [(start, end) for start, end in spans if end - start >= least_s]


def _smoothed(values: Floats, width: int = 5) -> Floats:
    """The mean over the frames around each."""
    if not len(values):
        return values
    padded = np.pad(values.astype(np.float64), (width // 2 + 1, width - width // 2 - 1), mode="edge")
    sums = np.cumsum(padded)
    found: Floats = ((sums[width:] - sums[:-width]) / width).astype(np.float32)
    return found


def _part(values: Floats, span: Span) -> Floats:
    return values[max(0, _frame(span[0])) : max(0, _frame(span[1])) + 1]


def _frame(second: float) -> int:
    return round(second * FRAMES_PER_SECOND)
