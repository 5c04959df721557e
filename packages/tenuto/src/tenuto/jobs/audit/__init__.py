"""The audit: money derived again from the ledger, histories from events, contents from what refers to them.

Read only, and page by page, so that its memory does not grow with the records. A healthy database gives no
finding at any moment, also under load: each statement sees one moment, and what it compares changes in one
transaction; `Database.snapshot` makes all pages see the same one. `audit.deep` reads the bytes.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tenuto.artifacts.operations import ORPHAN_AGE_MS
from tenuto.db import integrity
from tenuto.db.database import Database, Row, Transaction
from tenuto.jobs.audit import contents, jobs
from tenuto.jobs.audit.check import ALL_AT_ONCE, Check, Finding

CHECKS: tuple[Check, ...] = (*jobs.CHECKS, *contents.CHECKS)
DATABASE_DAMAGED = "database_damaged"
"""The check of `database_damage`."""

MAX_FINDINGS = 100
"""The most that are listed of each check."""

PAGE_ROWS = 2_000

SWEPT_WITHIN_MS = 2 * 3600 * 1000
"""How long an orphan may outlive its age: the sweep takes its time, and a service may be down."""

_PAGE_KEYS = {
    "account": "id",
    "api_key": "id",
    "entry": "id",
    "job": "id",
    "model_call": "id",
    "event": "job_id",
    "artifact": "id",
    "segment": "attempt_id",
    "part": "job_id",
    "live_text": "attempt_id",
    "voice": "id",
    "voice_preference": "account_id",
    "job_recording": "job_id",
    "upload_key": "key_id",
    "blob": "id",
}
"""The column by which each table is read in pages. All rows that share a value are in one page."""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of an audit and how much it covered."""

    findings: list[Finding]
    rows: dict[str, int]
    """How many rows of each table were read."""


def audit(tx: Transaction, *, now_ms: int | None = None) -> list[Finding]:
    """All findings; an empty list means that records and money agree."""
    return report(tx, now_ms=now_ms).findings


def report(
    tx: Transaction, *, now_ms: int | None = None, stopping: Callable[[], bool] = lambda: False
) -> Report:
    """Make every check on every page; at most `MAX_FINDINGS` of each are listed.

    Without `now_ms` nothing is reported as too old. Once `stopping` returns true, the rest is left out.
    """
    auditor = _Auditor(tx, now_ms)
    for table in _PAGE_KEYS:
        for after, last in auditor.pages(table):
            if stopping():
                return auditor.report()
            auditor.look(table, after, last)
    auditor.look(ALL_AT_ONCE, "", "")
    return auditor.report()


def database_damage(
    database: Database, *, deep: bool, stopping: Callable[[], bool] = lambda: False
) -> list[Finding]:
    """Every table and index that the database's own check reports; see `db.integrity.faults`."""
    what = "the database's own check reports damage"
    remedy = (
        "stop the service, keep a copy of the database, and restore the newest backup;"
        " docs/operations/audit.md says what to do where only an index is damaged"
    )
    return [
        Finding(DATABASE_DAMAGED, fault.subject, what, {"fault": fault.what}, remedy)
        for fault in integrity.faults(database, deep=deep, stopping=stopping)
    ]


class _Auditor:
    """One audit in progress."""

    def __init__(self, tx: Transaction, now_ms: int | None) -> None:
        self._tx = tx
        self._before = None if now_ms is None else now_ms - ORPHAN_AGE_MS - SWEPT_WITHIN_MS
        self._findings: list[Finding] = []
        self._listed: Counter[str] = Counter()
        self._rows: dict[str, int] = {}

    def report(self) -> Report:
        return Report(self._findings, self._rows)

    def pages(self, table: str) -> Iterator[tuple[str, str]]:
        """Pairs of keys: above the first, up to the second there are about `PAGE_ROWS` rows."""
        key = _PAGE_KEYS[table]
        page_end = f"""select count(*) as rows, max({key}) as last from (
            select {key} from {table} where {key} > :after order by {key} limit :rows) as page"""  # noqa: S608
        self._rows[table] = 0
        after = ""
        while True:
            page = self._tx.one(page_end, after=after, rows=PAGE_ROWS)
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
            left = MAX_FINDINGS - self._listed[check.name]
            if check.table != table or left <= 0 or (check.needs_the_time and self._before is None):
                continue
            rows = self._tx.all(
                f"{check.query} limit :limit",
                after=after,
                last=last,
                before=self._before,
                paths=jobs.PATHS,
                states=jobs.STATES,
                limit=left,
            )
            self._listed[check.name] += len(rows)
            self._findings += [_finding(check, row) for row in rows]


def _finding(check: Check, row: Row) -> Finding:
    subject = str(row["subject"])
    seen = {name: row[name] for name in row.keys() if name != "subject"}  # noqa: SIM118 (a row's values)
    return Finding(check.name, subject, check.what, seen, check.remedy.replace("SUBJECT", subject))
