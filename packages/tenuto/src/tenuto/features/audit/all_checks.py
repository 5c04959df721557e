"""The audit: recomputes balances from the ledger, histories from events, contents from their references.

Read only, and page by page, so that its memory use does not grow with the records. A healthy database yields
no finding at any moment, even under load: each statement sees one moment, and what it compares changes in one
transaction. So every few pages get a snapshot of their own, and none is held for long: until it ends,
PostgreSQL keeps every old version of a slot, and SQLite's write-ahead log grows. An audit may stop anywhere
and continue from there later. `deep` reads the bytes.
"""

from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from tenuto.db import integrity
from tenuto.db.database import Database, Row, Transaction
from tenuto.features.audit import content_checks, job_checks
from tenuto.features.audit.check import ALL_AT_ONCE, Check, Finding
from tenuto.file.operations import ORPHAN_AGE_MS
from tenuto.ids import encode

CHECKS: tuple[Check, ...] = (*job_checks.CHECKS, *content_checks.CHECKS)
DATABASE_DAMAGED = "database_damaged"
"""The name of the check made by `database_damage`."""

MAX_FINDINGS = 100
"""The most findings listed for each check."""

PAGE_ROWS = 2_000
PAGES_AT_ONCE = 16
"""The most pages that share a snapshot: half a second."""

SWEPT_WITHIN_MS = 2 * 3600 * 1000
"""How long an orphan may exceed the age limit: the sweep takes time, and a service may be down."""

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
    "kept_result": "attempt_id",
    "voice": "id",
    "voice_preference": "account_id",
    "job_recording": "job_id",
    "upload_key": "key_id",
    "blob": "id",
    "idempotency": "job_id",
}
"""The column by which each table is read in pages. All rows that share a value are in one page."""
_NAMED_BY_TIME = {
    "entry": "entry",
    "job": "job",
    "model_call": "call",
    "event": "job",
    "artifact": "artifact",
    "segment": "attempt",
    "part": "job",
    "live_text": "attempt",
    "kept_result": "attempt",
    "job_recording": "job",
    "blob": "blob",
    "idempotency": "job",
}
"""The tables that grow with use, and the prefix of the ids in their keys, which rise with time."""


class Position(Struct, frozen=True):
    """Where an audit continues: in this table, after this key."""

    table: str
    after: str


class Report(Struct, frozen=True):
    """The findings of an audit and how much it covered."""

    findings: list[Finding]
    rows: dict[str, int]
    """How many rows of each table were read."""
    stopped_at: Position | None = None
    """Where to continue; None: it is complete."""


def audit(tx: Transaction, *, now_ms: int | None = None) -> list[Finding]:
    """All findings in one transaction; an empty list means that records and money agree.

    Without `now_ms` nothing is reported as too old.
    """
    auditor = _Auditor(now_ms, list(_PAGE_KEYS), None)
    position: Position | None = auditor.first
    while position is not None:
        position = auditor.check(tx, position)
    return auditor.findings


def report(
    database: Database,
    *,
    now_ms: int | None = None,
    start: Position | None = None,
    since_ms: int | None = None,
    rest: Callable[[], bool] = lambda: True,
) -> Report:
    """Make every check on every page from `start` on; at most `MAX_FINDINGS` of each are listed.

    With `since_ms`, only on what was made since then. `rest` is called before each snapshot and may
    sleep; once it returns False, the audit stops. Without `now_ms` nothing is reported as too old.
    """
    tables = _PAGE_KEYS if since_ms is None else _NAMED_BY_TIME
    auditor = _Auditor(now_ms, list(tables), since_ms)
    # A later version may have a table that this one does not know.
    position: Position | None = start if start and start.table in auditor.tables else auditor.first
    while position is not None and rest():
        position = database.snapshot(lambda tx, at=position: auditor.check(tx, at))  # type: ignore[misc]
    return Report(auditor.findings, auditor.rows, position)


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
    """One audit in progress, over the given tables in order."""

    def __init__(self, now_ms: int | None, tables: list[str], since_ms: int | None) -> None:
        self._before = None if now_ms is None else now_ms - ORPHAN_AGE_MS - SWEPT_WITHIN_MS
        self._since_ms = since_ms
        self.tables = [*tables, ALL_AT_ONCE]
        self.first = self._beginning_of(self.tables[0])
        self.findings: list[Finding] = []
        self._listed: Counter[str] = Counter()
        self.rows: dict[str, int] = {}

    def check(self, tx: Transaction, position: Position) -> Position | None:
        """Check a few pages. Returns where to continue; None: that was all."""
        following: Position | None = position
        for _ in range(PAGES_AT_ONCE):
            if following is None:
                break
            following = self._check_page(tx, following)
        return following

    def _check_page(self, tx: Transaction, at: Position) -> Position | None:
        """Check the page after a key, which has about `PAGE_ROWS` rows."""
        if at.table == ALL_AT_ONCE:
            self._check(tx, at.table, "", "")
            return None
        key = _PAGE_KEYS[at.table]
        page = tx.one(
            f"""select count(*) as rows, max({key}) as last from (
                select {key} from {at.table} where {key} > :after order by {key} limit :rows) as page""",  # noqa: S608
            after=at.after,
            rows=PAGE_ROWS,
        )
        assert page is not None, "an aggregate gives a row"
        self.rows[at.table] = self.rows.get(at.table, 0) + page["rows"]
        if page["rows"]:
            self._check(tx, at.table, at.after, page["last"])
        if page["rows"] == PAGE_ROWS:
            return Position(at.table, page["last"])
        return self._beginning_of(self.tables[self.tables.index(at.table) + 1])

    def _beginning_of(self, table: str) -> Position:
        prefix = _NAMED_BY_TIME.get(table)
        if prefix is None or self._since_ms is None:
            return Position(table, "")
        return Position(table, f"{prefix}_{encode(self._since_ms << 80)}")

    def _check(self, tx: Transaction, table: str, after: str, last: str) -> None:
        """Run every check of this table on one page."""
        for check in CHECKS:
            left = MAX_FINDINGS - self._listed[check.name]
            if check.table != table or left <= 0 or (check.needs_the_time and self._before is None):
                continue
            rows = tx.all(
                f"{check.query} limit :limit",
                after=after,
                last=last,
                before=self._before,
                paths=job_checks.PATHS,
                states=job_checks.STATES,
                limit=left,
            )
            self._listed[check.name] += len(rows)
            self.findings += [_finding(check, row) for row in rows]


def _finding(check: Check, row: Row) -> Finding:
    subject = str(row["subject"])
    seen = {name: row[name] for name in row.keys() if name != "subject"}  # noqa: SIM118 (a row's values)
    return Finding(check.name, subject, check.what, seen, check.remedy.replace("SUBJECT", subject))
