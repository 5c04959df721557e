"""Word times: Whisper's cross-attention, corrected by where speech was detected.

Whisper may leave out a whole sentence; a word beside it then seems to last that long. Such a word is
shortened and stays in its own sentence, so that the speech without words is noticed and transcribed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from .segments import SENTENCE_ENDS
from .timeline import Span, Window
from .transcription import Word

LONGEST_WORD_S = 2.0
"""A longer word covers speech that has no words."""
SHORT_WORD_S = 0.6
"""The duration that it gets then, like neighbouring words that must move."""
NEAR_S = 0.8
"""A word further from speech than this is left out."""
EDGE_S = 0.1
"""Speech starts this much before, and ends this much after, the detector reports it."""


def placed(words: Sequence[Word], window: Window) -> list[Word]:
    """A window's words in chunk time, moved to where there is speech."""
    moved = [Word(word.text, window.start + word.start, window.start + word.end) for word in words]
    return [_fitted(word, window) for sentence in _sentences(moved) for word in without_stretches(sentence)]


def without_stretches(sentence: Sequence[Word]) -> list[Word]:
    """A sentence without stretched words.

    A stretched word in the first half starts too early, and the words before it are moved to it; in the
    second half it ends too late, and the words after it are moved.
    """
    found = list(sentence)
    for number in reversed(range(len(found))):
        if _length(found[number]) > LONGEST_WORD_S and number < len(found) / 2:
            at = found[number].end
            for place in range(number, -1, -1):
                length = min(_length(found[place]), SHORT_WORD_S)
                found[place] = Word(found[place].text, at - length, at)
                at -= length
            break
    for number in range(len(found)):
        if _length(found[number]) > LONGEST_WORD_S:
            at = found[number].start
            for place in range(number, len(found)):
                length = min(_length(found[place]), SHORT_WORD_S)
                found[place] = Word(found[place].text, at, at + length)
                at += length
            break
    return found


def _sentences(words: Sequence[Word]) -> list[list[Word]]:
    found: list[list[Word]] = []
    for word in words:
        if not found or found[-1][-1].text.strip()[-1] in SENTENCE_ENDS:
            found.append([])
        found[-1].append(word)
    return found


def _fitted(word: Word, window: Window) -> Word:
    """A word does not span a pause: it belongs to the speech that it overlaps most, or to the nearest
    edge."""

    def common(span: Span) -> float:
        return min(word.end, span[1]) - max(word.start, span[0])

    start, end = word.start, word.end
    best = max(((begin - EDGE_S, finish + EDGE_S) for begin, finish in window.speech), key=common)
    if common(best) > -NEAR_S:
        start, end = sorted((min(max(start, best[0]), best[1]), min(max(end, best[0]), best[1])))
    start = min(max(start, window.start), window.end)
    return Word(word.text, start, min(max(start, end), window.end))


def _length(word: Word) -> float:
    return word.end - word.start
