"""What an operator does, by name, with jobs in recovery_required: list, evidence, complete, requeue, void.

Nothing here ever happens by itself: such a job's paid call may or may not have been made. Who decided, and
why, stands in the event log and in the ledger; callers see that an operator decided, and no name.
"""

from tenuto.billing import operations as billing
from tenuto.blobs.blob import BlobStore
from tenuto.db.database import Database, Row, Transaction
from tenuto.errors import OperatorError
from tenuto.ids import Ids
from tenuto.jobs import attempt_store, brought, lifecycle, store
from tenuto.jobs.brought import Brought
from tenuto.jobs.decision import Decision
from tenuto.jobs.evidence import INTACT, Evidence, evidence, examine, look_at, recorded
from tenuto.jobs.lifecycle import RecordedResult
from tenuto.jobs.states import CANCELLED, FAILED, RECOVERY_REQUIRED

__all__ = [
    "Decision",
    "Evidence",
    "check_recorded",
    "complete",
    "evidence",
    "examine",
    "fit",
    "requeue",
    "void",
    "waiting",
]
"""What an edge needs to let an operator decide; `evidence` and `examine` live beside."""


def waiting(tx: Transaction) -> list[Row]:
    """Jobs that wait for an operator, oldest first."""
    return store.in_recovery(tx)


def check_recorded(database: Database, blobs: BlobStore, job_id: str) -> None:
    """Before `complete` without a file: OperatorError unless the recorded bytes, if any, are intact."""
    found = database.read(lambda tx: evidence(tx, job_id, now_ms=0))
    record = database.read(lambda tx: recorded(tx, job_id)).get(found["job"]["attempt_id"])
    if record is not None and (state := look_at(blobs, record)) != INTACT:
        raise OperatorError(
            f"the recorded result of {job_id} is {state};"
            f" bring one: tenuto recover complete {job_id} --file FILE"
        )


def fit(tx: Transaction, job_id: str, content: bytes) -> Brought:
    """The bytes as a result of this job, which waits. Raises OperatorError when they can't be one."""
    job = _waits(store.locked(tx, job_id), job_id)
    return brought.read(job["kind"], content, job["parameters"])


def complete(
    tx: Transaction, ids: Ids, job_id: str, result: RecordedResult | None, *, by: Decision, now_ms: int
) -> None:
    """The call did succeed: finish with the bytes that the operator brings, or with the recorded result,
    whose bytes the caller has looked at with `check_recorded`.
    """
    job = _in_recovery(tx, job_id, now_ms)
    if result is not None:
        lifecycle.record_result(tx, job["attempt_id"], result, now_ms=now_ms)
    elif store.reopen_attempt(tx, job["attempt_id"]) == 0:
        raise OperatorError(
            f"{job_id} has no recorded result; bring one: tenuto recover complete {job_id} --file FILE"
        )
    lifecycle.succeed(tx, ids, job["attempt_id"], now_ms=now_ms, by=by)


def requeue(tx: Transaction, ids: Ids, job_id: str, *, by: Decision, now_ms: int) -> None:
    """Run it again, although the first call may have been paid for. The hold stays as it is."""
    job = _in_recovery(tx, job_id, now_ms)
    if job["deadline_at"] <= now_ms:
        raise OperatorError(
            f"the deadline of {job_id} has passed, it would only fail: complete it, or void it"
        )
    changed = store.requeue_recovery(tx, job_id)
    assert changed is not None, "the row is locked"
    store.add_event(
        tx,
        job_id,
        changed["event_sequence"],
        "requeued",
        now_ms=now_ms,
        detail="requeued by the operator",
        by=by,
    )
    billing.remark(
        tx, ids, account_id=job["account_id"], job_id=job_id, note=by.line("requeued"), now_ms=now_ms
    )


def void(tx: Transaction, ids: Ids, job_id: str, *, cancel: bool, by: Decision, now_ms: int) -> None:
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
    billing.void(tx, ids, job_id=job["id"], note=by.line("voided"), now_ms=now_ms)
    store.add_event(
        tx, job_id, changed["event_sequence"], state, now_ms=now_ms, detail="voided by the operator", by=by
    )


def _in_recovery(tx: Transaction, job_id: str, now_ms: int) -> Row:
    """The job, its attempt ended: a late result that was recorded and not settled waits for nobody else."""
    job = _waits(store.locked(tx, job_id), job_id)
    attempt_store.end_attempt(tx, job["attempt_id"], "unknown", now_ms=now_ms)
    return job


def _waits(job: Row | None, job_id: str) -> Row:
    if job is None:
        raise OperatorError(f"there is no job {job_id!r}; `tenuto recover list` shows the jobs that wait")
    if job["state"] != RECOVERY_REQUIRED:
        raise OperatorError(
            f"{job_id} is {job['state']} and does not wait for recovery;"
            " `tenuto recover list` shows the jobs that do"
        )
    return job
