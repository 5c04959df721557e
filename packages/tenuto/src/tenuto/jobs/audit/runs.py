"""Audits that the service makes of itself: whose turn it is, and what the latest one found.

The table `audit` has one row, which every audit overwrites.
"""

import json
from collections import Counter
from dataclasses import dataclass

import msgspec

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.jobs.audit import CHECKS, DATABASE_DAMAGED, Report

EVERY_MS = 3600 * 1000


class _AuditRow(msgspec.Struct, frozen=True):
    """The latest audit."""

    began_at: int
    """Set by the worker whose turn it was. If it dies, the next one begins when this is an hour old."""
    ended_at: int | None
    """When an audit last finished."""
    findings: str | None
    """JSON object of that audit: how many rows each check found."""


@dataclass(frozen=True, slots=True)
class LastAudit:
    """The latest audit that finished."""

    ended_at: int
    findings: dict[str, int]
    """How many rows each check found, including those that found none."""


def is_due(tx: Transaction, *, now_ms: int) -> bool:
    """Whether an audit should begin; read only, so that nothing is written while none is due."""
    row = _row(tx)
    return row is None or row.began_at <= now_ms - EVERY_MS or row.began_at > now_ms


def begin(tx: Transaction, worker_id: str, *, now_ms: int) -> bool:
    """True for the one worker whose turn it is. A start in the future is a wrong clock's: ignored."""
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


def end(tx: Transaction, worker_id: str, report: Report, *, now_ms: int) -> None:
    """Record the result, unless another worker has begun an audit since."""
    findings = Counter(finding.check for finding in report.findings)
    tx.run(
        """update audit set ended_at = :now, rows_seen = :rows, findings = :findings
           where number = 1 and worker_id = :worker_id""",
        worker_id=worker_id,
        rows=sum(report.rows.values()),
        findings=json.dumps(findings, sort_keys=True),
        now=now_ms,
    )


def last(tx: Transaction) -> LastAudit | None:
    """None before the first audit has finished."""
    row = _row(tx)
    if row is None or row.ended_at is None or row.findings is None:
        return None
    findings: dict[str, int] = json.loads(row.findings)
    return LastAudit(row.ended_at, dict.fromkeys((*(c.name for c in CHECKS), DATABASE_DAMAGED), 0) | findings)


def _row(tx: Transaction) -> _AuditRow | None:
    return records.one(tx, _AuditRow, "select began_at, ended_at, findings from audit where number = 1")
