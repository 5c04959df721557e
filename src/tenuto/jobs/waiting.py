"""Transitions of jobs that no worker has: cancelled by their caller, or past their deadline."""

from tenuto.billing import operations as billing
from tenuto.db.database import Transaction
from tenuto.errors import NotFound
from tenuto.ids import Ids
from tenuto.jobs import store
from tenuto.jobs.states import CANCELLED, FAILED, QUEUED, RUNNING

EXPIRY_BATCH = 100


def cancel(tx: Transaction, ids: Ids, *, account_id: str, job_id: str, now_ms: int) -> bool:
    """A caller asks for a job to end. True when a worker has to be told.

    Queued: cancelled at once, the hold voided. Running: noted, the worker asks its engine. Final or
    waiting for recovery: unchanged.
    """
    job = store.owned(tx, job_id, account_id)
    if job is None:
        raise NotFound
    if job["state"] == QUEUED:
        changed = store.end_queued(tx, job_id, CANCELLED, error_code=None, error_message=None, now_ms=now_ms)
        assert changed is not None, "the row is locked"
        billing.void(tx, ids, job_id=job_id, now_ms=now_ms)
        store.add_event(tx, job_id, changed["event_sequence"], "cancelled", now_ms=now_ms)
        return False
    if job["state"] != RUNNING:
        return False
    noted = store.note_cancel(tx, job_id, now_ms)
    if noted is not None:
        store.add_event(
            tx,
            job_id,
            noted["event_sequence"],
            "cancel_requested",
            now_ms=now_ms,
            attempt_id=noted["attempt_id"],
        )
    return True


def expire(tx: Transaction, ids: Ids, *, lane: str, now_ms: int) -> int:
    """Queued jobs past their deadline fail, their holds voided; gives how many did."""
    expired = 0
    for row in store.overdue(tx, lane, now_ms, EXPIRY_BATCH):
        changed = store.end_queued(
            tx,
            row["id"],
            FAILED,
            error_code="deadline_exceeded",
            error_message="the job waited for a worker until its deadline of 14 days",
            now_ms=now_ms,
        )
        if changed is None:
            continue
        billing.void(tx, ids, job_id=row["id"], now_ms=now_ms)
        store.add_event(
            tx, row["id"], changed["event_sequence"], "failed", now_ms=now_ms, detail="deadline_exceeded"
        )
        expired += 1
    return expired
