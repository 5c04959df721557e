"""One transcript from the transcripts of overlapping chunks of a recording. Pure: knows no engine and no job.

Two chunks are joined at the longest run of words that both transcripts have in the seconds that they share,
compared as text with times as a check: two runs over the same sound agree on words better than on times.
Scripts without spaces are compared by character. Each word of the shared seconds appears once, times are
those of the whole recording, speakers keep one label throughout, and what has no words (music, silence)
continues across the cut.

An engine names the speakers of a chunk S01, S02, … by itself. The same person is recognised by the voice (the
cosine of embeddings) and by who speaks in the seconds that two chunks share.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any

from msgspec import Struct

Segment = dict[str, Any]

TOUCHING_S = 0.25
"""Segments of one type, without words, that come this near to the cut from both sides are one."""
SAME_SPEAKER = 0.75
"""The minimum score to treat two labels as one speaker: the cosine, plus a bonus for overlapping speech."""
SHARED_WEIGHT = 0.3
"""What speaking together throughout the shared seconds adds to a score."""
TIME_TOLERANCE_S = 3.0
"""Two equal words further apart are two words. A word's time is estimated from its place in its segment, and
may be some seconds off in a long segment with pauses."""

# Thai, Lao, Myanmar, Khmer, kana, Han: no spaces between words, so a character stands for a word.
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_SPACELESS}]|[^\s{_SPACELESS}]+")

_WITHOUT_SPACES = ((0x2E80, 0x312F), (0x31A0, 0xA4CF), (0xF900, 0xFAFF), (0xFE30, 0xFFEF), (0x20000, 0x3FFFF))
"""From, to: Chinese and Japanese characters and their punctuation, between which no space is written."""


class ChunkTranscript(Struct, frozen=True):
    """What an engine wrote about the seconds from `start_s` to `end_s` of a recording.

    `value["segments"]` have `start`, `end` (seconds from `start_s`) and `text`; for `merge_segment_text` also
    `speaker` and `type`, and `value["speakers"]` has an embedding for each speaker. `value["language"]` is a
    code or None. `value["warnings"]` are sentences.
    """

    start_s: float
    end_s: float
    value: dict[str, Any]


class Merged(Struct, frozen=True):
    """Segments in absolute time, sorted, with `id` from 0, times with three decimals; and all warnings."""

    segments: list[Segment]
    warnings: list[str]
    language: str | None
    """The language in which most of the recording is written; None if no engine reported one."""


def merge_segment_text(chunks: Sequence[ChunkTranscript]) -> Merged:
    """Merge transcripts with speakers and types; speakers become S01, S02, … as they first appear."""
    speakers = _Speakers()
    whole: list[Segment] = []
    reached_s = 0.0
    for chunk in chunks:
        segments = _absolute(chunk)
        overlap = [one for one in whole if one["end"] > chunk.start_s]
        numbers = speakers.numbers(segments, chunk.value.get("speakers") or {}, overlap)
        for one in segments:
            one["speaker"] = numbers[one["speaker"]] if one.get("speaker") else None
        whole = _joined(whole, segments, chunk.start_s, reached_s)
        reached_s = max(reached_s, chunk.end_s)
    finished = _finished(whole, reached_s)
    labels: dict[int, str] = {}
    for one in finished:
        if one["speaker"] is not None:
            one["speaker"] = labels.setdefault(one["speaker"], f"S{len(labels) + 1:02}")
    return Merged(finished, _warnings(chunks), _language(chunks))


def merge_word_timestamps(chunks: Sequence[ChunkTranscript]) -> Merged:
    """Merge transcripts of text alone."""
    whole: list[Segment] = []
    reached_s = 0.0
    for chunk in chunks:
        whole = _joined(whole, _absolute(chunk), chunk.start_s, reached_s)
        reached_s = max(reached_s, chunk.end_s)
    return Merged(_finished(whole, reached_s), _warnings(chunks), _language(chunks))


def joined(texts: Iterable[str]) -> Iterator[str]:
    """The pieces of one text from the texts of segments: a space between two, unless their script has none.

    What follows a piece does not change it. Every text must hold something other than white space.
    """
    before = ""
    for words in texts:
        text = " ".join(words.split())
        is_apart = before and not (_has_no_spaces(before) or _has_no_spaces(text[0]))
        yield f" {text}" if is_apart else text
        before = text[-1]


def _has_no_spaces(mark: str) -> bool:
    return any(first <= ord(mark) <= last for first, last in _WITHOUT_SPACES)


def _absolute(chunk: ChunkTranscript) -> list[Segment]:
    """A chunk's segments on the timeline of the whole, sorted, clipped to the chunk."""
    length_s = chunk.end_s - chunk.start_s
    return sorted(
        (
            {
                **one,
                "start": chunk.start_s + min(max(0.0, one["start"]), length_s),
                "end": chunk.start_s + min(max(0.0, one["end"]), length_s),
                "text": one["text"].strip(),
            }
            for one in chunk.value["segments"]
        ),
        key=lambda one: (one["start"], one["end"]),
    )


