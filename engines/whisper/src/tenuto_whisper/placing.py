"""Where words are: what Whisper looked at as it wrote them, put right by where somebody speaks.

Whisper may leave out a whole sentence; a word beside it then seems to last as long. Such a word is made short
and stays with its own sentence, so that the speech without words shows and is heard again.
"""

from __future__ import annotations

from collections.abc import Sequence

from .segments import SENTENCE_ENDS
from .timeline import Span, Window
from .transcription import Word

LONGEST_WORD_S = 2.0
"""A word that lasts longer is stretched over what has no words."""
SHORT_WORD_S = 0.6
"""How long it then is taken to be, as are those beside it that must move."""
NEAR_S = 0.8
"""A word so far from speech was not said; the run leaves it out."""
EDGE_S = 0.1
"""What is said is heard so much before and after the detector is sure of it."""


def placed(words: Sequence[Word], window: Window) -> list[Word]:
    """A window's words in the time of the part, where there is speech."""
    moved = [Word(word.text, window.start + word.start, window.start + word.end) for word in words]
    return [_fitted(word, window) for sentence in _sentences(moved) for word in without_stretches(sentence)]


def without_stretches(sentence: Sequence[Word]) -> list[Word]:
    """A sentence whose words have lengths that words have.

    A stretched word in its first half begins too early, and those before it are drawn to it; in its second
    half it ends too late, and those behind it are.
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
    """A word does not last over a pause: it is where most of it has sound, or at the edge of what is near."""

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
