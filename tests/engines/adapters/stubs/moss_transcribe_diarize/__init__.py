"""A stand-in for the package of MOSS-Transcribe-Diarize's makers: the reading of `[start][S01]words[end]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_SEGMENT = re.compile(r"\[([0-9.]{1,32})\]\s*(?:\[(S[0-9]+)\])?(.*?)\[([0-9.]{1,32})\](?=\s*(?:\[|\Z))", re.S)


@dataclass(frozen=True)
class TranscriptSegment:
    start: float
    end: float
    speaker: str
    text: str


def parse_transcript(text: str, **parser_kwargs: Any) -> list[TranscriptSegment]:
    """What has a start, a later end and words; without a speaker it is the first's. The rest is dropped."""
    found = []
    for start, speaker, words, end in _SEGMENT.findall(text):
        if start.count(".") < 2 and end.count(".") < 2 and float(end) >= float(start) and words.strip():
            found.append(TranscriptSegment(float(start), float(end), speaker or "S01", words.strip()))
    return found
