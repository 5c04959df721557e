"""Tables as CSV in which no cell is a formula to a spreadsheet: all are text or plain numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_FORMULA = re.compile(r"(^|[,;|\t\n]|\"|')(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\n])")
"""What may begin a formula, also behind what another program takes for the end of a cell: with many settings,
spreadsheets split lines at semicolons or tabs. The list is OWASP's, for CSV injection."""


def written(rows: Iterable[Iterable[object]]) -> str:
    """The table; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([inert(cell) for cell in row] for row in rows)
    return text.getvalue()


def inert(cell: object) -> str:
    """The cell as text, with an apostrophe before anything that could begin a formula."""
    # A line ends with LF alone, so a CR in a cell would not be quoted.
    text = "" if cell is None else str(cell).replace("\r\n", "\n").replace("\r", "\n")
    return text if _NUMBER.fullmatch(text) else _FORMULA.sub(r"\1'", text)
