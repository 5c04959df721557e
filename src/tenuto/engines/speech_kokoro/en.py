"""English text as sounds: misaki's dictionary of American English, a few rules for what depends on its neighbours,
and a guess from the letters for the rest. Knows no model."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from . import en_numbers, en_spelling
from .segments import Ending, Unit

Entry = str | dict[str, str | None]

ABBREVIATIONS = {
    "Mr.": "mister", "Mrs.": "misses", "Ms.": "miz", "Dr.": "doctor", "Prof.": "professor", "St.": "saint",
    "Jr.": "junior", "Sr.": "senior", "vs.": "versus", "etc.": "et cetera", "e.g.": "for example",
    "i.e.": "that is", "No.": "number", "approx.": "approximately", "Inc.": "incorporated", "Ltd.": "limited",
    "Co.": "company", "Gen.": "general", "Jan.": "January", "Feb.": "February", "Aug.": "August",
    "Sept.": "September", "Oct.": "October", "Nov.": "November", "Dec.": "December",
}  # fmt: skip
PUNCTUATION = {
    "，": ",", "、": ",", "。": ".", "！": "!", "？": "?", "；": ";", "：": ":", "–": "—", "―": "—", "（": "(", "）": ")",
    "«": "“", "»": "”", "„": "“", "‘": "", "’": "", "'": "", "`": "", "[": "(", "]": ")", "...": "…", "¿": "", "¡": "",
} | {sign: sign for sign in ';:,.!?—…"“”()'}  # fmt: skip
WORD = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ]+(?:['’][A-Za-z]+)*")
ABBREVIATION = re.compile(
    "|".join(rf"\b{re.escape(name)}" for name in ABBREVIATIONS) + r"|\b(?:[A-Za-z]\.){2,}(?=\s*[a-z,;]|\s)"
)
MARK = re.compile(r"\.\.\.|[\s\S]")
CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z']+|[A-Z]+")
BEFORE_A_VERB = frozenset(
    ["to", "will", "would", "can", "could", "should", "must", "may", "might", "shall", "i", "you", "we", "they", "don't", "didn't", "doesn't", "won't", "can't", "cannot", "couldn't", "let's", "please", "not", "who"]
)
AFTER_HAVING = frozenset(
    ["have", "has", "had", "having", "was", "were", "been", "be", "is", "are", "i've", "we've", "you've", "they've", "he's", "she's"]
)
JUNK = "-_‐‑/\\|~*^•·"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a unit: words to say, or a mark."""

    text: str
    words: tuple[str, ...] = ()
    mark: str = ""
    skipped: bool = False


