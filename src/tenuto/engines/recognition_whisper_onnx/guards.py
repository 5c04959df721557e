"""What the model makes up: words said again and again, and words where nobody speaks. Knows no sound."""

from __future__ import annotations

import re
import zlib

from .search import Found

_UNLIKELY = -1.0
"""The average logarithm below which a transcript is guessed (Whisper's own limit)."""
_SILENT = 0.6
_DENSE = 2.4
"""Text that packs better than this says the same again and again (Whisper's own limit)."""
_SHORTEST_DENSE = 40
"""Bytes from which on the packing says anything."""
_REPEATED = re.compile(r"(.{1,60}?)\1{4,}", re.DOTALL)
"""Anything five times in a row."""
_SHORT = 3
"""Laughter and counting repeat so few characters: those may come so often as …"""
_OFTEN = 12


def collapsed(text: str) -> bool:
    """Whether the words go round in a circle."""
    plain = text.encode()
    dense = len(plain) >= _SHORTEST_DENSE and len(plain) / len(zlib.compress(plain)) > _DENSE
    return dense or any(_in_circles(match) for match in _REPEATED.finditer(text))


def unfolded(text: str) -> str:
    """The words with what goes round in a circle said once."""
    return _REPEATED.sub(lambda match: match[1] if _in_circles(match) else match[0], text)


def guessed(found: Found) -> bool:
    """Whether the model was not sure what it heard."""
    return found.likelihood < _UNLIKELY


def made_up(found: Found) -> bool:
    """Whether the model was not sure, and heard nobody speak."""
    return guessed(found) and found.silence > _SILENT


def _in_circles(match: re.Match[str]) -> bool:
    return len(match[1].strip()) > _SHORT or len(match[0]) // len(match[1]) >= _OFTEN
