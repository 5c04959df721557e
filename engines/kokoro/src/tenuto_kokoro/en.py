"""English text as sounds: misaki's dictionary of American English, a few rules for what depends on its
neighbours, and a guess from the letters for the rest. Knows no model."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files

from . import en_numbers, en_spelling, marks
from .cutting import Unit
from .dictionary import Dictionary
from .marks import Piece

Entry = str | dict[str, str | None]

ABBREVIATIONS = {
    "Mr.": "mister", "Mrs.": "misses", "Ms.": "miz", "Dr.": "doctor", "Prof.": "professor", "St.": "saint",
    "Jr.": "junior", "Sr.": "senior", "vs.": "versus", "etc.": "et cetera", "e.g.": "for example",
    "i.e.": "that is", "No.": "number", "approx.": "approximately", "Inc.": "incorporated", "Ltd.": "limited",
    "Co.": "company", "Gen.": "general", "Jan.": "January", "Feb.": "February", "Aug.": "August",
    "Sept.": "September", "Oct.": "October", "Nov.": "November", "Dec.": "December",
}  # fmt: skip
BEFORE = {"No.": r"(?=\s?\d)"}
"""What must follow an abbreviation that is also a word."""
WORD = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ]{1,60}(?:['’][A-Za-z]{1,60}){0,3}")
"""A word; what is longer than any is read in parts, since guessing takes the square of the length."""
ABBREVIATION = re.compile(
    "|".join(rf"\b{re.escape(name)}{BEFORE.get(name, '')}" for name in ABBREVIATIONS)
    + r"|\b(?:[A-Za-z]\.){2,}(?=\s*[a-z,;]|\s)"
)
MARK = re.compile(r"\.\.\.|[\s\S]")
CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z']+|[A-Z]+")
PAUSES = ",.;:!?—…"
WEAK = {
    "a": ("ɐ", "ɐ"), "an": ("ɐn", "ɐn"), "the": ("ðə", "ði"), "to": ("tə", "tʊ"), "in": ("ɪn", "ɪn"),
    "am": ("ɐm", "ɐm"), "i": ("ˌI", "ˌI"),
}  # fmt: skip
"""Little words before a consonant and before a vowel."""
WEAK_IF_FLOWING = frozenset({"a", "to", "in", "am"})
"""Of them, those that are said in full before a pause."""
CONTEXT = 4
"""How many pieces back the word before is looked for."""
BEFORE_A_VERB = frozenset({
    "to", "will", "would", "can", "could", "should", "must", "may", "might", "shall", "i", "you", "we",
    "they", "don't", "didn't", "doesn't", "won't", "can't", "cannot", "couldn't", "let's", "please",
    "not", "who",
})  # fmt: skip
AFTER_HAVING = frozenset({
    "have", "has", "had", "having", "was", "were", "been", "be", "is", "are", "i've", "we've",
    "you've", "they've", "he's", "she's",
})  # fmt: skip


class English:
    """The English front end; also says Latin words inside other languages."""

    def __init__(self) -> None:
        folder = files("misaki") / "data"
        # The second dictionary is larger and worse: abbreviations are not looked for in it.
        self._first = Dictionary(_entries(json.loads((folder / "us_gold.json").read_text("utf-8"))))
        self._second = Dictionary(_entries(json.loads((folder / "us_silver.json").read_text("utf-8"))))

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide English text into words with their sounds."""
        pieces = list(_pieces(text, normalise))
        following = ""
        for index in range(len(pieces) - 1, -1, -1):
            pieces[index] = self._sounded(pieces, index, following)
            following = pieces[index].sounds or pieces[index].mark.strip() or following
        return [marks.unit(group) for group in marks.grouped(pieces)]

    def word(self, text: str) -> str:
        """The sounds of one Latin word by itself, as it stands inside another language."""
        words = [part for piece in _pieces(text, True) for part in piece.words]
        return " ".join(filter(None, (self._say(word, "", "") for word in words)))

    def _sounded(self, pieces: list[Piece], index: int, following: str) -> Piece:
        """A piece with the sounds of its words, found from the last to the first: some depend on what
        follows."""
        piece = pieces[index]
        if not piece.words:
            return piece
        previous = [_before(pieces[max(0, index - CONTEXT) : index]), *piece.words]
        sounds = ""
        for word in reversed(piece.words):
            previous.pop()
            said = self._say(word, sounds or following, previous[-1])
            sounds = f"{said} {sounds}" if sounds else said
        return replace(piece, sounds=sounds)

    def _say(self, word: str, following: str, previous: str) -> str:
        """One word, where `following` are the sounds after it and `previous` is the word before it."""
        found = _special(word, following, previous) or self._known(word, following, previous.lower())
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
        found = (words.get(form) for words in dictionaries for form in forms)
        entry = next((value for value in found if value is not None), None)
        return json.loads(entry) if entry and entry[0] == "{" else entry

    def _guess(self, word: str) -> str:
        """A word that the dictionary does not have: its stem, its parts, its letters' names, its letters'
        sounds."""
        if len(word) == 1 or (word.isupper() and (len(word) <= 5 or not set(word) & set("AEIOUY"))):
            return self._letters(word)
        if word.endswith("'s"):
            return _suffixed(self._say(word[:-2], "", ""), "'s")
        parts = CAMEL.findall(_plain(word))
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
        names = [self._first.get(letter) or "" for letter in _plain(word).upper() if letter.isalpha()]
        weak = [name.replace("ˈ", "ˌ") for name in names[:-1]]
        return "".join(weak + names[-1:])