class English:
    """The English front end; also says Latin words inside other languages."""

    def __init__(self) -> None:
        folder = files("misaki") / "data"
        # The second dictionary is larger and worse: abbreviations are not looked for in it.
        self._first: dict[str, Entry] = json.loads((folder / "us_gold.json").read_text("utf-8"))
        self._second: dict[str, Entry] = json.loads((folder / "us_silver.json").read_text("utf-8"))

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide English text into words with their sounds."""
        groups = list(_grouped(_pieces(text, normalise)))
        units: list[Unit] = []
        following = ""
        for index in range(len(groups) - 1, -1, -1):
            previous = _last_word(groups[index - 1]) if index else ""
            unit = self._unit(groups[index], following, previous)
            units.append(unit)
            following = unit.phonemes or following
        return units[::-1]

    def word(self, text: str) -> str:
        """The sounds of one Latin word by itself, as it stands inside another language."""
        words = [part for piece in _pieces(text, True) for part in piece.words]
        return " ".join(filter(None, (self._say(word, "", "") for word in words)))

    def _unit(self, group: list[Piece], following: str, previous: str) -> Unit:
        """Say the pieces of one unit, from the last to the first: some words depend on what follows."""
        sounds = ""
        spoken = [word for piece in group for word in piece.words]
        for piece in reversed(group):
            if not piece.words:
                sounds = piece.mark + sounds
                continue
            for word in reversed(piece.words):
                spoken.pop()
                before = spoken[-1] if spoken else previous
                said = self._say(word, sounds.strip() or following, before)
                sounds = said + (" " if said and sounds[:1] not in ("", " ", *",.;:!?…)”") else "") + sounds
        skipped = "".join(piece.text for piece in group if piece.skipped)
        return Unit("".join(piece.text for piece in group), sounds, _ending(group), skipped)

    def _say(self, word: str, following: str, previous: str) -> str:
        """One word, where `following` are the sounds after it and `previous` is the word before it."""
        found = _special(word, following) or self._known(word, following, previous.lower())
        return (found or self._guess(word)).replace("ɾ", "T").replace("ʔ", "t")

    def _known(self, word: str, following: str, previous: str) -> str | None:
        entry = self._entry(word)
        if isinstance(entry, dict):
            if word.isupper() and "NOUN" in entry and entry["NOUN"] is None:
                return self._letters(word)
            return _chosen(entry, following, previous)
        return entry

    def _entry(self, word: str) -> Entry | None:
        if len(word) == 1:
            return None
        lower = _plain(word.lower())
        dictionaries = (self._first,) if word.isupper() else (self._first, self._second)
        forms = (word, lower, lower.capitalize())
        return next((words[form] for words in dictionaries for form in forms if form in words), None)

    def _guess(self, word: str) -> str:
        """A word that the dictionary does not have: its stem, its parts, its letters' names, its letters' sounds."""
        if len(word) == 1 or (word.isupper() and (len(word) <= 5 or not set(word) & set("AEIOUY"))):
            return self._letters(word)
        parts = CAMEL.findall(word)
        if len(parts) > 1 and not word.islower() and "'" not in word:
            return "".join(self._say(part, "", "") for part in parts)
        lower = _plain(word.lower())
        return self._stemmed(lower) or self._compound(lower) or en_spelling.spelled(lower.replace("'", ""))

    def _stemmed(self, word: str) -> str | None:
        for suffix, endings in STEMS:
            if not word.endswith(suffix) or len(word) < len(suffix) + 3:
                continue
            for ending in endings:
                entry = self._entry(word[: -len(suffix)] + ending)
                if entry is not None:
                    return _suffixed(entry if isinstance(entry, str) else str(entry["DEFAULT"]), suffix)
        return None

    def _compound(self, word: str) -> str | None:
        """Two known words written as one, the first as long as can be."""
        for cut in range(len(word) - 3, 2, -1):
            first, second = self._entry(word[:cut]), self._entry(word[cut:])
            if isinstance(first, str) and isinstance(second, str):
                return first + second.replace("ˈ", "ˌ")
        return None

    def _letters(self, word: str) -> str:
        """Names of letters, the last one stressed: ABC → ˌAbˌisˈi."""
        names = [str(self._first[letter]) for letter in _plain(word).upper() if letter.isalpha()]
        weak = [name.replace("ˈ", "ˌ") for name in names[:-1]]
        return "".join(weak + names[-1:])


STEMS = (
    ("'s", ("",)), ("s'", ("s", "")), ("'", ("",)), ("ies", ("y",)), ("es", ("", "e")), ("s", ("",)),
    ("ied", ("y",)), ("ed", ("", "e")), ("d", ("",)), ("ing", ("", "e")),
)  # fmt: skip


def _suffixed(stem: str, suffix: str) -> str:
    """A stem with the sound of its ending."""
    last = stem[-1:]
    if suffix.endswith("ing"):
        return stem + "ɪŋ"
    if suffix.endswith("d"):
        return stem + ("ᵻd" if last in "td" else "t" if last in "pkfθʃsʧ" else "d")
    if suffix in ("s'", "'"):
        return stem
    return stem + ("ᵻz" if last in "szʃʒʧʤ" else "s" if last in "ptkfθ" else "z")


def _special(word: str, following: str) -> str | None:
    """Little words that change with what follows."""
    vowel = next((symbol in en_spelling.VOWELS for symbol in following if symbol not in 'ˈˌ “"('), None)
    match word.lower():
        case "a" if word == "a" or following:
            return "ɐ" if word == "a" or following[0] not in ",.;:!?—" else None
        case "an":
            return "ɐn"
        case "the":
            return "ði" if vowel else "ðə"
        case "to" if vowel is not None and following[0] not in ",.;:!?—":
            return "tʊ" if vowel else "tə"
        case "i":
            return "ˌI"
        case "am" if following and following[0] not in ",.;:!?—" and word == "am":
            return "ɐm"
        case "in" if following and following[0] not in ",.;:!?—":
            return "ɪn"
        case "used" if following.startswith(("tə", "tʊ", "tu")):
            return "jˈust"
    return None


def _chosen(entry: dict[str, str | None], following: str, previous: str) -> str | None:
    """One of several readings, by the word before. Without a tagger this catches only the plain cases."""
    if "None" in entry and (not following or following[0] in ",.;:!?—…"):
        return entry["None"]
    if previous in AFTER_HAVING and entry.get("VBN"):
        return entry["VBN"]
    if previous in BEFORE_A_VERB and entry.get("VERB"):
        return entry["VERB"]
    if "NOUN" in entry and previous in ("the", "a", "an", "his", "her", "my", "your", "our", "their", "this"):
        return entry["NOUN"]
    return entry["DEFAULT"]


def _pieces(text: str, normalise: bool) -> Iterator[Piece]:
    """Divide a text into words, numbers as words, and marks; nothing of it is lost."""
    start = 0
    while start < len(text):
        piece = _piece(text, start, normalise)
        yield piece
        start += len(piece.text)


def _piece(text: str, start: int, normalise: bool) -> Piece:
    found: re.Match[str] | None
    if normalise and (found := ABBREVIATION.match(text, start)):
        said = ABBREVIATIONS.get(found[0]) or found[0].replace(".", "").upper()
        return Piece(found[0], tuple(said.split()))
    if found := WORD.match(text, start):
        return Piece(found[0], (found[0].replace("’", "'"),))
    if normalise and (found := en_numbers.PATTERN.match(text, start)):
        return Piece(found[0], tuple(WORD.findall(en_numbers.expanded(found))))
    mark = MARK.match(text, start)
    assert mark is not None
    return _mark(mark[0], normalise)


def _mark(text: str, normalise: bool) -> Piece:
    if text.isspace():
        return Piece(text, mark=" ")
    if text in PUNCTUATION:
        return Piece(text, mark=PUNCTUATION[text])
    if text.isdecimal():
        return Piece(text, (en_numbers.ONES[int(text)],))
    if text in en_numbers.SIGNS:
        return Piece(text, tuple(en_numbers.SIGNS[text].split()))
    if text in en_numbers.MONEY:
        return Piece(text, (en_numbers.MONEY[text][0],))
    return Piece(text, mark=" ", skipped=text not in JUNK)


def _grouped(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Group pieces to units: each ends with the white space after it, or with a dash between words."""
    group: list[Piece] = []
    for piece in pieces:
        if group and group[-1].mark in (" ", "—") and _closes(group[-1]) and not piece.text.isspace():
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _closes(piece: Piece) -> bool:
    return piece.mark == "—" or piece.text.isspace()


def _ending(group: list[Piece]) -> Ending:
    """What a unit's last marks end; a new line ends a sentence."""
    marks = ""
    for piece in reversed(group):
        if piece.words:
            break
        if "\n" in piece.text:
            return Ending.SENTENCE
        marks += piece.mark
    if set(marks) & set(".!?…"):
        return Ending.SENTENCE
    return Ending.CLAUSE if set(marks) & set(",;:—") else Ending.WORD


def _last_word(group: list[Piece]) -> str:
    return next((piece.words[-1] for piece in reversed(group) if piece.words), "")


def _plain(word: str) -> str:
    """Letters without accents."""
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in decomposed if letter.isascii())
