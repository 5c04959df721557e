"""The front ends, one for each language, each loaded on first use. Knows no model."""

from __future__ import annotations

import unicodedata
from functools import cached_property
from pathlib import Path
from typing import Protocol

from .en import English
from .segments import Unit


class FrontEnd(Protocol):
    """A language: how its text sounds."""

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide a text into units with their sounds. Without `normalise` digits are read one by one."""


class Languages:
    """All front ends. The Chinese and Arabic ones borrow the English one for Latin words."""

    def __init__(self, diacritics: Path) -> None:
        self._diacritics = diacritics

    def read(self, text: str, lang: str, normalise: bool) -> list[Unit]:
        """Read a text in one of zh, en, ja, es, ar."""
        front_end: FrontEnd = getattr(self, lang)
        return front_end.read(unicodedata.normalize("NFC", text), normalise=normalise)

    @cached_property
    def zh(self) -> FrontEnd:
        from .zh import Chinese

        return Chinese(lambda: self.en)

    @cached_property
    def en(self) -> English:
        return English()

    @cached_property
    def ja(self) -> FrontEnd:
        from .ja import Japanese

        return Japanese(lambda: self.en)

    @cached_property
    def es(self) -> FrontEnd:
        from .es import Spanish

        return Spanish()

    @cached_property
    def ar(self) -> FrontEnd:
        from .ar import Arabic

        return Arabic(self._diacritics, lambda: self.en)
