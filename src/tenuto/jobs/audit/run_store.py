"""The row of the service's own audits. Takes a transaction, never commits, decides nothing."""

from tenuto.db.database import Row, Transaction


def last(tx: Transaction) -> Row | None:
    return tx.one("select began_at, worker_id, ended_at, rows_seen, findings from audit where number = 1")


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
