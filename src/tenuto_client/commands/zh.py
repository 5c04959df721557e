"""The Chinese of every message: by its English text."""

from __future__ import annotations

WORDS: dict[str, str] = {}
