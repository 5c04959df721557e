"""The rows of paid results that the store of bytes has not taken yet. Takes a transaction, never commits."""

from collections.abc import Sequence

from tenuto.db.database import Transaction
from tenuto.job.states import FINAL


def keep(tx: Transaction, lines: Sequence[str], *, job_id: str, attempt_id: str, now_ms: int) -> None:
    """Lines that are already stored are kept, like live text."""
    for sequence, content in enumerate(lines):
        tx.do(
            """insert into kept_result (attempt_id, sequence, job_id, content, created_at)
               values (:attempt_id, :sequence, :job_id, :content, :now)
               on conflict (attempt_id, sequence) do nothing""",
            attempt_id=attempt_id,
            sequence=sequence,
            job_id=job_id,
            content=content,
            now=now_ms,
        )


def kept(tx: Transaction, attempt_id: str) -> list[str]:
    rows = tx.all("select content from kept_result where attempt_id = :id order by sequence", id=attempt_id)
    return [str(row["content"]) for row in rows]


def is_over(tx: Transaction, attempt_id: str) -> bool:
    """Whether the attempt's job has ended, and waits for no operator; False if there is no such attempt."""
    row = tx.one(
        "select j.state from attempt t join job j on j.id = t.job_id where t.id = :id", id=attempt_id
    )
    return row is not None and row["state"] in FINAL
