"""What a check of the audit is: one query over a page of one table's rows, and what to say of a row it gives.

Knows no table and no rule; those are in `money`, `lives` and `contents`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALL_AT_ONCE = "all at once"
"""For a check that compares two tables as wholes, and for tables of a few rows."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must never be."""

    name: str
    """Short and lasting: the label of the metric, the key for scripts."""
    table: str
    """Whose rows it goes through, page by page; or ALL_AT_ONCE."""
    what: str
    """What a row that the query gives means, as a sentence about `subject`."""
    remedy: str
    """What a person does about it; SUBJECT stands for the subject."""
    query: str
    """Gives `subject` and what else helps to understand, for keys above `:after` and up to `:last`.

    It may use `:before`, a moment: what is older has been left lying about. Then it is left out where nobody
    trusts the wall clock.
    """

    @property
    def needs_the_time(self) -> bool:
        """Whether it can be made only where the wall clock is right."""
        return ":before" in self.query


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should not be."""

    check: str
    subject: str
    what: str
    remedy: str
    seen: Mapping[str, Any]

    @property
    def summary(self) -> str:
        """The finding for a person: who, what, what was seen, what to do."""
        seen = " ".join(f"{name}={'-' if value is None else value}" for name, value in self.seen.items())
        return f"{self.subject}: {self.what}{f' ({seen})' if seen else ''} → {self.remedy}"

    @property
    def plain(self) -> dict[str, Any]:
        """The finding for a script."""
        return {
            "check": self.check,
            "subject": self.subject,
            "what": self.what,
            "seen": dict(self.seen),
            "remedy": self.remedy,
        }


def finding(check: Check, subject: str, seen: Mapping[str, Any]) -> Finding:
    """What a check says of one row."""
    return Finding(check.name, subject, check.what, check.remedy.replace("SUBJECT", subject), seen)