def _joined(
    earlier: list[Segment], later: list[Segment], later_starts_s: float, earlier_ends_s: float
) -> list[Segment]:
    """Both transcripts, with what they share once; one after the other if the chunks do not overlap."""
    if earlier_ends_s <= later_starts_s:
        return earlier + later
    worded, other_worded = _with_text(earlier), _with_text(later)
    splice = _find_splice(worded, other_worded, later_starts_s, earlier_ends_s)
    before = _up_to(worded, splice.left)
    behind = _from(other_worded, splice.right)
    if before and behind and _one_sentence(splice, before[-1], behind[0], other_worded, later_starts_s):
        rest = behind.pop(0)
        before[-1] |= {"end": rest["end"], "text": before[-1]["text"] + rest["text"]}
    elif before and behind and before[-1]["end"] > behind[0]["start"]:
        # Two runs may differ by some hundredths of a second on where a word ends.
        before[-1]["end"] = max(before[-1]["start"], behind[0]["start"])
    wordless = _wordless(earlier, later, splice.at_s)
    return sorted([*before, *behind, *wordless], key=lambda one: (one["start"], one["end"]))


def _with_text(segments: list[Segment]) -> list[Segment]:
    return [one for one in segments if one["text"]]


def _up_to(segments: list[Segment], cut: _CutPoint) -> list[Segment]:
    """All before the cut; a segment that it divides ends there, including the space before the cut."""
    before = segments[: cut.segment]
    if cut.offset:
        divided = segments[cut.segment]
        before.append({**divided, "end": cut.at_s, "text": divided["text"][: cut.offset]})
    return before


def _from(segments: list[Segment], cut: _CutPoint) -> list[Segment]:
    """All behind the cut; a segment that it divides starts there."""
    behind = segments[cut.segment :]
    if cut.offset:
        divided = behind[0]
        behind[0] = {**divided, "start": cut.at_s, "text": divided["text"][cut.offset :]}
    return behind


def _one_sentence(
    splice: _Splice, left: Segment, right: Segment, later: list[Segment], later_starts_s: float
) -> bool:
    """Whether the cut divides one segment of the recording, so that its halves belong together.

    It divides the earlier chunk's segment; it divides the later chunk's, too, or the later segment starts
    at its chunk's edge, so its beginning is missing.
    """
    if not splice.matched or not splice.left.offset:
        return False
    headless = later[splice.right.segment]["start"] - later_starts_s < TOUCHING_S
    alike = all(left.get(name) == right.get(name) for name in ("speaker", "type"))
    return alike and (splice.right.offset > 0 or headless)


def _wordless(earlier: list[Segment], later: list[Segment], at_s: float) -> list[Segment]:
    """Music, silence and noise: the earlier chunk's up to the cut, the later chunk's behind it.

    What reaches the cut from both sides continues across it.
    """
    before = [{**one, "end": min(one["end"], at_s)} for one in earlier if not one["text"]]
    after = [{**one, "start": max(one["start"], at_s)} for one in later if not one["text"]]
    before = [one for one in before if one["start"] < at_s]
    after = [one for one in after if one["end"] > at_s]
    for one in list(before):
        for other in after:
            alike = one.get("type") == other.get("type")
            if alike and one["end"] > at_s - TOUCHING_S and other["start"] < at_s + TOUCHING_S:
                one["end"] = other["end"]
                after.remove(other)
                break
    return before + after


