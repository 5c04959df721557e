"""Marks and white space, shared by the languages that part words with spaces, and the building of their
units."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .cutting import Ending, Unit

PUNCTUATION = {
    "，": ",", "、": ",", "。": ".", "．": ".", "！": "!", "？": "?", "；": ";", "：": ":", "–": "—",
    "―": "—", "（": "(",
    "）": ")", "«": "“", "»": "”", "„": "“", "‘": "", "’": "", "'": "", "`": "", "[": "(", "]": ")",
    "...": "…",
    "¿": "", "¡": "", "،": ",", "؛": ";", "؟": "?", "《": "“", "》": "”", "「": "“", "」": "”",
    "『": "“", "』": "”",
    "【": "“", "】": "”", "〈": "“", "〉": "”", "……": "…", "——": "—", "～": "—", "〜": "—", "·": " ",
    "・": " ",
} | {sign: sign for sign in ';:,.!?—…"“”()'}  # fmt: skip
"""Marks as symbols of the model's vocabulary."""

JUNK = frozenset("-_‐‑/\\|~*^•·<>{}\u200b\u200c\u200d\u200e\u200f\ufeff\ufe0f")
"""Marks that are left out without a warning."""
SILENT_CATEGORIES = frozenset({"Cc", "Cf", "Mn", "Me"})
"""Characters of control and format, and marks on letters that have none of their own: left out likewise."""
BLANKS = re.compile(r"([;:,.!?—…”)])?([ \n]+)")
BEFORE_NO_MINUS = r"\w)%‰°℃℉$€£¥￥"
"""After one of these, a hyphen joins two numbers: 5%-10%."""
MINUS = re.compile(rf"(?<![{BEFORE_NO_MINUS}])[-−](?=[$€£¥￥]?[.]?\d)")
"""A hyphen that is said: before a number, behind nothing that it could join to it."""
MOST_WORDS = 8
"""A unit is never divided: this many words without white space between them are enough of one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a unit: sounds, or a mark between them."""

    text: str
    sounds: str = ""
    words: tuple[str, ...] = ()
    """Words whose sounds are found once their neighbours are known (English)."""
    mark: str = ""
    skipped: bool = False


def marked(text: str) -> Piece:
    """White space, punctuation, or a character that cannot be spoken."""
    if text.isspace():
        return Piece(text, mark="\n" if text in "\n\r\u2028\u2029" else " ")
    if text in PUNCTUATION:
        return Piece(text, mark=PUNCTUATION[text])
    return Piece(text, mark=" ", skipped=not _is_silent(text))


def _is_silent(text: str) -> bool:
    return text in JUNK or unicodedata.category(text[0]) in SILENT_CATEGORIES


def grouped(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Group pieces to units: each ends with the white space after it, or with a dash between words, or else
    where it would have too many words."""
    group: list[Piece] = []
    words = 0
    for piece in pieces:
        is_full = words >= MOST_WORDS and bool(piece.sounds)
        if (
            group
            and (group[-1].mark == "—" or group[-1].text.isspace() or is_full)
            and not piece.text.isspace()
        ):
            yield group
            group, words = [], 0
        group.append(piece)
        words += bool(piece.sounds)
    if group:
        yield group


def unit(group: list[Piece]) -> Unit:
    """The pieces of one group as one unit."""
    sounds = ""
    for piece in group:
        if piece.sounds:
            sounds += (" " if sounds and sounds[-1] not in ' “("—' else "") + piece.sounds
        else:
            sounds += piece.mark
    skipped = "".join(piece.text for piece in group if piece.skipped)
    tail = []
    for piece in reversed(group):
        if piece.sounds:
            break
        tail.append(piece)
    return Unit("".join(piece.text for piece in group), paused(sounds), ending(tail), skipped)


def paused(sounds: str) -> str:
    """Symbols with a full stop where a line ends without a mark."""
    return BLANKS.sub(lambda end: f"{end[1] or '.'} " if "\n" in end[2] else end[0], sounds)


def ending(tail: Iterable[Piece]) -> Ending:
    """What the marks after a word end; a new line ends a sentence."""
    tail = list(tail)
    marks = {symbol for piece in tail for symbol in piece.mark}
    if marks & set(".!?…\n"):
        return Ending.SENTENCE
    return Ending.CLAUSE if marks & set(",;:—") else Ending.WORD
