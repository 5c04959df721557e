"""Merging transcripts of overlapping parts: what was cut comes back whole."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.features.recognition.transcript_merge import (
    ChunkTranscript,
    merge_segment_text,
    merge_word_timestamps,
)

Segment = dict[str, Any]

TYPES = ("music", "silence", "noise")
VOICES = {f"S{number:02}": [float(number == at) for at in range(1, 4)] for number in range(1, 4)}


def segment(
    start: float, end: float, text: str, speaker: str | None = "S01", type_: str = "speech"
) -> Segment:
    return {"start": start, "end": end, "text": text, "speaker": speaker, "type": type_}


def part(
    start: float, end: float, *segments: Segment, warnings: Sequence[str] = (), language: str | None = None
) -> ChunkTranscript:
    """A part as an engine writes it: times from its own start."""
    moved = [{**one, "start": one["start"] - start, "end": one["end"] - start} for one in segments]
    heard = {one["speaker"] for one in segments if one["speaker"]}
    speakers = {label: VOICES[label] for label in heard}
    value = {"segments": moved, "speakers": speakers, "warnings": list(warnings), "language": language}
    return ChunkTranscript(start, end, value)


def texts(parts: Sequence[ChunkTranscript]) -> list[str]:
    return [one["text"] for one in merge_segment_text(parts).segments]


# A word lasts 0.4 s; a segment is words of one speaker, or seconds of something without words.
@st.composite
def transcripts(draw: st.DrawFn, spaceless: bool = False) -> list[tuple[Segment, list[str]]]:
    """Segments and their words, one after the other. No word is in a transcript twice."""
    segments: list[tuple[Segment, list[str]]] = []
    at, count, last = 0.0, 0, ""
    for _ in range(draw(st.integers(1, 14))):
        if draw(st.integers(0, 3)):
            length = draw(st.integers(1, 12))
            words = [chr(0x4E00 + count + n) if spaceless else f"w{count + n}" for n in range(length)]
            count += length
            speaker = draw(st.sampled_from(sorted(VOICES)))
            text = ("" if spaceless else " ").join(words)
            segments.append((segment(at, round(at + 0.4 * length, 3), text, speaker), words))
            last = ""
        else:
            kind = draw(st.sampled_from([kind for kind in TYPES if kind != last]))
            segments.append((segment(at, at + draw(st.integers(1, 30)), "", None, kind), []))
            last = kind
        at = segments[-1][0]["end"]
    return segments


def seen(transcript: list[tuple[Segment, list[str]]], start: float, end: float, joiner: str) -> list[Segment]:
    """What an engine that makes no mistake hears between two moments: whole words, and wordless sound."""
    found = []
    for one, words in transcript:
        if not words:
            begin, finish = max(one["start"], start), min(one["end"], end)
            if begin < finish:
                found.append({**one, "start": begin, "end": finish})
            continue
        moments = [round(one["start"] + 0.4 * n, 3) for n in range(len(words) + 1)]
        inside = [n for n in range(len(words)) if moments[n] >= start and moments[n + 1] <= end]
        if inside:
            text = joiner.join(words[inside[0] : inside[-1] + 1])
            found.append({**one, "start": moments[inside[0]], "end": moments[inside[-1] + 1], "text": text})
    return found


def cut(
    transcript: list[tuple[Segment, list[str]]], joiner: str, part_s: float, overlap_s: float
) -> list[ChunkTranscript]:
    end = transcript[-1][0]["end"]
    parts, start = [], 0.0
    while True:
        stop = min(end, start + part_s)
        parts.append(part(start, stop, *seen(transcript, start, stop, joiner)))
        if stop >= end:
            return parts
        start = stop - overlap_s


def shown(transcript: list[tuple[Segment, list[str]]]) -> list[Segment]:
    """The transcript as it should come back: labels as they first appear, numbered."""
    labels: dict[str, str] = {}
    for one, _ in transcript:
        if one["speaker"]:
            labels.setdefault(one["speaker"], f"S{len(labels) + 1:02}")
    return [
        {"id": number, **one, "start": round(one["start"], 3), "end": round(one["end"], 3),
         "speaker": labels.get(one["speaker"])}
        for number, (one, _) in enumerate(transcript)
    ]  # fmt: skip


def rounded(segments: list[Segment]) -> list[Segment]:
    """Times to a tenth: so exactly a moment between two words is known where a segment was divided."""
    return [{**one, "start": round(one["start"], 1), "end": round(one["end"], 1)} for one in segments]


@pytest.mark.parametrize("joiner", [" ", ""])
@given(st.data(), st.integers(12, 40), st.integers(5, 10))
def test_a_transcript_that_was_cut_into_parts_comes_back_exactly(
    joiner: str, data: st.DataObject, part_s: int, overlap_s: int
) -> None:
    """Words once each, speakers, types and times, whatever the parts; Chinese by character (R129)."""
    transcript = data.draw(transcripts(spaceless=not joiner))
    merged = merge_segment_text(cut(transcript, joiner, float(part_s), float(overlap_s))).segments

    assert rounded(shown(transcript)) == rounded(merged)


@given(transcripts(), st.integers(12, 40), st.integers(5, 10))
def test_the_second_transcript_is_merged_alike(
    transcript: list[tuple[Segment, list[str]]], part_s: int, overlap_s: int
) -> None:
    """Segments of text alone: all words once, in order, with an `id`, no `words` (R126, R127, R129)."""
    plain = []
    for one in cut(transcript, " ", float(part_s), float(overlap_s)):
        spoken = [each for each in one.value["segments"] if each["text"]]
        value = {"segments": [{name: each[name] for name in ("start", "end", "text")} for each in spoken]}
        plain.append(ChunkTranscript(one.start_s, one.end_s, value))
    merged = merge_word_timestamps(plain).segments
    starts = [one["start"] for one in merged]

    assert [word for _, words in transcript for word in words] == " ".join(
        one["text"] for one in merged
    ).split()
    assert all(["id", "start", "end", "text"] == list(one) for one in merged)
    assert sorted(starts) == starts
    assert all(0 <= one["start"] <= one["end"] <= math.ceil(transcript[-1][0]["end"]) for one in merged)


def test_where_the_parts_disagree_the_cut_falls_into_what_both_heard() -> None:
    """Half a word at an edge, another spelling and other marks do not double or lose anything (R129)."""
    first = part(
        0, 100, segment(88, 92, "We begin."), segment(92, 100, "Then, on a cold mourning, the rain sto")
    )
    second = part(
        92, 200, segment(92, 100.5, "on a cold morning the rain stopped."), segment(101, 103, "It was late.")
    )

    assert ["We begin.", "Then, on a cold morning the rain stopped.", "It was late."] == texts(
        [first, second]
    )


def test_an_equal_word_far_away_is_another_word() -> None:
    """A refrain is not taken for the words that the parts share."""
    first = part(0, 100, segment(90, 91, "ring the bell"), segment(98, 99.5, "and again"))
    second = part(90, 200, segment(98, 99.5, "and again"), segment(100, 101, "ring the bell"))

    assert ["ring the bell", "and again", "ring the bell"] == texts([first, second])


def test_what_only_one_part_heard_is_kept() -> None:
    """Where one engine's run heard nothing in the shared seconds, nothing of the other's is lost."""
    quiet = (part(0, 100, segment(10, 12, "Early.")), part(90, 200, segment(150, 151, "Late.")))
    heard_first = part(0, 100, segment(10, 12, "Early."), segment(91, 94, "Between."))
    heard_second = part(90, 200, segment(92, 96, "Between."), segment(150, 151, "Late."))

    assert ["Early.", "Between.", "Late."] == texts([heard_first, quiet[1]])
    assert ["Early.", "Between.", "Late."] == texts([quiet[0], heard_second])


def test_without_a_common_word_the_cut_is_at_a_pause_near_the_middle() -> None:
    """No segment is divided, and none is kept twice."""
    first = part(0, 100, segment(90, 94, "alpha beta"), segment(96, 100, "gamma"))
    second = part(90, 200, segment(90.5, 94, "one two"), segment(95, 99, "three four"))

    assert ["alpha beta", "three four"] == texts([first, second])


def test_a_speaker_keeps_one_label_whatever_a_part_calls_him() -> None:
    """By the sound of the voice, also when he is silent in the shared seconds (R124, R129)."""
    first = part(0, 100, segment(0, 5, "hello"), segment(6, 9, "good day", "S02"))
    called = ChunkTranscript(
        95, 200, {
            "segments": [segment(5, 9, "and so on", "S01"), segment(20, 25, "hello again", "S02")],
            "speakers": {"S01": [0.1, 0.98, 0.1], "S02": [0.97, 0.2, 0.1]},
        },
    )  # fmt: skip
    merged = merge_segment_text([first, called]).segments

    assert ["S01", "S02", "S02", "S01"] == [one["speaker"] for one in merged]


def test_a_speaker_without_an_embedding_is_known_by_what_he_says_in_the_shared_seconds() -> None:
    """Who speaks at the same time is the same person."""
    first = part(0, 100, segment(0, 5, "hello"), segment(92, 99, "one two three four", "S02"))
    later = [segment(2, 9, "one two three four", "S01"), segment(12, 15, "five", "S01")]
    merged = merge_segment_text(
        [first, ChunkTranscript(90, 200, {"segments": later, "speakers": {}})]
    ).segments

    assert [("hello", "S01"), ("one two three four", "S02"), ("five", "S02")] == [
        (one["text"], one["speaker"]) for one in merged
    ]


def test_times_are_inside_the_audio_and_warnings_name_their_part() -> None:
    """What an engine puts past the end of its part ends there."""
    parts = [
        part(0, 100, segment(99, 101.2345, "over"), warnings=["odd"]),
        part(100, 150.0004, segment(149, 160, "end"), warnings=["odd"]),
    ]
    merged = merge_segment_text(parts)

    assert [(99.0, 100.0), (149.0, 150.0)] == [(one["start"], one["end"]) for one in merged.segments]
    assert ["0.000-100.000 s: odd", "100.000-150.000 s: odd"] == merged.warnings
    assert ["odd"] == merge_segment_text(parts[:1]).warnings
    assert ([], []) == (merge_segment_text([]).segments, merge_word_timestamps([]).segments)


def test_the_language_is_that_of_most_of_the_speech() -> None:
    """Not of most chunks: one may hold hardly a word, another a guess about music alone."""
    parts = [
        part(0, 10, segment(0, 9, "many words"), language="en"),
        part(10, 20, segment(10, 11, "mot"), segment(11, 20, "", None, "music"), language="fr"),
        part(20, 30, segment(20, 21, "mot"), language="fr"),
        part(30, 40, language=None),
    ]

    assert ["en", "en", None] == [
        merge_segment_text(parts).language,
        merge_word_timestamps(parts).language,
        merge_segment_text(parts[3:]).language,
    ]
