"""Which language reads which part of a text, told from the scripts alone. Knows no sounds and no words.

The rule is documented in docs/speech.md ("Other scripts"); clients mirror it to warn before they submit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from .cutting import Unit

LATIN = "A-Za-zÀ-ÅÇ-ÏÑ-ÖÙ-Ýà-åç-ïñ-öù-ýÿ"
"""Latin letters that a front end reads as they are; `Folded` turns all others into these."""
HAN = r"\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af"
KANA = r"\u3041-\u3096\u309b-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
ARABIC = r"\u0621-\u063a\u0640-\u0652\u0670\u0671\u067e\u0686\u06a4\u06a9\u06af\u06cc"
"""The letters and vowel marks of Arabic, and four letters of Persian."""

OTHER_LATIN = {
    "ETH": "d",
    "THORN": "th",
    "ENG": "ng",
    "SCHWA": "e",
    "ESH": "sh",
    "EZH": "zh",
    "SHARP S": "ss",
}
NAMED = re.compile(
    r"LATIN (CAPITAL|SMALL) (?:LETTER|LIGATURE) (?:[A-Z]+ )*?([A-Z]{1,2}|"
    + "|".join(OTHER_LATIN)
    + ")(?: WITH .*)?"
)
"""The name that Unicode gives a Latin letter says which basic letter it is a form of."""
PLAIN_LATIN = re.compile(f"[{LATIN}]+")
FOLDED_FORMS = (
    "<wide>",
    "<narrow>",
    "<font>",
    "<compat>",
    "<square>",
    "<initial>",
    "<medial>",
    "<final>",
    "<isolated>",
)
READ = re.compile(f"[{LATIN}{HAN}{KANA}{ARABIC}]+")
WIDE_SIGNS = {
    "％": "%",
    "＋": "+",
    "＝": "=",
    "＆": "&",
    "＠": "@",
    "＃": "#",
    "＄": "$",
    "￡": "£",
    "－": "-",
}


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a text that one front end reads, as indices of the folded text."""

    lang: str
    start: int
    end: int


class Folded:
    """A text whose letters and digits of unusual form are written as usual ones: full width, ligatures,
    mathematical alphabets, Arabic presentation forms, digits of any script, Latin letters beyond those of
    western Europe.

    `text` is what front ends read; `restored` puts the written text back into what they found.
    """

    def __init__(self, written: str) -> None:
        self._written = written
        parts = [_folded(char) for char in written]
        self.text = "".join(parts)
        self._source = [index for index, part in enumerate(parts) for _ in part]
        self._place: list[int] = []
        for index, part in enumerate(parts):
            # An end within what one character was folded to falls behind that character.
            self._place += [index] + [index + 1] * (len(part) - 1)
        self._place.append(len(written))

    def restored(self, units: Sequence[Unit]) -> list[Unit]:
        """The units with their texts, and what was left out of them, as they were written."""
        found, start = [], 0
        for unit in units:
            end = start + len(unit.text)
            places = [index for index in range(start, end) if self.text[index] in unit.skipped]
            skipped = "".join(self._written[self._source[index]] for index in places)
            text = self._written[self._place[start] : self._place[end]]
            found.append(replace(unit, text=text, skipped=skipped))
            start = end
        return found


def runs(text: str, lang: str) -> list[Run]:
    """The parts of a folded text and who reads them: Han, kana and Arabic letters are read by a language of
    their own unless `lang` itself is written with them, everything else by `lang`."""
    found = [Run(lang, 0, 0)]
    for run in (*_foreign(text, lang), Run(lang, len(text), len(text))):
        if found[-1].end < run.start:
            found.append(Run(lang, found[-1].end, run.start))
        if run.start < run.end:
            found.append(run)
    return found[1:]


def _foreign(text: str, lang: str) -> Iterator[Run]:
    """The parts that another language reads."""
    for match in _FOREIGN[lang].finditer(text):
        if lang != "ar" and match["arabic"]:
            yield Run("ar", *match.span())
        elif lang == "zh" or _IS_JAPANESE.search(match[0]):
            yield Run("ja", *match.span())
        else:
            yield Run("zh", *match.span())


def _words(letter: str) -> str:
    """Words of some letters, with what stands between two of them on a line and is no letter itself."""
    return rf"(?:{letter})+(?:(?:(?!\n)[\W\d_])+(?:{letter})+)*"


@lru_cache(4096)
def _folded(char: str) -> str:
    """The usual form of a letter; any other character as it is."""
    if char in WIDE_SIGNS:
        return WIDE_SIGNS[char]
    if READ.fullmatch(char) or char.isascii():
        return char
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    form = unicodedata.decomposition(char).split(" ")[0]
    folded = "".join(map(_basic, unicodedata.normalize("NFKC", char) if form in FOLDED_FORMS else char))
    return folded if READ.fullmatch(folded) else char


def _basic(letter: str) -> str:
    """A Latin letter without what English, Spanish and their neighbours do not know: ł → l, ő → o, œ → oe."""
    if READ.fullmatch(letter):
        return letter
    base = unicodedata.normalize("NFD", letter)[0]
    if PLAIN_LATIN.fullmatch(base):
        return base
    named = NAMED.fullmatch(unicodedata.name(letter, ""))
    if named is None:
        return letter
    basic = OTHER_LATIN.get(named[2], named[2].lower())
    return basic.upper() if named[1] == "CAPITAL" else basic


_IS_JAPANESE = re.compile(f"[{KANA}]")
_ARABIC_WORDS = f"(?P<arabic>{_words(f'[{ARABIC}]')})"
_KANA_WORDS = _words(f"[{KANA}]")
_EAST_ASIAN_WORDS = _words(rf"<[{HAN}]\|[A-Za-zÜü]+[1-5]>|[{HAN}{KANA}]")
_FOREIGN = {
    "zh": re.compile(f"{_ARABIC_WORDS}|{_KANA_WORDS}"),
    "ja": re.compile(_ARABIC_WORDS),
    "en": re.compile(f"{_ARABIC_WORDS}|{_EAST_ASIAN_WORDS}"),
    "es": re.compile(f"{_ARABIC_WORDS}|{_EAST_ASIAN_WORDS}"),
    "ar": re.compile(_EAST_ASIAN_WORDS),
}
"""What another language reads in a text of each. A chosen reading of a Han character belongs to it."""
