"""Audits that the service makes of itself: whose turn it is, how far they got, and what they found.

The table `audit` has one row, which every audit overwrites. An audit goes through all records; if it does
not reach the end within its hour, the next one continues.
"""

import json
from collections import Counter

import msgspec

from tenuto.db import records
from tenuto.db.damaged_text import decoded_json
from tenuto.db.database import Transaction
from tenuto.features.audit.all_checks import CHECKS, DATABASE_DAMAGED, Position, Report

EVERY_MS = 3600 * 1000


class _AuditRow(msgspec.Struct, frozen=True):
    """The latest audit."""

    began_at: int
    """Set by the worker whose turn it was. If it dies, the next audit begins once this is an hour old."""
    ended_at: int | None
    """When an audit last finished."""
    findings: str | None
    """JSON object of that audit: how many rows each check found."""
    progress: str | None
    """A Progress as JSON, written with `ended_at`; null: the last that ended was an earlier version's."""


class Progress(msgspec.Struct, frozen=True):
    """How far the pass through all records has got."""

    position: Position | None = None
    """Where it continues; None: at the beginning."""
    found: dict[str, int] = {}
    """How many rows each check found in this pass so far, without those that found none."""
    found_before: dict[str, int] = {}
    """The same for the last pass that reached the end."""

    def after(self, report: Report) -> "Progress":
        """The progress after this report on what follows `position`."""
        found = dict(Counter(self.found) + _counted(report))
        if report.stopped_at is None:
            return Progress(found_before=found)
        return Progress(report.stopped_at, found, self.found_before)

    def findings(self, recent: Report) -> dict[str, int]:
        """What to report for each check: findings of the last pass stand until the next one has ended."""
        return dict(Counter(self.found) | Counter(self.found_before) | _counted(recent))


class LastAudit(msgspec.Struct, frozen=True):
    """The latest audit that finished."""

    ended_at: int
    findings: dict[str, int]
    """How many rows each check found, including those that found none."""


def is_due(tx: Transaction, *, now_ms: int) -> bool:
    """Whether an audit should begin; read only, so that nothing is written while none is due."""
    row = _row(tx)
    return row is None or row.began_at <= now_ms - EVERY_MS or row.began_at > now_ms


def begin(tx: Transaction, worker_id: str, *, now_ms: int) -> bool:
    """True for the one worker whose turn it is. A start in the future, from a wrong clock, is ignored."""
    changed = tx.run(
        """insert into audit (number, began_at, worker_id) values (1, :now, :worker_id)
           on conflict (number) do nothing""",
        worker_id=worker_id,
        now=now_ms,
    )
    changed = changed or tx.run(
        """update audit set began_at = :now, worker_id = :worker_id
           where number = 1 and (began_at <= :before or began_at > :now)""",
        worker_id=worker_id,
        before=now_ms - EVERY_MS,
        now=now_ms,
    )
    return changed == 1


def progress(tx: Transaction) -> Progress:
    """How far the pass through all records has got. If its record is damaged, the pass starts over."""
    row = _row(tx)
    if row is None or row.progress is None:
        return Progress()
    return decoded_json(row.progress, Progress) or Progress()


def end(
    tx: Transaction, worker_id: str, progress: Progress, recent: Report, *, rows: int, now_ms: int
) -> None:
    """Record the result of auditing this many rows, unless another worker has begun an audit since."""
    tx.run(
        """update audit set ended_at = :now, rows_seen = :rows, findings = :findings, progress = :progress
           where number = 1 and worker_id = :worker_id""",
        worker_id=worker_id,
        rows=rows,
        findings=json.dumps(progress.findings(recent), sort_keys=True),
        progress=msgspec.json.encode(progress).decode(),
        now=now_ms,
    )


def last(tx: Transaction) -> LastAudit | None:
    """The latest finished audit; None if there was none yet, or if its record is damaged."""
    row = _row(tx)
    if row is None or row.ended_at is None or row.findings is None:
        return None
    findings = decoded_json(row.findings, dict[str, int])
    if findings is None:
        return None
    return LastAudit(row.ended_at, dict.fromkeys((*(c.name for c in CHECKS), DATABASE_DAMAGED), 0) | findings)


def _row(tx: Transaction) -> _AuditRow | None:
    return records.one(
        tx, _AuditRow, "select began_at, ended_at, findings, progress from audit where number = 1"
    )


def _counted(report: Report) -> Counter[str]:
    return Counter(finding.check for finding in report.findings)
