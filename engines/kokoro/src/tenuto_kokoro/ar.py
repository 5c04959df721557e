"""Arabic text as sounds: vowels restored by a network, then rules. Latin words are said by the English front
end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from . import ar_numbers, ar_sounds, marks
from .ar_diacritics import Diacritics
from .cutting import Unit
from .en import English

WORD = re.compile(r"[\u0621-\u063a\u0640-\u0652\u0670\u0671\u067e\u0686\u06a4\u06a9\u06af\u06cc]{1,60}")
LATIN = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ]{1,60}(?:[-'’.][A-Za-z]{1,60}){0,3}")
MARK = re.compile(r"\.\.\.|[\s\S]")
PUNCTUATION = {".": ".", ",": "،", "?": "؟", "!": "!", ";": "؛", ":": ":"}
"""Marks that matter to the vowels of the words around: from the model's vocabulary to Arabic writing."""
SENTENCE = re.compile(r"[^.!?؟…\n]+[.!?؟…\n]*\s*|[.!?؟…\n]+\s*")


class Arabic:
    """The Arabic front end, in modern standard pronunciation."""

    def __init__(self, weights: Path, english: Callable[[], English]) -> None:
        self._diacritics = Diacritics(weights)
        self._english = english

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide Arabic text into words with their sounds."""
        pieces = (
            piece for sentence in SENTENCE.findall(text) for piece in self._sentence(sentence, normalise)
        )
        return [marks.unit(group) for group in marks.grouped(_linked(pieces))]

    def _sentence(self, sentence: str, normalise: bool) -> list[marks.Piece]:
        """Restore a sentence's vowels as a whole: they depend on the words around."""
        pieces = list(self._pieces(sentence, normalise))
        words = [index for index, piece in enumerate(pieces) if not piece.mark and not piece.sounds]
        after = [piece.mark if piece.mark in PUNCTUATION else "" for piece in [*pieces[1:], marks.Piece("")]]
        vowelled = self._vowelled([(pieces[index].text, after[index]) for index in words])
        for index, word in zip(words, vowelled, strict=True):
            pieces[index] = marks.Piece(pieces[index].text, ar_sounds.sounds(word))
        return pieces

    def _pieces(self, text: str, normalise: bool) -> Iterator[marks.Piece]:
        """Divide a sentence; Arabic words have no sounds yet."""
        start = 0
        while start < len(text):
            found = WORD.match(text, start)
            piece = marks.Piece(found[0]) if found else self._other(text, start, normalise)
            yield piece
            start += len(piece.text)

    def _vowelled(self, words: list[tuple[str, str]]) -> list[str]:
        """Words, each with the mark after it, in; the words with their vowels out. A letter that was written
        with marks keeps them."""
        text = " ".join(word + PUNCTUATION.get(mark, "") for word, mark in words)
        restored = self._diacritics.restored(text).split(" ") if words else []
        found = zip(words, restored, strict=True)
        return [
            ar_sounds.merged(word, vowelled.removesuffix(PUNCTUATION.get(mark, "")))
            for (word, mark), vowelled in found
        ]

    def _other(self, text: str, start: int, normalise: bool) -> marks.Piece:
        found: re.Match[str] | None
        if normalise and (found := ar_numbers.PATTERN.match(text, start)):
            return marks.Piece(found[0], _phrase(ar_numbers.expanded(found)))
        if found := LATIN.match(text, start):
            return marks.Piece(found[0], self._english().word(found[0]))
        if marks.MINUS.match(text, start):
            return marks.Piece(text[start], _phrase(ar_numbers.SIGNS["−"]))
        mark = MARK.match(text, start)
        assert mark is not None
        if mark[0].isdecimal():
            return marks.Piece(mark[0], _phrase(ar_numbers.ONES[int(mark[0])]))
        if mark[0] in ar_numbers.SIGNS:
            return marks.Piece(mark[0], _phrase(ar_numbers.SIGNS[mark[0]]))
        found_mark = marks.marked(mark[0])
        return found_mark if found_mark.mark else marks.Piece(mark[0], mark=" ")


def _phrase(vowelled: str) -> str:
    """The symbols of vowelled words by themselves."""
    return " ".join(ar_sounds.symbols(ar_sounds.sounds(word)) for word in vowelled.split())


def _linked(pieces: Iterator[marks.Piece]) -> list[marks.Piece]:
    """Turn sounds into the model's symbols.

    After a vowel the alif of the article is not said, and a long vowel before it is short: fi lbayt.
    """
    found: list[marks.Piece] = []
    last = -1
    for piece in pieces:
        if piece.sounds and WORD.match(piece.text):
            said = piece.sounds
            linked = last >= 0 and found[last].sounds.endswith(("a", "i", "u", "ɑ", "ː"))
            if linked and piece.text[0] in "اٱ":
                said = re.sub("^ʔ[aiu]", "", said)
                found[last] = replace(found[last], sounds=found[last].sounds.rstrip("ː"))
            leans = ar_sounds.bare(piece.text) in ar_sounds.UNSTRESSED
            found.append(replace(piece, sounds=ar_sounds.symbols(said, is_stressed=not leans)))
            last = len(found) - 1
            continue
        found.append(piece)
        if not piece.text.isspace():
            last = -1
    return found
