"""One transcript from the transcripts of overlapping parts of a recording. Pure: knows no engine and no job.

Every word that the parts share stands once, times are those of the whole recording, speakers keep one label
throughout, and what has no words (music, silence) goes on over the joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenuto.media.chunk_speakers import Speakers
from tenuto.media.overlap import CutPoint, Splice, find_splice

Segment = dict[str, Any]

TOUCHING_S = 0.25
"""Segments without words this near to a joint, of one type, are one."""


@dataclass(frozen=True, slots=True)
class ChunkTranscript:
    """What an engine wrote about the seconds from `start_s` to `end_s` of a recording.

    `value["segments"]` have `start`, `end` (seconds from `start_s`) and `text`; of the first role also
    `speaker` and `type`, and `value["speakers"]` has an embedding for each speaker. `value["warnings"]` are
    sentences.
    """

    start_s: float
    end_s: float
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Merged:
    """Segments in absolute time, sorted, with `id` from 0, times with three decimals; and all warnings."""

    segments: list[Segment]
    warnings: list[str]


def merge_segment_text(parts: Sequence[ChunkTranscript]) -> Merged:
    """Merge transcripts with speakers and types; speakers become S01, S02, … as they first appear."""
    speakers = Speakers()
    whole: list[Segment] = []
    reached_s = 0.0
    for part in parts:
        segments = _absolute(part)
        overlap = [one for one in whole if one["end"] > part.start_s]
        numbers = speakers.numbers(segments, part.value.get("speakers") or {}, overlap)
        for one in segments:
            one["speaker"] = numbers[one["speaker"]] if one.get("speaker") else None
        whole = _joined(whole, segments, part.start_s, reached_s)
        reached_s = max(reached_s, part.end_s)
    finished = _finished(whole, reached_s)
    labels: dict[int, str] = {}
    for one in finished:
        if one["speaker"] is not None:
            one["speaker"] = labels.setdefault(one["speaker"], f"S{len(labels) + 1:02}")
    return Merged(finished, _warnings(parts))


def merge_word_timestamps(parts: Sequence[ChunkTranscript]) -> Merged:
    """Merge transcripts of text alone."""
    whole: list[Segment] = []
    reached_s = 0.0
    for part in parts:
        whole = _joined(whole, _absolute(part), part.start_s, reached_s)
        reached_s = max(reached_s, part.end_s)
    return Merged(_finished(whole, reached_s), _warnings(parts))


def _absolute(part: ChunkTranscript) -> list[Segment]:
    """A part's segments on the timeline of the whole, sorted, inside the part."""
    length_s = part.end_s - part.start_s
    return sorted(
        (
            {
                **one,
                "start": part.start_s + min(max(0.0, one["start"]), length_s),
                "end": part.start_s + min(max(0.0, one["end"]), length_s),
                "text": one["text"].strip(),
            }
            for one in part.value["segments"]
        ),
        key=lambda one: (one["start"], one["end"]),
    )


def _joined(
    earlier: list[Segment], later: list[Segment], later_starts_s: float, earlier_ends_s: float
) -> list[Segment]:
    """Both transcripts, what they share once. Where the parts share nothing, one after the other."""
    if earlier_ends_s <= later_starts_s:
        return earlier + later
    worded, other_worded = _with_text(earlier), _with_text(later)
    splice = find_splice(worded, other_worded, later_starts_s, earlier_ends_s)
    kept = _up_to(worded, splice.left)
    added = _from(other_worded, splice.right)
    if kept and added and _one_sentence(splice, kept[-1], added[0], other_worded, later_starts_s):
        rest = added.pop(0)
        kept[-1] |= {"end": rest["end"], "text": kept[-1]["text"] + rest["text"]}
    elif kept and added and kept[-1]["end"] > added[0]["start"]:
        # Two engines' runs differ by some hundredths of a second about where a word ends.
        kept[-1]["end"] = max(kept[-1]["start"], added[0]["start"])
    wordless = _wordless(earlier, later, splice.at_s)
    return sorted([*kept, *added, *wordless], key=lambda one: (one["start"], one["end"]))


def _with_text(segments: list[Segment]) -> list[Segment]:
    return [one for one in segments if one["text"]]


def _up_to(segments: list[Segment], place: CutPoint) -> list[Segment]:
    """What stands before the place; a segment that it divides ends there, with the space before the place."""
    kept = segments[: place.segment]
    if place.offset:
        divided = segments[place.segment]
        kept.append({**divided, "end": place.at_s, "text": divided["text"][: place.offset]})
    return kept


def _from(segments: list[Segment], place: CutPoint) -> list[Segment]:
    """What stands from the place on; a segment that it divides starts there."""
    kept = segments[place.segment :]
    if place.offset:
        divided = kept[0]
        kept[0] = {**divided, "start": place.at_s, "text": divided["text"][place.offset :]}
    return kept


def _one_sentence(
    splice: Splice, left: Segment, right: Segment, later: list[Segment], later_starts_s: float
) -> bool:
    """Whether the joint divides one segment of the recording, so that its halves belong together.

    It divides the earlier part's segment; the later part's it divides, too, or that one starts at the edge of
    its part, so its head was cut off.
    """
    if not splice.matched or not splice.left.offset:
        return False
    headless = later[splice.right.segment]["start"] - later_starts_s < TOUCHING_S
    alike = all(left.get(name) == right.get(name) for name in ("speaker", "type"))
    return alike and (splice.right.offset > 0 or headless)


def _wordless(earlier: list[Segment], later: list[Segment], at_s: float) -> list[Segment]:
    """Music, silence and noise: the earlier part's until the joint, the later part's from it on.

    What reaches the joint from both sides goes on over it; a rest too short to touch it is of the other side.
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
    """The segments as callers see them."""
    finished: list[Segment] = []
    for one in segments:
        start, end = round(one["start"], 3), round(min(one["end"], end_s), 3)
        text = one["text"].strip()
        if not text and end <= start:
            continue
        shown = {"id": len(finished), "start": start, "end": max(start, end), "text": text}
        if "type" in one:
            shown |= {"speaker": one["speaker"], "type": one["type"]}
        finished.append(shown)
    return finished


def _warnings(parts: Sequence[ChunkTranscript]) -> list[str]:
    """Each with the seconds that it is about, where there are several parts."""
    return [
        f"{part.start_s:.3f}-{part.end_s:.3f} s: {warning}" if len(parts) > 1 else warning
        for part in parts
        for warning in part.value.get("warnings", [])
    ]
