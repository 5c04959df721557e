"""Whisper's tokens: which stand for what, and text out of them. Knows no sound.

Words are made of pieces of UTF-8; vocabulary.txt writes each byte as a letter of its own, as GPT-2 did.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

END = 50257
START = 50258
FIRST_LANGUAGE, LAST_LANGUAGE = 50259, 50357
TRANSCRIBE = 50359
BEFORE = 50361
"""In front of what was said before the window."""
SILENCE = 50362
FIRST_SPECIAL = END
FIRST_TIME = 50364
TIMES_PER_SECOND = 50


@dataclass(frozen=True, slots=True)
class Words:
    """Words between two times, in seconds from the start of the window; no `end`: no time ends them."""

    start: float
    end: float | None
    text: str


class Vocabulary:
    """The tokens of the multilingual models of 2022: base, small and medium share them."""

    def __init__(self, folder: Path) -> None:
        self._tokens = (folder / "vocabulary.txt").read_text("utf-8").split("\n")
        if self._tokens[END] != "<|endoftext|>" or self._tokens[FIRST_TIME] != "<|0.00|>":
            raise ValueError(f"{folder} is not the multilingual vocabulary")
        self._bytes = _bytes_of_letters()
        self.languages = [token[2:-2] for token in self._tokens[FIRST_LANGUAGE : LAST_LANGUAGE + 1]]
        config = json.loads((folder / "config.json").read_text("utf-8"))
        self.barred: list[int] = config["suppress_ids"]
        """Tokens that nobody says: brackets, notes, and so on."""

    def text(self, tokens: Iterable[int]) -> str:
        """The words. Bytes that are no whole character are left out."""
        letters = "".join(self._tokens[token] for token in tokens if token < END)
        return bytes(self._bytes[letter] for letter in letters).decode("utf-8", "ignore")

    def words(self, tokens: tuple[int, ...]) -> list[Words]:
        """What stands between the times."""
        found: list[Words] = []
        start, inside = 0.0, list[int]()
        for token in tokens:
            if token < FIRST_TIME:
                inside.append(token)
                continue
            at = (token - FIRST_TIME) / TIMES_PER_SECOND
            if inside:
                found.append(Words(start, at, self.text(inside).strip()))
                inside = []
            start = at
        if inside:
            found.append(Words(start, None, self.text(inside).strip()))
        return [words for words in found if words.text]


def _bytes_of_letters() -> dict[str, int]:
    """Printable letters of Latin-1 stand for themselves, the other bytes, in order, for U+0100 and on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    found = {chr(byte): byte for byte in plain}
    others = (byte for byte in range(256) if byte not in plain)
    return found | {chr(256 + number): byte for number, byte in enumerate(others)}
