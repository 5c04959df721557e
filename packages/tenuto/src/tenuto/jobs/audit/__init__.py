"""The audit: money derived again from the ledger, lives from events, contents from what refers to them.

Read only, and page by page, so that its memory does not grow with the records. A healthy database gives no
finding at any moment, also under load: each statement sees one moment, and what it compares changes in one
transaction; `Database.snapshot` makes all pages see the same one. The bytes are for `artifacts.rehash`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tenuto.artifacts.operations import ORPHAN_AGE_MS
from tenuto.db.database import Row, Transaction
from tenuto.jobs.audit import contents, lives, money
from tenuto.jobs.audit.check import ALL_AT_ONCE, Check, Finding, finding
from tenuto.jobs.audit.pages import PAGES

CHECKS: tuple[Check, ...] = (*money.CHECKS, *lives.CHECKS, *contents.CHECKS)

MAX_FINDINGS = 100
"""So many are listed per check."""

PAGE_ROWS = 2_000

SWEPT_WITHIN_MS = 2 * 3600 * 1000
"""So long after its age an orphan may still be there: the sweep takes its time, and a service may be down."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was looked at, and what was found."""

    findings: list[Finding]
    rows: dict[str, int]
    """How many rows of each table were gone through."""


def audit(tx: Transaction, *, now_ms: int | None = None) -> list[Finding]:
    """All findings; an empty list means that records and money agree. See `report`."""
    return report(tx, now_ms=now_ms).findings


def report(
    tx: Transaction, *, now_ms: int | None = None, stopping: Callable[[], bool] = lambda: False
) -> Report:
    """Make every check on every page; at most `MAX_FINDINGS` of each are listed.

    Without `now_ms` nothing is said of what is too old. When `stopping` says so, the rest is left out.
    """
    auditor = _Auditor(tx, now_ms)
    for table in PAGES:
        for after, last in auditor.pages(table):
            if stopping():
                return auditor.report()
            auditor.look(table, after, last)
    auditor.look(ALL_AT_ONCE, "", "")
    return auditor.report()


class _Auditor:
    """One audit that is under way."""

    def __init__(self, tx: Transaction, now_ms: int | None) -> None:
        self._tx = tx
        self._before = None if now_ms is None else now_ms - ORPHAN_AGE_MS - SWEPT_WITHIN_MS
        self._findings: list[Finding] = []
        self._found: Counter[str] = Counter()
        self._rows: dict[str, int] = {}

    def report(self) -> Report:
        return Report(self._findings, self._rows)

    def pages(self, table: str) -> Iterator[tuple[str, str]]:
        """Pairs of keys: above the first, up to the second there are about `PAGE_ROWS` rows."""
        self._rows[table] = 0
        after = ""
        while True:
            page = self._tx.one(PAGES[table], after=after, rows=PAGE_ROWS)
            assert page is not None, "an aggregate gives a row"
            if not page["rows"]:
                return
            self._rows[table] += page["rows"]
            yield after, page["last"]
            if page["rows"] < PAGE_ROWS:
                return
            after = page["last"]

    def look(self, table: str, after: str, last: str) -> None:
        """Every check of this table on one page."""
        for check in CHECKS:
            left = MAX_FINDINGS - self._found[check.name]
            if check.table != table or left <= 0 or (check.needs_the_time and self._before is None):
                continue
            rows = self._tx.all(
                f"{check.query} limit :limit",
                after=after,
                last=last,
                before=self._before,
                paths=lives.PATHS,
                states=lives.STATES,
                limit=left,
            )
            self._found[check.name] += len(rows)
            self._findings += [_finding(check, row) for row in rows]


def _finding(check: Check, row: Row) -> Finding:
    seen = {name: row[name] for name in row.keys() if name != "subject"}  # noqa: SIM118 (a row's values)
    return finding(check, str(row["subject"]), seen)
