"""Japanese text as sounds: Open JTalk's readings, kana as symbols. Knows no model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import jaconv
import pyopenjtalk

from . import ja_kana, ja_numbers, marks
from .en import English
from .segments import Unit

READ = re.compile(
    r"[\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f]"
)
LATIN = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿＡ-Ｚａ-ｚ]+(?:['’][A-Za-z]+)*")
MARK = re.compile(r"\.\.\.|……|——|[\s\S]")
FULL_DIGITS = str.maketrans("０１２３４５６７８９", "0123456789")
LONGEST_WORD = 8
"""The most of the dictionary's parts that may be joined to one word."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the text: characters to be read together with their neighbours, or what stands between them."""

    text: str
    characters: str = ""
    sounds: str = ""
    mark: str = ""
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """Written characters and their reading in hiragana."""

    characters: str
    kana: str


class Japanese:
    """The Japanese front end."""

    def __init__(self, english: Callable[[], English]) -> None:
        self._english = english

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide Japanese text into words with their sounds."""
        units: list[Unit] = []
        run: list[Part] = []
        for part in [*self._parts(text, normalise), Part("")]:
            if part.characters:
                run.append(part)
                continue
            units += self._run(run)
            run = []
            if part.text:
                units = _with(units, part)
        return _led(units)

    def _parts(self, text: str, normalise: bool) -> Iterator[Part]:
        plain = text.translate(FULL_DIGITS)
        start = 0
        while start < len(text):
            part = self._part(plain, start, normalise)
            end = start + len(part.text)
            yield Part(text[start:end], part.characters, part.sounds, part.mark, part.skipped)
            start = end

    def _part(self, text: str, start: int, normalise: bool) -> Part:
        found: re.Match[str] | None
        if normalise and (found := ja_numbers.PATTERN.match(text, start)):
            return Part(found[0], ja_numbers.expanded(found))
        if found := LATIN.match(text, start):
            return self._latin(found[0])
        if READ.match(text, start):
            return Part(text[start], text[start])
        mark = MARK.match(text, start)
        assert mark is not None
        if mark[0].isdecimal():
            return Part(mark[0], ja_numbers.names(mark[0]))
        if mark[0] in ja_numbers.SIGNS:
            return Part(mark[0], ja_numbers.SIGNS[mark[0]])
        piece = marks.marked(mark[0])
        return Part(mark[0], mark=piece.mark or " ", skipped=piece.skipped)

    def _latin(self, text: str) -> Part:
        """A Latin word: spelled in Japanese if an abbreviation, else said in English."""
        narrow = unicodedata.normalize("NFKC", text)
        if not narrow.isupper():
            return Part(text, sounds=self._english().word(narrow))
        nodes = pyopenjtalk.run_frontend(narrow, use_sudachi_kanji_yomi=False)
        return Part(text, sounds=ja_kana.sounds("".join(_kana(node["pron"]) for node in nodes)))

    def _run(self, parts: list[Part]) -> list[Unit]:
        """Read neighbouring characters as words. A word that lies in two parts or more joins them to one unit."""
        characters = "".join(part.characters for part in parts)
        if not characters:
            return []
        owners = [index for index, part in enumerate(parts) for _ in part.characters]
        units: list[Unit] = []
        start, text_start, sounds = 0, 0, ""
        for word in self._words(characters):
            sounds += ja_kana.sounds(word.kana) + " "
            start += len(word.characters)
            if start == len(characters) or owners[start] != owners[start - 1]:
                text_end = owners[start - 1] + 1
                units.append(Unit("".join(part.text for part in parts[text_start:text_end]), _closed(sounds)))
                text_start, sounds = text_end, ""
        return units

    def _words(self, characters: str) -> list[Word]:
        """Words with their readings; all as one word in the rare case that the dictionary rewrote the text."""
        nodes = pyopenjtalk.run_frontend(characters, use_sudachi_kanji_yomi=False)
        words = [Word(node["string"], _kana(node["pron"])) for node in nodes]
        if "".join(word.characters for word in words) != characters:
            return [Word(characters, "".join(word.kana for word in words))]
        return self._joined(words)

    def _joined(self, words: list[Word]) -> list[Word]:
        """Join parts that make a word of the list which the model was taught with."""
        found: list[Word] = []
        start = 0
        while start < len(words):
            for end in range(min(len(words), start + LONGEST_WORD), start, -1):
                together = "".join(word.characters for word in words[start:end])
                if end == start + 1 or together in self._list:
                    found.append(Word(together, "".join(word.kana for word in words[start:end])))
                    start = end
                    break
        return found

    @cached_property
    def _list(self) -> frozenset[str]:
        return frozenset((files("misaki") / "data" / "ja_words.txt").read_text("utf-8").split())


OPENING = frozenset("“(")


def _kana(pron: str) -> str:
    return str(jaconv.kata2hira(pron.replace("’", "").replace("'", "")))


def _closed(sounds: str) -> str:
    """A stop at the end of a word runs into the next."""
    return re.sub("ʔ $", "ʔ", sounds)


def _with(units: list[Unit], part: Part) -> list[Unit]:
    if part.sounds:
        return [*units, Unit(part.text, part.sounds + " ")]
    ending = marks.ending([marks.Piece(part.text, mark=part.mark)])
    skipped = part.text if part.skipped else ""
    if not units or part.mark in OPENING:
        return [*units, Unit(part.text, part.mark.replace("\n", " "), ending, skipped)]
    last = units[-1]
    mark = part.mark if part.mark in (" ", "\n") else f"{part.mark} "
    sounds = marks.paused(last.phonemes.rstrip(" ") + mark)
    return [
        *units[:-1],
        Unit(last.text + part.text, sounds, max(last.ending, ending), last.skipped + skipped),
    ]


def _led(units: list[Unit]) -> list[Unit]:
    """Join opening marks to the word that they lead."""
    found: list[Unit] = []
    lead: Unit | None = None
    for unit in units:
        if lead:
            unit = Unit(
                lead.text + unit.text, lead.phonemes + unit.phonemes, unit.ending, lead.skipped + unit.skipped
            )
        lead = unit if unit.phonemes.strip() in OPENING else None
        if not lead:
            found.append(unit)
    return [*found, lead] if lead else found
