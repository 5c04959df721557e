"""A check of the audit, which is one query over a page of a table's rows, and what it reports about a row.

Knows no table and no rule; those are in `job_checks` and `content_checks`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

ALL_AT_ONCE = "all at once"
"""For a check that compares two whole tables, and for tables of a few rows."""


class Check(Struct, frozen=True):
    """A condition that no row may meet."""

    name: str
    """Short and stable: the metric's label and the key for scripts."""
    table: str
    """The table whose rows it reads, page by page; or ALL_AT_ONCE."""
    what: str
    """What a row returned by the query means, as a sentence about `subject`."""
    remedy: str
    """What a person should do about it; SUBJECT stands for the subject."""
    query: str
    """Returns `subject` and the columns that help to explain it, for keys above `:after` and up to `:last`.

    It may use `:before`: anything older should have been removed. Such a check is skipped where the wall
    clock is not trusted.
    """

    @property
    def needs_the_time(self) -> bool:
        """Whether it requires a correct wall clock."""
        return ":before" in self.query


class Finding(Struct, frozen=True):
    """A row that meets such a condition."""

    check: str
    subject: str
    what: str
    seen: Mapping[str, Any]
    remedy: str

    def summary(self, translated: Callable[[str], str] = str) -> str:
        """The finding for a person, in their language: subject, fault, what was seen, what to do."""
        seen = " ".join(f"{name}={'-' if value is None else value}" for name, value in self.seen.items())
        what, remedy = translated(self.what), translated(self.remedy)
        return f"{self.subject}: {what}{f' ({seen})' if seen else ''} → {remedy}"

    @property
    def plain(self) -> dict[str, Any]:
        """The finding for a script."""
        return asdict(self)
