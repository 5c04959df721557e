"""Splits a text into pieces that a server accepts, at places where a speaker would pause."""

from __future__ import annotations

import re

from tenuto_engine_kit.mandarin import ANNOTATION, chosen

_ENDINGS = (r"(?<=[。！？!?…\n])|(?<=[.] )", r"(?<=[，、；：,;:])", r"(?<=\s)")


def readable(text: str, lang: str) -> str:
    """The text, with annotations of the contract replaced by their character, because servers do not know
    them."""
    if lang != "zh":
        return text
    return ANNOTATION.sub(lambda match: match["character"] if chosen(match) else match[0], text)


def split(text: str, most: int) -> list[str]:
    """Pieces of at most `limit` characters: whole sentences, else clauses, else words, else cut anywhere.

    What holds nothing to speak stands with its neighbour, or is left out. Joined they are the text.
    """
    pieces: list[str] = []
    for piece in _divided(text, most, _ENDINGS):
        if pieces and (len(pieces[-1]) + len(piece) <= most or not _speaks(piece)):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return [piece for piece in pieces if _speaks(piece)]


def _divided(text: str, most: int, endings: tuple[str, ...]) -> list[str]:
    if len(text) <= most:
        return [text]
    if not endings:
        return [text[start : start + most] for start in range(0, len(text), most)]
    return [
        part for piece in re.split(endings[0], text) if piece for part in _divided(piece, most, endings[1:])
    ]


def _speaks(text: str) -> bool:
    return any(sign.isalnum() for sign in text)
