"""What a named operator can do with jobs in recovery_required: list, complete, requeue, void.

Nothing here happens automatically: such a job's paid call may or may not have been made. Who decided, and
why, is recorded in the event log and in the ledger; callers see that an operator decided, but no name.
"""

import json

from msgspec.structs import replace

from tenuto.db.database import Database, Transaction
from tenuto.errors import ArtifactUnavailable, CorruptBlob, OperatorError, PriceInvalid, StoreUnreachable
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobRecord, BlobStore, check_whole
from tenuto.ids import Ids
from tenuto.job import attempts_sql, events, finish, jobs_sql
from tenuto.job.finish import RecordedResult
from tenuto.job.jobs_sql import LockedJob, WaitingJob
from tenuto.job.states import CANCELLED, FAILED, RECOVERY_REQUIRED, Decision, is_overdue
from tenuto.kind.kinds import SuppliedResult, kinds
from tenuto.money import operations as billing

INTACT, DAMAGED, MISSING = "intact", "damaged", "missing"
_UNKNOWN = "the outcome of the engine's call stayed unknown"
_WHY = {
    "unreadable": "the job's record cannot be read",
    "unsettled": "the result could not be settled",
    "unforeseen": "the service could not run the job",
}
"""What the caller of a job that the operator voided reads, by the reason why it waited."""


def waiting(tx: Transaction) -> list[WaitingJob]:
    """Jobs that wait for an operator, oldest first."""
    return jobs_sql.in_recovery(tx)


def condition(blobs: BlobStore, record: BlobRecord | None) -> str:
    """Whether the stored bytes are those recorded, by size, block checksums and SHA-256.

    Raises StoreUnreachable when that cannot be determined.
    """
    try:
        if record is None:
            return MISSING
        check_whole(blobs, record)
    except StoreUnreachable:
        raise
    except ArtifactUnavailable:
        return MISSING
    except CorruptBlob:
        return DAMAGED
    return INTACT


def check_recorded(database: Database, blobs: BlobStore, job_id: str) -> None:
    """Before `complete` without a file: OperatorError unless the recorded bytes, if any, are intact."""
    record = database.read(lambda tx: _recorded(tx, job_id))
    if record is not None and (found := condition(blobs, record)) != INTACT:
        raise OperatorError(
            f"the recorded result of {job_id} is {found};"
            f" bring one: tenuto admin recover complete {job_id} --file FILE"
        )


def _recorded(tx: Transaction, job_id: str) -> BlobRecord | None:
    """The bytes that the job's newest attempt has recorded."""
    job = jobs_sql.locked(tx, job_id)
    if job is None or job.attempt_id is None:
        return None
    return artifacts.recorded_blob(tx, job.attempt_id)


def fit(tx: Transaction, job_id: str, content: bytes) -> SuppliedResult:
    """The bytes as a result of this waiting job. Raises OperatorError if they can't be one."""
    job = _waits(jobs_sql.locked(tx, job_id), job_id)
    kind = kinds().get(job.kind)
    if kind is None:
        raise OperatorError(
            f"the job's record is damaged: there are no jobs of the kind {job.kind!r}; void it"
        )
    try:
        supplied = kind.read_result(content, json.loads(job.parameters))
    except (ValueError, TypeError, KeyError) as error:
        raise OperatorError("the job's record is damaged: its parameters cannot be read; void it") from error
    return replace(supplied, metadata=supplied.metadata | {"brought_by": "operator"})


def complete(
    tx: Transaction, ids: Ids, job_id: str, result: RecordedResult | None, *, by: Decision, now_ms: int
) -> None:
    """The call did succeed: finish with the bytes that the operator supplies, or with the recorded result,
    whose bytes the caller has checked with `check_recorded`.
    """
    if _is_done(tx, job_id, by, "settle", "completed"):
        return
    attempt_id = _in_recovery(tx, job_id, now_ms).attempt_id
    if attempt_id is None:
        raise OperatorError(f"the record of {job_id} is damaged: it names no attempt; void it")
    if result is not None:
        finish.record_result(tx, attempt_id, result, now_ms=now_ms)
    elif jobs_sql.reopen_attempt(tx, attempt_id) == 0:
        raise OperatorError(
            f"{job_id} has no recorded result; bring one: tenuto admin recover complete {job_id} --file FILE"
        )
    try:
        finish.succeed(tx, ids, attempt_id, now_ms=now_ms, by=by)
    except PriceInvalid as error:
        raise OperatorError(f"{job_id} cannot be charged for: {error.message}; void it") from error


