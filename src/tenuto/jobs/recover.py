"""What an operator does, by name, with jobs in recovery_required: show, complete, requeue, void.

Nothing here ever happens by itself: such a job's paid call may or may not have been made.
"""

from typing import Any

from tenuto.billing import operations as billing
from tenuto.db.database import Row, Transaction
from tenuto.errors import OperatorError
from tenuto.ids import Ids
from tenuto.jobs import attempt_store, lifecycle, read_store, store
from tenuto.jobs.lifecycle import RecordedResult
from tenuto.jobs.states import CANCELLED, FAILED, RECOVERY_REQUIRED


def waiting(tx: Transaction) -> list[Row]:
    """Jobs that wait for an operator, oldest first."""
    return store.in_recovery(tx)


def show(tx: Transaction, job_id: str) -> dict[str, Any]:
    """All the evidence: the job, its attempts with their fences, its events."""
    job = store.locked(tx, job_id)
    if job is None:
        raise OperatorError(f"there is no job {job_id!r}")
    return {
        "job": _plain(job),
        "attempts": [_plain(row) for row in read_store.attempts(tx, job_id)],
        "events": [_plain(row) for row in read_store.events(tx, job_id)],
    }


def complete(tx: Transaction, ids: Ids, job_id: str, result: RecordedResult | None, *, now_ms: int) -> None:
    """The call did succeed: finish with the recorded result, or with bytes that the operator brings."""
    job = _in_recovery(tx, job_id, now_ms)
    if result is not None:
        lifecycle.record_result(tx, job["attempt_id"], result, now_ms=now_ms)
    elif store.reopen_attempt(tx, job["attempt_id"]) == 0:
        raise OperatorError(
            f"{job_id} has no recorded result; bring one: tenuto recover complete {job_id} --file FILE"
        )
    lifecycle.succeed(tx, ids, job["attempt_id"], now_ms=now_ms)


def requeue(tx: Transaction, job_id: str, *, now_ms: int) -> None:
    """Run it again, although the first call may have been paid for."""
    _in_recovery(tx, job_id, now_ms)
    changed = store.requeue_recovery(tx, job_id)
    assert changed is not None, "the row is locked"
    store.add_event(
        tx, job_id, changed["event_sequence"], "requeued", now_ms=now_ms, detail="by the operator"
    )


def void(tx: Transaction, ids: Ids, job_id: str, *, cancel: bool, now_ms: int) -> None:
    """Give it up: failed (or cancelled, when the caller asked for that), the hold voided."""
    job = _in_recovery(tx, job_id, now_ms)
    state = CANCELLED if cancel else FAILED
    changed = store.end_recovery(
        tx,
        job_id,
        state,
        error_code=None if cancel else "engine_failed",
        error_message=None
        if cancel
        else "the outcome of the engine's call stayed unknown; nothing is charged",
        now_ms=now_ms,
    )
    assert changed is not None, "the row is locked"
    billing.void(tx, ids, job_id=job["id"], now_ms=now_ms)
    store.add_event(
        tx, job_id, changed["event_sequence"], state, now_ms=now_ms, detail="voided by the operator"
    )


def _in_recovery(tx: Transaction, job_id: str, now_ms: int) -> Row:
    """The job, its attempt ended: a late result that was recorded and not settled waits for nobody else."""
    job = store.locked(tx, job_id)
    if job is None or job["state"] != RECOVERY_REQUIRED:
        raise OperatorError(
            f"{job_id} does not wait for recovery; `tenuto recover list` shows the jobs that do"
        )
    attempt_store.end_attempt(tx, job["attempt_id"], "unknown", now_ms=now_ms)
    return job


def _plain(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys()}  # noqa: SIM118 (a row iterates over its values)
