"""Spanish text as sounds: its spelling says nearly all, so rules are enough. Latin American, without [θ]."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from . import es_numbers, marks
from .cutting import Unit

WORD = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ]{1,60}")
MARK = re.compile(r"\.\.\.|[\s\S]")
ABBREVIATIONS = {
    "Sr.": "señor", "Sra.": "señora", "Srta.": "señorita", "Dr.": "doctor", "Dra.": "doctora", "Ud.": "usted",
    "Uds.": "ustedes", "etc.": "etcétera", "p. ej.": "por ejemplo", "EE. UU.": "Estados Unidos",
    "núm.": "número",
    "EE.UU.": "Estados Unidos", "pág.": "página", "Av.": "avenida", "a. m.": "de la mañana",
    "p. m.": "de la tarde",
    "a.m.": "de la mañana", "p.m.": "de la tarde",
}  # fmt: skip
ABBREVIATION = re.compile("|".join(rf"(?<!\w){re.escape(name)}" for name in ABBREVIATIONS))
LETTERS = {
    "a": "a", "b": "be", "c": "ce", "d": "de", "e": "e", "f": "efe", "g": "ge", "h": "hache", "i": "i",
    "j": "jota",
    "k": "ka", "l": "ele", "m": "eme", "n": "ene", "ñ": "eñe", "o": "o", "p": "pe", "q": "cu",
    "r": "erre", "s": "ese",
    "t": "te", "u": "u", "v": "uve", "w": "doble ve", "x": "equis", "y": "i griega", "z": "zeta",
}  # fmt: skip
UNSTRESSED = frozenset({
    "el", "la", "los", "las", "un", "una", "de", "del", "al", "a", "en", "y", "e", "o", "u", "con",
    "por", "para", "que", "se", "me", "te", "le", "lo", "les", "nos", "su", "sus", "mi", "mis", "tu",
    "tus", "si", "como", "pero", "sin", "sobre", "ni",
})  # fmt: skip
SPELLING = (
    ("ch", "ʧ"), ("ll", "ʝ"), ("rr", "r"), ("^r|(?<=[nls])r", "r"), ("r", "ɾ"), ("qu(?=[eiéí])", "k"),
    ("gu(?=[eiéí])", "ɡ"), ("gü(?=[eiéí])", "ɡw"), ("s?c(?=[eiéí])", "s"), ("g(?=[eiéí])", "x"), ("sh", "ʃ"),
    ("ph", "f"), ("h", ""), ("ñ", "ɲ"), ("j", "x"), ("v", "b"), ("z", "s"), ("c", "k"), ("^x", "s"),
    ("x", "ks"), ("q", "k"), ("w", "w"), ("y(?=[aeiouáéíóú])", "ʝ"), ("y", "i"), ("g", "ɡ"), ("ü", "w"),
    ("([abdefiklmnopstu])", ""),
)  # fmt: skip
RULES = tuple((re.compile(pattern), sounds) for pattern, sounds in SPELLING)
"""Letters and their symbols, the first that fits wins; the last is for letters that are their own symbols."""
VOWELS = "aeiou"
ACCENTS = {"á": "a", "é": "e", "í": "i", "ó": "o", "ú": "u"}


class Spanish:
    """The Spanish front end."""

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide Spanish text into words with their sounds."""
        return [marks.unit(group) for group in marks.grouped(_pieces(text, normalise))]


def _pieces(text: str, normalise: bool) -> Iterator[marks.Piece]:
    start = 0
    while start < len(text):
        piece = _piece(text, start, normalise)
        yield piece
        start += len(piece.text)


def _piece(text: str, start: int, normalise: bool) -> marks.Piece:
    found: re.Match[str] | None
    if normalise and (found := ABBREVIATION.match(text, start)):
        return marks.Piece(found[0], phrase(ABBREVIATIONS[found[0]]))
    if normalise and (found := es_numbers.PATTERN.match(text, start)):
        return marks.Piece(found[0], phrase(es_numbers.expanded(found)))
    if found := WORD.match(text, start):
        return marks.Piece(found[0], word(found[0]))
    mark = MARK.match(text, start)
    assert mark is not None
    if mark[0].isdecimal():
        return marks.Piece(mark[0], word(es_numbers.SMALL[int(mark[0])]))
    sign = "−" if marks.MINUS.match(text, start) else mark[0]
    if sign in es_numbers.SIGNS:
        return marks.Piece(mark[0], phrase(es_numbers.SIGNS[sign]))
    return marks.marked(mark[0])


def phrase(text: str) -> str:
    """Several words."""
    return " ".join(word(part) for part in text.split())


def word(text: str) -> str:
    """One word; abbreviations in capitals are spelled."""
    if len(text) > 1 and text.isupper() and (len(text) <= 3 or not set(text) & set("AEIOUÁÉÍÓÚ")):
        return phrase(" ".join(LETTERS.get(letter, "") for letter in text.lower()))
    lower = text.lower()
    if len(lower) == 1 and lower not in "aeouy":
        return word(LETTERS[lower]) if lower in LETTERS and lower != "i" else _sounds(lower)[0]
    return _stressed(*_sounds(lower), written=lower)


def _sounds(letters: str) -> tuple[str, int | None]:
    """The symbols of a word, and where among them stands a vowel with a written accent."""
    sounds, accent, start = "", None, 0
    while start < len(letters):
        letter = letters[start]
        if letter in ACCENTS:
            accent = len(sounds)
            sounds += ACCENTS[letter]
            start += 1
            continue
        for pattern, symbols in RULES:
            if found := pattern.match(letters, start):
                sounds += found[1] if pattern.groups else symbols
                start = found.end()
                break
        else:
            sounds += "".join(
                base for base in unicodedata.normalize("NFD", letter) if base in "abcdefiklmnopstu"
            )
            start += 1
    return sounds, accent


def _stressed(sounds: str, accent: int | None, written: str) -> str:
    """Mark the stressed vowel, and turn weak vowels beside others into glides."""
    syllables = _nuclei(sounds, accent)
    if not syllables or (written in UNSTRESSED):
        return _glided(sounds, accent, None)
    if accent is None:
        last = written[-1] not in "aeiouns" or written.endswith("y")
        place = syllables[-1] if last or len(syllables) == 1 else syllables[-2]
    else:
        place = accent
    return _glided(sounds, accent, place)


def _nuclei(sounds: str, accent: int | None) -> list[int]:
    """Where the syllables' vowels are: i and u beside another vowel make none unless they bear the accent."""
    return [
        index for index, symbol in enumerate(sounds) if symbol in VOWELS and not _glide(sounds, index, accent)
    ]


def _glide(sounds: str, index: int, accent: int | None) -> str:
    """The glide that a weak vowel becomes, or nothing."""
    symbol = sounds[index]
    if symbol not in "iu" or index == accent:
        return ""
    after = sounds[index + 1 : index + 2]
    before = sounds[index - 1 : index]
    if after and after in VOWELS and (after in "aeo" or (after != symbol)):
        return "j" if symbol == "i" else "w"
    if before and before in "aeo":
        return "ɪ" if symbol == "i" else "ʊ"
    return ""


def _glided(sounds: str, accent: int | None, place: int | None) -> str:
    """Symbols with glides, and the stress mark before the stressed vowel."""
    said = ""
    for index, symbol in enumerate(sounds):
        glide = _glide(sounds, index, accent) if symbol in "iu" else ""
        said += ("ˈ" if index == place else "") + (glide or symbol)
    return said
