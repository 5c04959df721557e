"""The front ends, one for each language, each loaded on first use. Knows no model."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from . import scripts
from .cutting import Unit
from .en import English


class FrontEnd(Protocol):
    """A language: how its text sounds."""

    def read(self, text: str, *, normalise: bool) -> list[Unit]:
        """Divide a text into units with their sounds. Without `normalise` digits are read one by one."""


def languages_of(text: str, lang: str) -> set[str]:
    """The languages that read a text: its own, and those of other scripts in it."""
    folded = scripts.Folded(unicodedata.normalize("NFC", text))
    return {lang, *(run.lang for run in scripts.runs(folded.text, lang))}


class Languages:
    """All front ends. Those of Chinese, Japanese and Arabic borrow the English one for Latin words."""

    def __init__(self, diacritics: Path) -> None:
        self._diacritics = diacritics

    def read(self, text: str, lang: str, normalise: bool) -> list[Unit]:
        """Read a text in one of zh, en, ja, es, ar; words in the script of another are read by that one.

        Never raises: characters that no front end reads are named by the units that they stand in.
        """
        folded = scripts.Folded(unicodedata.normalize("NFC", text))
        units: list[Unit] = []
        for run in scripts.runs(folded.text, lang):
            front_end: FrontEnd = getattr(self, run.lang)
            if units:  # the last word of one language runs into no word of another
                units[-1] = replace(units[-1], phonemes=f"{units[-1].phonemes} ")
            units += front_end.read(folded.text[run.start : run.end], normalise=normalise)
        return folded.restored(units)

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
