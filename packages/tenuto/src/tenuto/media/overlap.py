"""Where the transcripts of two overlapping parts are joined: the longest run of words that both have. Pure.

What both transcripts say in the seconds they share is found as text, with its times as a check: two
runs over the same sound agree on words better than on times. Scripts without spaces are compared by
character.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

Segment = dict[str, Any]

TIME_TOLERANCE_S = 3.0
"""Two equal words this far apart are two words. A word's time is read off its place in its segment, and may
be some seconds out in a long segment with pauses."""

# Thai, Lao, Myanmar, Khmer, kana, Han: no spaces between words, so a character stands for a word.
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_SPACELESS}]|[^\s{_SPACELESS}]+")


@dataclass(frozen=True, slots=True)
class CutPoint:
    """A point in a transcript: before the character `offset` of the text of segment `segment`, at `at_s`."""

    segment: int
    offset: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Splice:
    """Keep the earlier transcript up to `left`, the later one from `right` on; `at_s` divides all else."""

    left: CutPoint
    right: CutPoint
    at_s: float
    matched: bool
    """Whether both places are the same word."""


@dataclass(frozen=True, slots=True)
class _Word:
    key: str
    """How it is compared: without case and marks."""
    place: CutPoint


def find_splice(earlier: Sequence[Segment], later: Sequence[Segment], start_s: float, end_s: float) -> Splice:
    """The joint of two transcripts in absolute time that share the seconds from `start_s` to `end_s`.

    Both are sorted by start. Segments without text take no part.
    """
    left, right = _words(earlier, start_s, end_s), _words(later, start_s, end_s)
    middle = (start_s + end_s) / 2
    if run := _common_run(left, right, middle):
        first, second, length = run
        # In the middle of the run, both transcripts are far from the edge where each may have half a word.
        one, other = left[first + length // 2].place, right[second + length // 2].place
        return Splice(one, other, (one.at_s + other.at_s) / 2, matched=True)
    if not left or not right:
        # What only one of them heard is kept whole.
        at_s = start_s if right else end_s if left else middle
    else:
        at_s = _quiet_moment(earlier, later, start_s, end_s)
    return Splice(_segment_at(earlier, at_s), _segment_at(later, at_s), at_s, matched=False)


def _words(segments: Sequence[Segment], start_s: float, end_s: float) -> list[_Word]:
    """The words of all segments that touch the shared seconds, marks alone left out."""
    return [
        word
        for index, segment in enumerate(segments)
        if segment["text"] and segment["end"] > start_s and segment["start"] < end_s
        for word in _segment_words(index, segment)
    ]


def _segment_words(index: int, segment: Segment) -> Iterator[_Word]:
    text = segment["text"]
    length_s = segment["end"] - segment["start"]
    for found in _WORD.finditer(text):
        key = "".join(sign for sign in found[0].casefold() if sign.isalnum())
        if key:
            at_s = segment["start"] + length_s * found.start() / len(text)
            yield _Word(key, CutPoint(index, found.start(), at_s))


def _common_run(left: Sequence[_Word], right: Sequence[_Word], middle: float) -> tuple[int, int, int] | None:
    """The longest run of equal words: where it starts in each, and how many words it has.

    Of runs of one length, the one whose times agree best, then the one nearest to the middle.
    """
    runs: list[tuple[int, int, int]] = []
    for shift in range(-len(left) + 1, len(right)):
        pairs = ((at, at + shift) for at in range(max(0, -shift), min(len(left), len(right) - shift)))
        for same, run in groupby(pairs, key=lambda pair: _same(left[pair[0]], right[pair[1]])):
            if same:
                first, *others = run
                runs.append((*first, 1 + len(others)))
    return max(runs, key=lambda run: _rank(left, right, run, middle)) if runs else None


def _same(one: _Word, other: _Word) -> bool:
    return one.key == other.key and abs(one.place.at_s - other.place.at_s) <= TIME_TOLERANCE_S


def _rank(
    left: Sequence[_Word], right: Sequence[_Word], run: tuple[int, int, int], middle: float
) -> tuple[int, float, float]:
    first, second, length = run
    apart = sum(
        abs(left[first + step].place.at_s - right[second + step].place.at_s) for step in range(length)
    )
    return length, -apart / length, -abs(left[first + length // 2].place.at_s - middle)


def _quiet_moment(
    earlier: Sequence[Segment], later: Sequence[Segment], start_s: float, end_s: float
) -> float:
    """The moment that cuts through the fewest segments; of several, the nearest to the middle."""
    middle = (start_s + end_s) / 2
    spoken: list[tuple[float, float]] = [
        (one["start"], one["end"]) for one in (*earlier, *later) if one["text"]
    ]
    edges = [edge for span in spoken for edge in span if start_s <= edge <= end_s]

    def rank(at_s: float) -> tuple[int, float]:
        return sum(begin < at_s < end for begin, end in spoken), abs(at_s - middle)

    return min([middle, *edges], key=rank)


def _segment_at(segments: Sequence[Segment], at_s: float) -> CutPoint:
    """The first segment whose middle is at or after the moment: each segment is on one side."""
    latest = list(accumulate(((one["start"] + one["end"]) / 2 for one in segments), max))
    return CutPoint(bisect_left(latest, at_s), 0, at_s)
