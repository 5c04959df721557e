"""Columns for people, on a terminal. It knows nothing of what stands in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence


def aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Each line, its cells padded to the widest of their column; all lines have as many cells."""
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Columns on a terminal: a Chinese character takes two, an accent of its own none."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )
