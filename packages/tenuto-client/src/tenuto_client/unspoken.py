"""What nobody can read aloud, told before a text is submitted: the rule of docs/speech.md, "Other scripts".

Standard library only. The table is made from the embedded speech model by `scripts/unspoken_table.py`; the
studio has the same one. What was left out in the end is in the `warnings` of the result.
"""

from __future__ import annotations

import json
import unicodedata
import warnings
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SHOWN = 20
"""So many different characters are named; more would help nobody."""


class UnspokenTextWarning(UserWarning):
    """A text holds characters that no language can read; they are left out of the speech."""


@dataclass(frozen=True, slots=True)
class Unspoken:
    """What becomes of a text."""

    left_out: str
    """Each character that is left out, once, in the order of the text."""
    is_silent: bool
    """Whether nothing of the text can be spoken: its job ends as `nothing_to_speak` and costs nothing."""

    @property
    def shown(self) -> str:
        """The characters that are named to a person."""
        return " ".join(self.left_out[:SHOWN]) + (" …" if len(self.left_out) > SHOWN else "")


def unspoken(text: str) -> Unspoken:
    """What of a text nobody can read: the same in every `lang`, for each script has its reader."""
    left_out: dict[str, None] = {}
    is_silent = True
    for char in unicodedata.normalize("NFC", text):
        if _is_in("spoken", char):
            is_silent = False
        elif not _is_in("silent", char):
            left_out[char] = None
    return Unspoken("".join(left_out), is_silent)


def warn(text: str, *, stacklevel: int) -> None:
    """A Python warning for a text that cannot be read whole; `stacklevel` as the caller would give it."""
    found = unspoken(text)
    if found.is_silent:
        message = (
            "nothing of the text can be spoken: the job will fail with nothing_to_speak and cost nothing"
        )
    elif found.left_out:
        message = f"these characters cannot be spoken and will be left out: {found.shown}"
    else:
        return
    warnings.warn(message, UnspokenTextWarning, stacklevel=stacklevel + 1)


def _is_in(name: str, char: str) -> bool:
    starts, ends = _table()[name]
    place = bisect_right(starts, ord(char)) - 1
    return place >= 0 and ord(char) <= ends[place]


@cache
def _table() -> dict[str, tuple[list[int], list[int]]]:
    """Ranges of code points by name: their starts and their ends."""
    given = json.loads(files(__package__).joinpath("unspoken.json").read_text("utf-8"))
    ranges = {name: [part.partition("-") for part in text.split()] for name, text in given.items()}
    return {
        name: ([int(start, 16) for start, _, _ in parts], [int(end or start, 16) for start, _, end in parts])
        for name, parts in ranges.items()
    }