def _finished(segments: list[Segment], end_s: float) -> list[Segment]:
    """The segments as callers get them."""
    finished: list[Segment] = []
    for one in segments:
        start, end = round(one["start"], 3), round(min(one["end"], end_s), 3)
        text = one["text"].strip()
        if not text and end <= start:
            continue
        segment = {"id": len(finished), "start": start, "end": max(start, end), "text": text}
        if "type" in one:
            segment |= {"speaker": one["speaker"], "type": one["type"]}
        finished.append(segment)
    return finished


def _warnings(chunks: Sequence[ChunkTranscript]) -> list[str]:
    """All warnings, each with the seconds that it is about if there are several chunks."""
    return [
        f"{chunk.start_s:.3f}-{chunk.end_s:.3f} s: {warning}" if len(chunks) > 1 else warning
        for chunk in chunks
        for warning in chunk.value.get("warnings", [])
    ]


def _language(chunks: Sequence[ChunkTranscript]) -> str | None:
    """The language with the most seconds of words; of equals, the earliest."""
    spoken_s: dict[str, float] = {}
    for chunk in chunks:
        code = chunk.value.get("language")
        if code is not None:
            length_s = sum(one["end"] - one["start"] for one in chunk.value["segments"] if one["text"])
            spoken_s[code] = spoken_s.get(code, 0.0) + length_s
    return max(spoken_s, key=lambda code: spoken_s[code], default=None)


class _Speakers:
    """All speakers so far, numbered from 0 in the order of their chunks."""

    def __init__(self) -> None:
        self._sums: list[list[float]] = []

    def numbers(
        self, chunk: Sequence[Segment], embeddings: Mapping[str, Sequence[float]], before: Sequence[Segment]
    ) -> dict[str, int]:
        """The number of each label of a chunk.

        `before`: the segments of earlier chunks, speakers as numbers. Labels that overlap in
        time are one speaker.
        """
        spoken_s: dict[str, float] = {}
        for segment in chunk:
            if segment.get("speaker"):
                length_s = segment["end"] - segment["start"]
                spoken_s[segment["speaker"]] = spoken_s.get(segment["speaker"], 0.0) + length_s
        numbers = self._pairs(spoken_s, embeddings, _shared(chunk, before))
        for label, length_s in spoken_s.items():
            if label not in numbers:
                numbers[label] = len(self._sums)
                self._sums.append([])
            self._add(numbers[label], embeddings.get(label, ()), length_s)
        return numbers

    def _pairs(
        self,
        labels: Mapping[str, float],
        embeddings: Mapping[str, Sequence[float]],
        shared: Mapping[tuple[str, int], float],
    ) -> dict[str, int]:
        """Pair the best matches first; none is paired twice, as one chunk's labels are different people."""
        scores = sorted(
            (
                (_cosine(embeddings.get(label, ()), known) + SHARED_WEIGHT * shared.get((label, number), 0.0))
                if known and embeddings.get(label)
                else shared.get((label, number), 0.0),
                -number,
                label,
            )
            for label in labels
            for number, known in enumerate(self._sums)
        )
        paired: dict[str, int] = {}
        for score, negative, label in reversed(scores):
            if score >= SAME_SPEAKER and label not in paired and -negative not in paired.values():
                paired[label] = -negative
        return paired

    def _add(self, number: int, embedding: Sequence[float], weight: float) -> None:
        """A person's embedding is the mean over the chunks, weighted by the time spoken in each."""
        known = self._sums[number] or [0.0] * len(embedding)
        if len(embedding) == len(known):
            self._sums[number] = [old + weight * new for old, new in zip(known, embedding, strict=True)]


