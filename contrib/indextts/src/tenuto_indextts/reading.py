"""Prepares a text for the model.

The package reads markup of its own in a text: `<any word|any sounds>`, and the tokenizer's special tokens,
`<|…|>`, with which a caller could change the language or end a sentence in the middle. The contract knows one
form, a Han character with its syllable; everything else is plain text, so its signs are taken out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tenuto_engine_kit.mandarin import ANNOTATION, chosen

_MARKUP = re.compile(r"[<>|]")
_ATOM = re.compile(r"<[^<>]*>|.", re.DOTALL)
_ENDINGS = (r"(?<=[。！？!?…\n])|(?<=[.] )", r"(?<=[，、；：,;:])", r"(?<=\s)")


def readable(text: str, lang: str) -> str:
    """The text with annotations in the model's form, and without any other markup."""
    pieces, at = [], 0
    for found in ANNOTATION.finditer(text) if lang == "zh" else ():
        syllable = chosen(found)
        if syllable is not None:
            pieces += [_plain(text[at : found.start()]), f"<{found['character']}|{_spelled(syllable)}>"]
            at = found.end()
    return "".join(pieces) + _plain(text[at:])


def split(text: str, limit: int, size: Callable[[str], int]) -> list[str]:
    """The text in pieces of at most `limit`, cut after sentences, else clauses, else words, else anywhere
    outside an annotation. For releases of the package that do not split texts."""
    found: list[str] = []
    for piece in _divided(text, limit, size, _ENDINGS):
        if found and size(found[-1] + piece) <= limit:
            found[-1] += piece
        else:
            found.append(piece)
    return [piece for piece in found if any(sign.isalnum() for sign in piece)]


def _divided(text: str, limit: int, size: Callable[[str], int], endings: Sequence[str]) -> list[str]:
    if size(text) <= limit:
        return [text]
    if not endings:
        return [found[0] for found in _ATOM.finditer(text)]
    pieces = [piece for piece in re.split(endings[0], text) if piece]
    return [part for piece in pieces for part in _divided(piece, limit, size, endings[1:])]


def _plain(text: str) -> str:
    return _MARKUP.sub(" ", text)


def _spelled(syllable: str) -> str:
    """As in the training data: upper case, and V for the ü that is written u after j, q and x."""
    return re.sub(r"\A([jqx])u(?!o)", r"\1v", syllable).upper()
