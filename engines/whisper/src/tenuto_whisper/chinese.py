"""Converts traditional characters, which Whisper sometimes writes, to simplified ones.

traditional.tsv: a character and its simplified form, from OpenCC 1.4.2's TSCharacters.txt
(https://github.com/BYVoid/OpenCC, Apache-2.0): the first choice for every character whose form differs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


def simplified(text: str) -> str:
    """The text with each traditional character in its simplified form."""
    return text.translate(_table())


@cache
def _table() -> dict[int, str]:
    lines = Path(__file__).with_name("traditional.tsv").read_text("utf-8").splitlines()
    return {ord(traditional): simple for traditional, simple in (line.split("\t") for line in lines)}
