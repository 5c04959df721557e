"""Audits that the service makes of itself: whose turn it is, and what the newest one found."""

import json
from collections import Counter
from dataclasses import dataclass

from tenuto.db.database import Transaction
from tenuto.jobs.audit import CHECKS, Report, integrity, run_store

EVERY_MS = 3600 * 1000


@dataclass(frozen=True, slots=True)
class LastAudit:
    """The newest audit that came to its end."""

    ended_at: int
    findings: dict[str, int]
    """How many rows each check found, those that found none too."""


def is_due(tx: Transaction, *, now_ms: int) -> bool:
    """Whether an audit should begin; a look, so that nothing is written while none is due."""
    row = run_store.last(tx)
    return row is None or row.began_at <= now_ms - EVERY_MS or row.began_at > now_ms


def begin(tx: Transaction, worker_id: str, *, now_ms: int) -> bool:
    """True for the one worker whose turn it is to audit."""
    return run_store.begin(tx, worker_id, began_before=now_ms - EVERY_MS, now_ms=now_ms) == 1


def end(tx: Transaction, worker_id: str, report: Report, *, now_ms: int) -> None:
    """Note what was found."""
    found = Counter(finding.check for finding in report.findings)
    run_store.end(
        tx,
        worker_id,
        rows_seen=sum(report.rows.values()),
        findings=json.dumps(found, sort_keys=True),
        now_ms=now_ms,
    )


def last(tx: Transaction) -> LastAudit | None:
    """None before the first audit has ended."""
    row = run_store.last(tx)
    if row is None or row.ended_at is None or row.findings is None:
        return None
    found: dict[str, int] = json.loads(row.findings)
    return LastAudit(row.ended_at, {check.name: 0 for check in CHECKS} | {integrity.CHECK: 0} | found)
