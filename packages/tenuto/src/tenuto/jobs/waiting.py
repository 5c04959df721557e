"""Transitions of jobs that no worker has: cancelled by their caller, or past their deadline."""

from tenuto.accounts.rules import Caller
from tenuto.billing import operations as billing
from tenuto.db.database import Transaction
from tenuto.errors import NotFound
from tenuto.ids import Ids
from tenuto.jobs import store
from tenuto.jobs.failures import SENTENCES
from tenuto.jobs.states import CANCELLED, FAILED, QUEUED, RUNNING

EXPIRY_BATCH = 100


def cancel(tx: Transaction, ids: Ids, caller: Caller, *, job_id: str, now_ms: int) -> bool:
    """A caller asks for a job to end. True when a worker has to be told.

    Queued: cancelled at once, the hold voided. Running: noted, the worker asks its engine. Final or
    waiting for recovery: unchanged. NotFound; ModelNotAllowed: the key is for other models.
    """
    job = store.owned(tx, job_id, caller.account_id)
    if job is None:
        raise NotFound
    caller.check_job(job.model)
    if job.state == QUEUED:
        sequence = store.end_queued(tx, job_id, CANCELLED, error_code=None, error_message=None, now_ms=now_ms)
        assert sequence is not None, "the row is locked"
        billing.void(tx, ids, job_id=job_id, now_ms=now_ms)
        store.add_event(tx, job_id, sequence, "cancelled", now_ms=now_ms)
        return False
    if job.state != RUNNING:
        return False
    noted = store.note_cancel(tx, job_id, now_ms)
    if noted is not None:
        store.add_event(
            tx,
            job_id,
            noted.event_sequence,
            "cancel_requested",
            now_ms=now_ms,
            attempt_id=noted.attempt_id,
        )
    return True


def overdue(tx: Transaction, *, lane: str, now_ms: int) -> list[str]:
    """Queued jobs of the lane that are past their deadline, oldest first, some at a time."""
    return store.overdue(tx, lane, now_ms, EXPIRY_BATCH)


def expire(tx: Transaction, ids: Ids, *, job_id: str, now_ms: int) -> bool:
    """A queued job past its deadline fails, its hold voided; False when it is queued no longer."""
    sequence = store.end_queued(
        tx,
        job_id,
        FAILED,
        error_code="deadline_exceeded",
        error_message=SENTENCES["deadline_exceeded"],
        now_ms=now_ms,
    )
    if sequence is None:
        return False
    billing.void(tx, ids, job_id=job_id, now_ms=now_ms)
    store.add_event(tx, job_id, sequence, "failed", now_ms=now_ms, detail="deadline_exceeded")
    return True
