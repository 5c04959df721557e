"""Japanese text as sounds: Open JTalk's readings, kana as symbols. Knows no model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files

import jaconv
import pyopenjtalk

from . import ja_kana, ja_numbers, scripts, spaceless
from .cutting import Unit
from .dictionary import Dictionary
from .en import English
from .spaceless import Part

READ = re.compile(f"[{scripts.HAN}{scripts.KANA}]")
LATIN = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ]{1,60}(?:['’][A-Za-z]{1,60}){0,3}")
MARK = re.compile(r"\.\.\.|……|——|[\s\S]")
LONGEST_RUN = 1000
"""The most characters that Open JTalk is given at once: it refuses more than 8,192 bytes."""
LONGEST_WORD = 8
"""The most of the dictionary's parts that may be joined to one word."""


@dataclass(frozen=True, slots=True)
class Word:
    """Written characters and their reading in hiragana."""

    characters: str
    kana: str


class Japanese:
    """The Japanese front end."""

    def __init__(self, english: Callable[[], English]) -> None:
        self._english = english
        names = (files("misaki") / "data" / "ja_words.txt").read_text("utf-8").split()
        self._taught = Dictionary((name, "") for name in names)

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide Japanese text into words with their sounds."""
        return spaceless.units(self._parts(text, normalise), self._run)

    def _parts(self, text: str, normalise: bool) -> Iterator[Part]:
        start = 0
        while start < len(text):
            part = self._part(text, start, normalise)
            yield part
            start += len(part.text)

    def _part(self, text: str, start: int, normalise: bool) -> Part:
        found: re.Match[str] | None
        if normalise and (found := ja_numbers.PATTERN.match(text, start)):
            return Part(found[0], ja_numbers.expanded(found))
        if found := LATIN.match(text, start):
            return self._latin(found[0])
        if READ.match(text, start):
            return Part(text[start], text[start].replace("〇", "零"))
        mark = MARK.match(text, start)
        assert mark is not None
        if mark[0].isdecimal():
            return Part(mark[0], ja_numbers.names(mark[0]))
        sign = "−" if spaceless.MINUS.match(text, start) else mark[0]
        if sign in ja_numbers.SIGNS:
            return Part(mark[0], ja_numbers.SIGNS[sign])
        return spaceless.marked(mark[0])

    def _latin(self, text: str) -> Part:
        """A Latin word: spelled in Japanese if an abbreviation, else said in English."""
        if not text.isupper():
            return Part(text, sounds=self._english().word(text))
        nodes = pyopenjtalk.run_frontend(text, use_sudachi_kanji_yomi=False)
        return Part(text, sounds=ja_kana.sounds("".join(_kana(node["pron"]) for node in nodes)))

    def _run(self, parts: list[Part]) -> list[Unit]:
        """Read neighbouring characters as words."""
        characters = "".join(part.characters for part in parts)
        starts = range(0, len(characters), LONGEST_RUN)
        words = (word for start in starts for word in self._words(characters[start : start + LONGEST_RUN]))
        return spaceless.divided(parts, ((len(word.characters), _spaced(word)) for word in words))

    def _words(self, characters: str) -> list[Word]:
        """Words with their readings; all as one word in the rare case that the dictionary rewrote the
        text."""
        nodes = pyopenjtalk.run_frontend(characters, use_sudachi_kanji_yomi=False)
        words = [Word(node["string"], _kana(node["pron"])) for node in nodes]
        if "".join(word.characters for word in words) != characters:
            return [Word(characters, "".join(word.kana for word in words))]
        return self._joined([part for word in words for part in self._known(word)])

    def _known(self, word: Word) -> list[Word]:
        """The word; if the dictionary does not know it, its characters one by one, for it may know some."""
        if len(word.characters) == 1 or ja_kana.sounds(word.kana):
            return [word]
        return [each for character in word.characters for each in self._words(character)]

    def _joined(self, words: list[Word]) -> list[Word]:
        """Join parts that make a word of the list which the model was taught with."""
        found: list[Word] = []
        start = 0
        while start < len(words):
            for end in range(min(len(words), start + LONGEST_WORD), start, -1):
                together = "".join(word.characters for word in words[start:end])
                if end == start + 1 or together in self._taught:
                    found.append(Word(together, "".join(word.kana for word in words[start:end])))
                    start = end
                    break
        return found


def _kana(pron: str) -> str:
    return str(jaconv.kata2hira(pron.replace("’", "").replace("'", "")))


def _spaced(word: Word) -> str:
    """Sounds with the gap after the word; a stop at its end runs into the next."""
    sounds = ja_kana.sounds(word.kana)
    return sounds if sounds.endswith("ʔ") else f"{sounds} "
