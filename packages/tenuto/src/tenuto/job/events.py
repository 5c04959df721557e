"""The log of a job's events: one for each transition, in its transaction."""

from tenuto.db.database import Transaction
from tenuto.job import jobs_sql
from tenuto.job.states import Decision


def add_event(
    tx: Transaction,
    job_id: str,
    sequence: int,
    type_: str,
    *,
    now_ms: int,
    attempt_id: str | None = None,
    detail: str | None = None,
    by: Decision | None = None,
) -> None:
    """An event of the job; `by`: the operator who decided, which callers do not see."""
    operator, note = (None, None) if by is None else (by.operator, by.note)
    jobs_sql.insert_event(
        tx,
        job_id,
        sequence,
        type_,
        now_ms=now_ms,
        attempt_id=attempt_id,
        detail=detail,
        operator=operator,
        note=note,
    )