def requeue(tx: Transaction, ids: Ids, job_id: str, *, by: Decision, now_ms: int) -> None:
    """Run it again, although the first call may have been paid for. The hold stays as it is."""
    if _is_done(tx, job_id, by, "adjust", "requeued"):
        return
    job = _in_recovery(tx, job_id, now_ms)
    if is_overdue(job.deadline_at, now_ms):
        raise OperatorError(
            f"the deadline of {job_id} has passed, so it would only fail: complete or void it"
        )
    jobs_sql.remove_kept_result(tx, job_id)
    sequence = jobs_sql.requeue_recovery(tx, job_id)
    assert sequence is not None, "the row is locked"
    events.add_event(
        tx,
        job_id,
        sequence,
        "requeued",
        now_ms=now_ms,
        detail="requeued by the operator",
        by=by,
    )
    billing.remark(
        tx,
        by.entry_id or ids.new("entry"),
        account_id=job.account_id,
        job_id=job_id,
        note=by.as_note("requeued"),
        now_ms=now_ms,
    )


def void(tx: Transaction, ids: Ids, job_id: str, *, cancel: bool, by: Decision, now_ms: int) -> None:
    """Give it up: failed (or cancelled, when the caller asked for that), the hold voided."""
    if _is_done(tx, job_id, by, "void", "voided"):
        return
    job = _in_recovery(tx, job_id, now_ms)
    state = CANCELLED if cancel else FAILED
    sequence = jobs_sql.end_recovery(
        tx,
        job_id,
        state,
        error_code=None if cancel else "engine_failed",
        error_message=None if cancel else f"{_WHY.get(job.error_code or '', _UNKNOWN)}; nothing is charged",
        now_ms=now_ms,
    )
    assert sequence is not None, "the row is locked"
    billing.void(tx, ids, job_id=job.id, note=by.as_note("voided"), entry_id=by.entry_id, now_ms=now_ms)
    artifacts.condemn_recordings(tx, job_id, now_ms=now_ms)
    jobs_sql.remove_kept_result(tx, job_id)
    events.add_event(tx, job_id, sequence, state, now_ms=now_ms, detail="voided by the operator", by=by)


def _is_done(tx: Transaction, job_id: str, by: Decision, type_: str, done: str) -> bool:
    """Whether this decision was already carried out, by a request whose response was lost: a job that it
    requeued, and that waits again since, is not requeued a second time.
    """
    jobs_sql.locked(tx, job_id)
    return by.entry_id is not None and billing.is_decided(
        tx, by.entry_id, type_=type_, job_id=job_id, note=by.as_note(done)
    )


def _in_recovery(tx: Transaction, job_id: str, now_ms: int) -> LockedJob:
    """The job, with its attempt ended, so that nothing else settles a result that it recorded late."""
    job = _waits(jobs_sql.locked(tx, job_id), job_id)
    if job.attempt_id is not None:
        attempts_sql.end_attempt(tx, job.attempt_id, "unknown", now_ms=now_ms, evidence=None)
    return job


def _waits(job: LockedJob | None, job_id: str) -> LockedJob:
    if job is None:
        raise OperatorError(
            f"there is no job {job_id!r}; `tenuto admin recover list` shows the jobs that wait"
        )
    if job.state != RECOVERY_REQUIRED:
        raise OperatorError(
            f"{job_id} is {job.state} and does not wait for recovery;"
            " `tenuto admin recover list` shows the jobs that do"
        )
    return job
