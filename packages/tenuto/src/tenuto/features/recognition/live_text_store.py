"""The rows of live text. Takes a transaction, never commits, decides nothing."""

from collections.abc import Sequence

from tenuto.db.database import Transaction


def add(
    tx: Transaction, pieces: Sequence[str], *, first: int, job_id: str, attempt_id: str, now_ms: int
) -> None:
    """Pieces that are already stored are kept: an earlier commit, whose outcome was unknown, stored them."""
    for sequence, text in enumerate(pieces, first):
        tx.do(
            """insert into live_text (attempt_id, sequence, job_id, text, created_at)
               values (:attempt_id, :sequence, :job_id, :text, :now)
               on conflict (attempt_id, sequence) do nothing""",
            attempt_id=attempt_id,
            sequence=sequence,
            job_id=job_id,
            text=text,
            now=now_ms,
        )


def texts(tx: Transaction, attempt_id: str, *, first: int, limit: int) -> list[str]:
    rows = tx.all(
        """select text from live_text where attempt_id = :id and sequence >= :first
           order by sequence limit :limit""",
        id=attempt_id,
        first=first,
        limit=limit,
    )
    return [str(row["text"]) for row in rows]


def remove_final(tx: Transaction) -> int:
    return tx.run(
        """delete from live_text where job_id in (
               select j.id from job j where j.state in ('succeeded', 'failed', 'cancelled')
                 and exists (select 1 from live_text t where t.job_id = j.id))"""
    )


def remove(tx: Transaction, job_id: str) -> None:
    tx.run("delete from live_text where job_id = :job_id", job_id=job_id)
