"""Prepares a text for the model.

The package reads markup of its own in a text: `<any word|any sounds>`, and the tokenizer's special tokens,
`<|…|>`, with which a caller could change the language or end a sentence in the middle. The contract knows one
form, a Han character with its syllable; everything else is plain text, so its signs are taken out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tenuto_engine import cutting
from tenuto_engine_kit.mandarin import ANNOTATION, chosen

_MARKUP = re.compile(r"[<>|]")


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
    """The text in pieces of at most `limit`. For releases of the package that do not split texts."""
    return [piece for piece in cutting.split(text, limit, size) if cutting.speaks(piece)]


def _plain(text: str) -> str:
    return _MARKUP.sub(" ", text)


def _spelled(syllable: str) -> str:
    """As in the training data: upper case, and V for the ü that is written u after j, q and x."""
    return re.sub(r"\A([jqx])u(?!o)", r"\1v", syllable).upper()