def _shared(chunk: Sequence[Segment], before: Sequence[Segment]) -> dict[tuple[str, int], float]:
    """For each label and number, the share of the label's seconds alongside `before` in which both speak."""
    together: dict[tuple[str, int], float] = {}
    beside: dict[str, float] = {}
    end_s = max((segment["end"] for segment in before), default=0.0)
    for segment in chunk:
        label = segment.get("speaker")
        if not label or segment["start"] >= end_s:
            continue
        beside[label] = beside.get(label, 0.0) + min(segment["end"], end_s) - segment["start"]
        for other in before:
            common = min(segment["end"], other["end"]) - max(segment["start"], other["start"])
            if common > 0 and other.get("speaker") is not None:
                pair = (label, other["speaker"])
                together[pair] = together.get(pair, 0.0) + common
    # At least a second counts, or a word at the edge would identify a person.
    return {pair: min(1.0, common / max(1.0, beside[pair[0]])) for pair, common in together.items()}


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    length = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=False)) / length if length else 0.0


class _CutPoint(Struct, frozen=True):
    """A point in a transcript: before the character `offset` of the text of segment `segment`, at `at_s`."""

    segment: int
    offset: int
    at_s: float


class _Splice(Struct, frozen=True):
    """Keep the earlier transcript up to `left`, the later one from `right` on; `at_s` divides all else."""

    left: _CutPoint
    right: _CutPoint
    at_s: float
    matched: bool
    """Whether both are at the same word."""


class _Word(Struct, frozen=True):
    key: str
    """How it is compared: without case and punctuation."""
    cut: _CutPoint


def _find_splice(
    earlier: Sequence[Segment], later: Sequence[Segment], start_s: float, end_s: float
) -> _Splice:
    """Where to join two transcripts, in absolute time, that share the seconds from `start_s` to `end_s`.

    Both are sorted by start. Segments without text are ignored.
    """
    left, right = _words(earlier, start_s, end_s), _words(later, start_s, end_s)
    middle = (start_s + end_s) / 2
    if run := _common_run(left, right, middle):
        first, second, length = run
        # In the middle of the run, both transcripts are far from the edge where each may have half a word.
        one, other = left[first + length // 2].cut, right[second + length // 2].cut
        return _Splice(one, other, (one.at_s + other.at_s) / 2, matched=True)
    if not left or not right:
        # What only one of them has stays whole.
        at_s = start_s if right else end_s if left else middle
    else:
        at_s = _quiet_moment(earlier, later, start_s, end_s)
    return _Splice(_segment_at(earlier, at_s), _segment_at(later, at_s), at_s, matched=False)


def _words(segments: Sequence[Segment], start_s: float, end_s: float) -> list[_Word]:
    """The words of all segments that touch the shared seconds, without bare punctuation."""
    return [
        word
        for index, segment in enumerate(segments)
        if segment["text"] and segment["end"] > start_s and segment["start"] < end_s
        for word in _segment_words(index, segment)
    ]


def _segment_words(index: int, segment: Segment) -> Iterator[_Word]:
    text = segment["text"]
    length_s = segment["end"] - segment["start"]
    for word in _WORD.finditer(text):
        key = "".join(sign for sign in word[0].casefold() if sign.isalnum())
        if key:
            at_s = segment["start"] + length_s * word.start() / len(text)
            yield _Word(key, _CutPoint(index, word.start(), at_s))


def _common_run(left: Sequence[_Word], right: Sequence[_Word], middle: float) -> tuple[int, int, int] | None:
    """The longest run of equal words: where it starts in each, and how many words it has.

    Of equally long runs, the one whose times agree best, then the one nearest to the middle.
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
    return one.key == other.key and abs(one.cut.at_s - other.cut.at_s) <= TIME_TOLERANCE_S


def _rank(
    left: Sequence[_Word], right: Sequence[_Word], run: tuple[int, int, int], middle: float
) -> tuple[int, float, float]:
    first, second, length = run
    apart = sum(abs(left[first + step].cut.at_s - right[second + step].cut.at_s) for step in range(length))
    return length, -apart / length, -abs(left[first + length // 2].cut.at_s - middle)


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


def _segment_at(segments: Sequence[Segment], at_s: float) -> _CutPoint:
    """The first segment whose middle is at or after the moment: each segment is on one side."""
    latest = list(accumulate(((one["start"] + one["end"]) / 2 for one in segments), max))
    return _CutPoint(bisect_left(latest, at_s), 0, at_s)
