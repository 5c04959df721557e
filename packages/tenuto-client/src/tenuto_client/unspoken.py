"""Finds characters that cannot be spoken before a text is submitted: docs/speech.md, "Other scripts".

Standard library only. `scripts/unspoken_table.py` makes the table from the embedded speech model; the studio
uses the same table. The `warnings` of the result list what was actually left out.
"""

from __future__ import annotations

import json
import unicodedata
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

MAX_LISTED = 20
"""The most different characters that a message lists."""


class UnspokenTextWarning(UserWarning):
    """A text contains characters that no language can speak; they are left out."""


@dataclass(frozen=True, slots=True)
class Unspoken:
    """The result of the check."""

    left_out: str
    """Every character that will be left out, once each, in the order of the text."""
    is_silent: bool
    """Whether nothing can be spoken: the job fails with `nothing_to_speak` and costs nothing."""

    @property
    def summary(self) -> str:
        """The characters for a message."""
        return " ".join(self.left_out[:MAX_LISTED]) + (" …" if len(self.left_out) > MAX_LISTED else "")


def unspoken(text: str) -> Unspoken:
    """What cannot be spoken. It does not depend on `lang`: each script has its own reader."""
    left_out: dict[str, None] = {}
    is_silent = True
    for char in unicodedata.normalize("NFC", text):
        if _is_in("spoken", char):
            is_silent = False
        elif not _is_in("silent", char):
            left_out[char] = None
    return Unspoken("".join(left_out), is_silent)


def warn(text: str, *, stacklevel: int) -> None:
    """Issue a Python warning if something will be left out; `stacklevel` is relative to the caller."""
    check = unspoken(text)
    if check.is_silent:
        message = (
            "nothing of the text can be spoken: the job will fail with nothing_to_speak and cost nothing"
        )
    elif check.left_out:
        message = f"these characters cannot be spoken and will be left out: {check.summary}"
    else:
        return
    warnings.warn(message, UnspokenTextWarning, stacklevel=stacklevel + 1)


def _is_in(name: str, char: str) -> bool:
    starts, ends = _table()[name]
    index = bisect_right(starts, ord(char)) - 1
    return index >= 0 and ord(char) <= ends[index]


@cache
def _table() -> dict[str, tuple[list[int], list[int]]]:
    """Ranges of code points by name, as starts and ends."""
    table = json.loads(files(__package__).joinpath("unspoken.json").read_text("utf-8"))
    ranges = {name: [part.partition("-") for part in text.split()] for name, text in table.items()}
    return {
        name: ([int(start, 16) for start, _, _ in parts], [int(end or start, 16) for start, _, end in parts])
        for name, parts in ranges.items()
    }
