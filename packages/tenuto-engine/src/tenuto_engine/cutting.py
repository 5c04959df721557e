"""Cuts a text into pieces that a model, a server or a job takes, at places where a speaker would pause."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

_ATOM = r"<[^<>\s]{1,26}>|."
_CLOSING = "[\"'”’」』）)]*"
# A sentence with the quotes that close it, a clause, a word, many characters or readings `<力|LI4>`, one.
_PARTS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf".+?(?:[.!?…؟]{_CLOSING}\s+|[。！？]{_CLOSING}\s*|\n|\Z)",
        r".+?(?:[,;:،؛]\s+|[、，；：]\s*|\Z)",
        r".+?(?:\s+|\Z)",
        rf"(?:{_ATOM}){{1,64}}",  # So that what has no words is not measured character by character.
        _ATOM,
    )
)


def split(text: str, limit: int, size: Callable[[str], int] = len) -> list[str]:
    """The text in pieces of at most `limit`, as `size` measures them: as many sentences as fit, else clauses,
    words, characters. Joined they are the text."""
    return list(_gathered(text, limit, size, _PARTS))


def speaks(piece: str) -> bool:
    """Whether there is a letter or a digit in it."""
    return any(sign.isalnum() for sign in piece)


def _gathered(
    text: str, limit: int, size: Callable[[str], int], parts: Sequence[re.Pattern[str]]
) -> Iterator[str]:
    """As many parts in each piece as fit; a part that does not fit alone is cut more finely."""
    if size(text) <= limit or not parts:
        yield text
        return
    piece = ""
    for found in parts[0].finditer(text):
        part = found[0]
        if size(piece + part) <= limit:
            piece += part
            continue
        if piece:
            yield piece
        *whole, piece = _gathered(part, limit, size, parts[1:])
        yield from whole
    if piece:
        yield piece
