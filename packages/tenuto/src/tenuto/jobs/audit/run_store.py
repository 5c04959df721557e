"""The row of the service's own audits. Takes a transaction, never commits, decides nothing."""

import msgspec

from tenuto.db import records
from tenuto.db.database import Transaction


class AuditRow(msgspec.Struct, frozen=True):
    """The newest audit: one row, written over by each."""

    began_at: int
    """Set by the worker whose turn it was. If it dies, the next one begins when this is an hour old."""
    ended_at: int | None
    """When an audit last came to its end."""
    findings: str | None
    """JSON object of that audit: how many rows each check found."""


def last(tx: Transaction) -> AuditRow | None:
    return records.one(tx, AuditRow, "select began_at, ended_at, findings from audit where number = 1")


def begin(tx: Transaction, worker_id: str, *, began_before: int, now_ms: int) -> int:
    """1 when this worker is to audit; a beginning in the future is a wrong clock's, and does not count."""
    changed = tx.run(
        """insert into audit (number, began_at, worker_id) values (1, :now, :worker_id)
           on conflict (number) do nothing""",
        worker_id=worker_id,
        now=now_ms,
    )
    return changed or tx.run(
        """update audit set began_at = :now, worker_id = :worker_id
           where number = 1 and (began_at <= :before or began_at > :now)""",
        worker_id=worker_id,
        before=began_before,
        now=now_ms,
    )


def end(tx: Transaction, worker_id: str, *, rows_seen: int, findings: str, now_ms: int) -> None:
    """What came of it, unless another worker has begun one since."""
    tx.run(
        """update audit set ended_at = :now, rows_seen = :rows, findings = :findings
           where number = 1 and worker_id = :worker_id""",
        worker_id=worker_id,
        rows=rows_seen,
        findings=findings,
        now=now_ms,
    )
