"""The audit that the service makes of its own records, once an hour, by one of all workers."""

import time

from tenuto.errors import Unavailable
from tenuto.features.audit import all_checks, runs
from tenuto.features.audit.all_checks import Report
from tenuto.features.audit.check import Finding
from tenuto.logs import get_logger, log_failure
from tenuto.worker.duties import Duty, Pace, Turn
from tenuto.worker.watch import Watch

AUDIT_S = 300.0
"""How long an hourly audit goes through all records, rests not counted; the next one continues."""
RECENT_MS = 2 * runs.EVERY_MS
"""How far back an audit also checks if it did not get through all records."""

_log = get_logger("tenuto.worker")


def duties(watch: Watch) -> list[Duty]:
    """Checked every minute."""
    return [Duty("audit", make, every_s=60.0, thread="audit", is_needed=is_ours)]


def is_ours(turn: Turn) -> bool:
    """Whether an audit is due and this worker makes it."""
    context, now_ms = turn.context, turn.now_ms
    if not context.database.read(lambda tx: runs.is_due(tx, now_ms=now_ms)):
        return False
    return context.database.write(lambda tx: runs.begin(tx, context.worker_id, now_ms=now_ms))


def make(turn: Turn) -> None:
    """Make it. Without a trusted clock, nothing is reported as too old."""
    try:
        _audit(turn, turn.now_ms if turn.trusts_clock() else None)
    except Unavailable as error:
        _log.warning("audit.not_possible", reason=error.message)
    except Exception as error:
        log_failure(_log, "audit.failed", error)


def _audit(turn: Turn, now_ms: int | None) -> None:
    """Continue through all records; unless one audit covers them all, check recent ones, too."""
    context, began = turn.context, time.monotonic()
    progress = context.database.read(runs.progress)
    is_beginning = progress.position is None
    # First, and logged at once: damage may keep the rest from being read.
    damaged = _damage(turn) if is_beginning else []
    recent = Report([], {})
    try:
        pace = Pace(turn.stopping, most_s=AUDIT_S)
        report = all_checks.report(context.database, now_ms=now_ms, start=progress.position, rest=pace.rest)
        if not is_beginning or report.stopped_at is not None:
            recent = _recent(turn, now_ms)
    except Unavailable:
        damaged = damaged or _damage(turn)
        if not damaged:
            raise
        report = Report([], {})
    if turn.stopping.is_set():
        return
    _log_findings([*report.findings, *recent.findings])
    report.findings[:0] = damaged
    rows, ended_at = sum([*report.rows.values(), *recent.rows.values()]), context.clock()
    progress = progress.after(report)
    context.database.write(
        lambda tx: runs.end(tx, context.worker_id, progress, recent, rows=rows, now_ms=ended_at)
    )
    _log.info(
        "audit.finished",
        rows=rows,
        findings=len(report.findings) + len(recent.findings),
        continues_at=None if report.stopped_at is None else report.stopped_at.table,
        took_ms=round((time.monotonic() - began) * 1000),
    )


def _damage(turn: Turn) -> list[Finding]:
    damaged = all_checks.database_damage(turn.context.database, deep=False, stopping=turn.stopping.is_set)
    _log_findings(damaged)
    return damaged


def _recent(turn: Turn, now_ms: int | None) -> Report:
    pace, since_ms = Pace(turn.stopping), turn.context.clock() - RECENT_MS
    return all_checks.report(turn.context.database, now_ms=now_ms, since_ms=since_ms, rest=pace.rest)


def _log_findings(findings: list[Finding]) -> None:
    for finding in findings:
        seen = finding.seen if finding.check == all_checks.DATABASE_DAMAGED else {}
        _log.error("audit.finding", check=finding.check, subject=finding.subject, what=finding.what, **seen)
