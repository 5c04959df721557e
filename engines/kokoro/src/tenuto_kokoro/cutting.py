"""Units of text with their sounds, and how they are grouped into segments. Knows no language and no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

PUNCTUATION = frozenset(' ;:,.!?—…"()“”')
"""Symbols of the model's vocabulary that make no sound of their own."""

MODIFIERS = frozenset("ˈˌːʰʲᵝʔ→↗↘↓\u0303")
"""Symbols that change the sound beside them; without one the model says nothing."""


class Ending(IntEnum):
    """What ends after a unit. A segment is cut where most ends."""

    WORD = 1
    CLAUSE = 2
    SENTENCE = 3


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of text that is never divided, and its sounds as symbols of the model's vocabulary."""

    text: str
    """As written, with what follows it up to the next unit: the texts of all units make up the whole text."""
    phonemes: str
    ending: Ending = Ending.WORD
    skipped: str = ""
    """Characters of `text` that cannot be spoken and are left out."""


@dataclass(frozen=True, slots=True)
class Segment:
    """What the model speaks in one go."""

    text: str
    phonemes: str


def segments(units: Sequence[Unit], limit: int, cap: int, *, first: int, soonest: int) -> list[Segment]:
    """Group units into segments of at most `limit` symbols; a single longer word stands alone, cut at `cap`.

    Cuts fall at the end of a sentence where one is within reach, else of a clause, else of a word; among
    equals the latest wins. If a text needs several segments, the first is short, so that playback starts
    early: it ends with the first clause or sentence after `soonest` symbols and has at most `first`. The
    others grow up to the limit, but only so fast that none is late if speech takes half its own length to
    make. Units that make no sound stay with their neighbours. Empty when nothing can be spoken.
    """
    spoken = _voiced(units)
    if not spoken:
        return []
    if _reach(spoken, 0, limit) == len(spoken):
        return _capped(_joined(spoken), cap)
    first = min(limit, first)
    end = _first_cut(spoken, soonest, _reach(spoken, 0, first))
    symbols = len(joined(spoken[:end]))
    begin = max(symbols, soonest)
    found = _capped(_joined(spoken[:end]), cap)
    while end < len(spoken):
        # Those after the first took half their length of playback to make; the rest is left for this one.
        start, end = end, _next_cut(spoken, end, min(limit, symbols + begin), first)
        piece = _joined(spoken[start:end])
        found += _capped(piece, cap)
        symbols += len(piece.phonemes)
    return found


def shared(pieces: Sequence[Segment], most: int) -> list[list[Segment]]:
    """Segments in their order as at most `most` groups of neighbours; each alone where that is enough."""
    count = min(len(pieces), most)
    ends = [len(pieces) * index // max(1, count) for index in range(count + 1)]
    return [list(pieces[start:end]) for start, end in pairwise(ends)]


def joined(units: Sequence[Unit]) -> str:
    """The symbols of units said one after the other."""
    return " ".join("".join(unit.phonemes for unit in units).split())


def is_voiced(phonemes: str) -> bool:
    """Whether any symbol makes a sound."""
    return not PUNCTUATION.union(MODIFIERS).issuperset(phonemes)


def _voiced(units: Sequence[Unit]) -> list[Unit]:
    """Join each silent unit to the one before it, and silent ones at the start to the first that is heard."""
    found: list[Unit] = []
    before = ""
    for unit in units:
        if is_voiced(unit.phonemes):
            found.append(Unit(before + unit.text, unit.phonemes, unit.ending))
            before = ""
        elif found:
            last = found[-1]
            ending = max(last.ending, unit.ending)
            found[-1] = Unit(last.text + unit.text, last.phonemes + unit.phonemes, ending)
        else:
            before += unit.text
    return found


def _reach(units: Sequence[Unit], start: int, limit: int) -> int:
    """The end of the longest run from `start` within the limit; one unit at least."""
    end = start + 1
    while end < len(units) and len(joined(units[start : end + 1])) <= limit:
        end += 1
    return end


def _joined(units: Sequence[Unit]) -> Segment:
    return Segment("".join(unit.text for unit in units), joined(units))


def _first_cut(units: Sequence[Unit], soonest: int, reach: int) -> int:
    for end in range(1, reach + 1):
        if units[end - 1].ending >= Ending.CLAUSE and len(joined(units[:end])) >= soonest:
            return end
    return _cut(units, 0, reach)


def _next_cut(units: Sequence[Unit], start: int, wished: int, first: int) -> int:
    """The end of a segment of the wished length, or of `first` symbols if that is needed to end a clause."""
    for within in (wished, max(wished, first)):
        end = reach = _reach(units, start, within)
        if reach >= len(units):
            break
        end = _cut(units, start, reach)
        if units[end - 1].ending >= Ending.CLAUSE:
            break
    return end


def _cut(units: Sequence[Unit], start: int, reach: int) -> int:
    return max(range(start + 1, reach + 1), key=lambda end: (units[end - 1].ending, end))


def _capped(segment: Segment, cap: int) -> list[Segment]:
    """Divide the sounds of an over-long word, such as a number of a thousand digits, between words of its
    reading where that can be; its text goes with the first part."""
    parts, rest = [], segment.phonemes
    while len(rest) > cap:
        end = rest.rfind(" ", 1, cap) + 1 or cap
        parts.append(rest[:end].strip())
        rest = rest[end:].strip()
    spoken = [part for part in (*parts, rest) if is_voiced(part)]
    return [Segment("" if index else segment.text, part) for index, part in enumerate(spoken)]
