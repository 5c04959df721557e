"""Splits a text into pieces that a server accepts, at places where a speaker would pause."""

from __future__ import annotations

from tenuto_engine import cutting
from tenuto_engine_kit.mandarin import ANNOTATION, chosen


def readable(text: str, lang: str) -> str:
    """The text, with annotations of the contract replaced by their character, because servers do not know
    them."""
    if lang != "zh":
        return text
    return ANNOTATION.sub(lambda match: match["character"] if chosen(match) else match[0], text)


def split(text: str, most: int) -> list[str]:
    """Pieces of at most `most` characters. What holds nothing to speak stands with its neighbour, or is left
    out."""
    pieces: list[str] = []
    for piece in cutting.split(text, most):
        if pieces and not cutting.speaks(piece):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return [piece for piece in pieces if cutting.speaks(piece)]