def _entries(words: dict[str, Entry]) -> Iterator[tuple[str, str]]:
    """Entries with several readings as JSON."""
    for word, entry in words.items():
        yield word, entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False)


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


def _special(word: str, following: str, previous: str) -> str | None:
    """Little words that change with what follows."""
    lower = word.lower()
    vowel = next((symbol in en_spelling.VOWELS for symbol in following if symbol not in 'ˈˌ “"('), False)
    flows = bool(following) and following[0] not in PAUSES
    if lower == "used" and following.startswith(("tə", "tʊ", "tu")):
        return "jˈust"
    if word == "A" and previous:
        return None  # the letter
    if lower in WEAK and (flows or lower not in WEAK_IF_FLOWING):
        return WEAK[lower][vowel]
    return None


def _chosen(entry: dict[str, str | None], following: str, previous: str) -> str | None:
    """One of several readings, by the word before. Without a tagger this catches only the plain cases."""
    if "None" in entry and (not following or following[0] in PAUSES):
        return entry["None"]
    if previous in AFTER_HAVING and entry.get("VBN"):
        return entry["VBN"]
    if previous in BEFORE_A_VERB and entry.get("VERB"):
        return entry["VERB"]
    if "NOUN" in entry and previous in ("the", "a", "an", "his", "her", "my", "your", "our", "their", "this"):
        return entry["NOUN"]
    return entry["DEFAULT"]


def _before(pieces: list[Piece]) -> str:
    """The last word of the same sentence."""
    for piece in reversed(pieces):
        if piece.words:
            return piece.words[-1]
        if set(piece.mark) & set(".!?…\n"):
            break
    return ""


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
        return Piece(found[0], words=tuple(said.split()))
    if normalise and (found := en_numbers.PATTERN.match(text, start)):
        return Piece(found[0], words=tuple(WORD.findall(en_numbers.expanded(found))))
    if found := WORD.match(text, start):
        return Piece(found[0], words=(found[0].replace("’", "'"),))
    if marks.MINUS.match(text, start):
        return Piece(text[start], words=("minus",))
    mark = MARK.match(text, start)
    assert mark is not None
    return _mark(mark[0])


def _mark(text: str) -> Piece:
    if text.isdecimal():
        return Piece(text, words=(en_numbers.ONES[int(text)],))
    if text in en_numbers.SIGNS:
        return Piece(text, words=tuple(en_numbers.SIGNS[text].split()))
    if text in en_numbers.MONEY:
        return Piece(text, words=(en_numbers.MONEY[text][0],))
    return marks.marked(text)


def _plain(word: str) -> str:
    """Letters without accents."""
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in decomposed if letter.isascii())
