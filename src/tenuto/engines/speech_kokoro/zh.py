"""Chinese text as sounds: jieba's words, pypinyin's readings, and the readings that the caller wrote beside a
character. Latin words are said by the English front end. Knows no model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jieba
from pypinyin import Style, lazy_pinyin

from . import marks, zh_numbers, zh_pinyin
from .en import English
from .segments import Ending, Unit

HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff〇]")
LATIN = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ]+(?:['’][A-Za-z]+)*(?:[ -]+[A-Za-z]+(?:['’][A-Za-z]+)*)*")
MARK = re.compile(r"\.\.\.|……|——|[\s\S]")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the text: characters to be read together with their neighbours, or what stands between them."""

    text: str
    characters: str = ""
    reading: str = ""
    """The reading that the caller chose for a single character, as pinyin with a tone digit."""
    sounds: str = ""
    mark: str = ""
    skipped: bool = False


class Chinese:
    """The Chinese front end."""

    def __init__(self, english: Callable[[], English]) -> None:
        self._english = english
        self._words = jieba.Tokenizer()
        # Jieba would keep its parsed dictionary in a file that anyone may write; it is parsed anew instead.
        self._words.FREQ, self._words.total = self._words.gen_pfdict(self._words.get_dict_file())
        self._words.initialized = True

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide Chinese text into words with their sounds."""
        units: list[Unit] = []
        run: list[Part] = []
        for part in self._parts(text, normalise):
            if part.characters:
                run.append(part)
                continue
            units += self._run(run)
            run = []
            if part.mark and units and not _opens(part):
                units[-1] = _followed(units[-1], part)
            else:
                units.append(_alone(part))
        units += self._run(run)
        return _led(units)

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
            return Part(text[start], unicodedata.normalize("NFKC", text[start]).replace("〇", "零"))
        mark = MARK.match(text, start)
        assert mark is not None
        if mark[0].isdecimal():
            return Part(mark[0], zh_numbers.names(mark[0]))
        if mark[0] in zh_numbers.SIGNS:
            return Part(mark[0], zh_numbers.SIGNS[mark[0]])
        return self._mark(mark[0])

    def _mark(self, text: str) -> Part:
        """Punctuation, a letter of full width, or what cannot be spoken."""
        narrow = unicodedata.normalize("NFKC", text)
        if LATIN.fullmatch(narrow):
            return Part(text, sounds=self._english().word(narrow))
        piece = marks.marked(text)
        return Part(text, mark=piece.mark or " ", skipped=piece.skipped)

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
        """Read neighbouring characters as words. A word that lies in two numbers or more joins them to one unit."""
        characters = "".join(part.characters for part in parts)
        if not characters:
            return []
        owners = [index for index, part in enumerate(parts) for _ in part.characters]
        readings = {owners.index(index): part.reading for index, part in enumerate(parts) if part.reading}
        units: list[Unit] = []
        start, text_start, sounds = 0, 0, ""
        words = self._words.lcut(characters)
        pinyin = lazy_pinyin(words, style=Style.TONE3, neutral_tone_with_five=True, v_to_u=True)
        assert len(pinyin) == len(characters)
        for word in words:
            end = start + len(word)
            sounds += (
                "".join(zh_pinyin.sounds(readings.get(at, pinyin[at])) for at in range(start, end)) + " "
            )
            start = end
            if end == len(characters) or owners[end] != owners[end - 1]:
                text_end = owners[end - 1] + 1
                units.append(Unit("".join(part.text for part in parts[text_start:text_end]), sounds))
                text_start, sounds = text_end, ""
        return units


OPENING = frozenset("“(")


def _opens(part: Part) -> bool:
    return part.mark in OPENING and not part.text.isspace()


def _alone(part: Part) -> Unit:
    sounds = f"{part.sounds} " if part.sounds else part.mark.replace("\n", " ")
    return Unit(part.text, sounds, _ending(part), part.text if part.skipped else "")


def _followed(unit: Unit, part: Part) -> Unit:
    """A unit with the mark after it."""
    mark = part.mark if part.mark in (" ", "\n") else f"{part.mark} "
    skipped = unit.skipped + (part.text if part.skipped else "")
    return Unit(
        unit.text + part.text,
        marks.paused(unit.phonemes.rstrip(" ") + mark),
        max(unit.ending, _ending(part)),
        skipped,
    )


def _ending(part: Part) -> Ending:
    return marks.ending([marks.Piece(part.text, mark=part.mark)])


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
