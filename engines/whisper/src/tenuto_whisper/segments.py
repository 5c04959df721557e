"""Groups words with speakers into segments: a sentence, or one person's speech between pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .transcription import Word

SENTENCE_ENDS = ".!?。！？؟…"
CLAUSE_ENDS = ",;:，、；：،؛"
ABBREVIATIONS = frozenset({"mr.", "mrs.", "ms.", "dr.", "st.", "sr.", "sra.", "no.", "vs.", "e.g.", "i.e."})
PAUSE_S = 0.8
"""A pause that ends a segment."""
SENTENCE_S = 1.0
"""A sentence shorter than this is joined with the next one unless a pause follows."""
LONGEST_S = 15.0


@dataclass(frozen=True, slots=True)
class Spoken:
    """A word and its speaker; `None` if it is sung."""

    word: Word
    speaker: str | None


def split(words: Sequence[Spoken]) -> list[list[Spoken]]:
    """Segments of one speaker each, ending with a sentence, at a pause, or at the maximum length."""
    found: list[list[Spoken]] = []
    for spoken in words:
        if not found or _begins(found[-1], spoken):
            found.append([])
        found[-1].append(spoken)
    return [piece for segment in found for piece in _no_longer(segment)]


def text(segment: Sequence[Spoken]) -> str:
    return "".join(spoken.word.text for spoken in segment).strip()


def _begins(segment: list[Spoken], spoken: Spoken) -> bool:
    last = segment[-1].word
    pause = spoken.word.start - last.end
    written = last.text.strip()
    # A decimal point is not a full stop: "12." and "5" are two words in languages without spaces.
    number = written[-1] == "." and spoken.word.text[0].isdigit()
    ended = written[-1] in SENTENCE_ENDS and written.lower() not in ABBREVIATIONS and not number
    long_enough = last.end - segment[0].word.start >= SENTENCE_S or pause >= 0.3
    return spoken.speaker != segment[-1].speaker or pause >= PAUSE_S or (ended and long_enough)


def _no_longer(segment: list[Spoken]) -> list[list[Spoken]]:
    """Split a segment that is too long: after a clause, else at the longest pause, nearest to its middle."""
    start, end = segment[0].word.start, segment[-1].word.end
    if end - start <= LONGEST_S or len(segment) < 2:
        return [segment]

    def rank(at: int) -> tuple[bool, float]:
        before, after = segment[at - 1].word, segment[at].word
        off_middle = abs((before.end + after.start) / 2 - (start + end) / 2)
        inside = off_middle < (end - start) / 3
        clause = before.text.strip()[-1] in CLAUSE_ENDS
        return inside and clause, after.start - before.end - off_middle / (end - start)

    at = max(range(1, len(segment)), key=rank)
    return [*_no_longer(segment[:at]), *_no_longer(segment[at:])]
