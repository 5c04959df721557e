"""Chinese text as sounds: jieba's words, pypinyin's readings, and the readings that the caller wrote beside a
character. Latin words are said by the English front end. Knows no model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

from pypinyin import Style, lazy_pinyin
from pypinyin.pinyin_dict import pinyin_dict

from . import spaceless, zh_numbers, zh_pinyin, zh_words
from .cutting import Unit
from .en import English
from .spaceless import Part

HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff〇]")
LATIN = re.compile(
    r"[A-Za-zÀ-ÖØ-öø-ÿ]{1,60}(?:['’][A-Za-z]{1,60}){0,3}"
    r"(?:[ -]{1,9}[A-Za-z]{1,60}(?:['’][A-Za-z]{1,60}){0,3}){0,3}"
)
MARK = re.compile(r"\.\.\.|……|——|[\s\S]")


class Chinese:
    """The Chinese front end."""

    def __init__(self, english: Callable[[], English]) -> None:
        self._english = english
        self._words = zh_words.divider()

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide Chinese text into words with their sounds."""
        return spaceless.units(self._parts(text, normalise), self._run)

    def _parts(self, text: str, normalise: bool) -> Iterator[Part]:
        start = 0
        while start < len(text):
            part = self._part(text, start, normalise)
            yield part
            start += len(part.text)

    def _part(self, text: str, start: int, normalise: bool) -> Part:
        found: re.Match[str] | None
        if (found := zh_pinyin.ANNOTATION.match(text, start)) and (reading := zh_pinyin.chosen(found)):
            return Part(found[0], found["character"], reading)
        if normalise and (found := zh_numbers.PATTERN.match(text, start)):
            return self._number(found)
        if found := LATIN.match(text, start):
            return Part(found[0], sounds=self._english().word(found[0]))
        if HAN.match(text, start):
            return self._character(text[start])
        if spaceless.MINUS.match(text, start):
            return Part(text[start], "负")
        mark = MARK.match(text, start)
        assert mark is not None
        return self._mark(mark[0])

    def _character(self, text: str) -> Part:
        """A character, unless it is so rare that nobody has noted its reading."""
        usual = unicodedata.normalize("NFKC", text).replace("〇", "零")
        return Part(text, usual) if ord(usual) in pinyin_dict else Part(text, mark=" ", skipped=True)

    def _mark(self, text: str) -> Part:
        """A digit, a sign, punctuation, or what cannot be spoken."""
        if text.isdecimal() or text in zh_numbers.SIGNS:
            return Part(text, zh_numbers.SIGNS.get(text) or zh_numbers.names(text))
        return spaceless.marked(text)

    def _number(self, found: re.Match[str]) -> Part:
        said = zh_numbers.expanded(found)
        if re.search("[A-Z]", said):  # a unit of measure that is spelled
            words = re.split("([A-Z ]+)", said)
            sounds = [
                self._english().word(word) if word.isascii() else self._phrase(word) for word in words if word
            ]
            return Part(found[0], sounds=" ".join(sounds))
        return Part(found[0], said)

    def _phrase(self, characters: str) -> str:
        return " ".join(unit.phonemes.strip() for unit in self._run([Part(characters, characters)]))

    def _run(self, parts: list[Part]) -> list[Unit]:
        """Read neighbouring characters as words."""
        characters = "".join(part.characters for part in parts)
        chosen, start = {}, 0
        for part in parts:
            if part.reading:
                chosen[start] = part.reading
            start += len(part.characters)
        words = self._words.lcut(characters)
        pinyin = lazy_pinyin(words, style=Style.TONE3, neutral_tone_with_five=True, v_to_u=True)
        assert len(pinyin) == len(characters)
        readings = iter([chosen.get(index, reading) for index, reading in enumerate(pinyin)])
        said = ("".join(zh_pinyin.sounds(next(readings)) for _ in word) + " " for word in words)
        return spaceless.divided(parts, zip(map(len, words), said, strict=True))
