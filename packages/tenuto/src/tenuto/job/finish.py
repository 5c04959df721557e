"""How jobs end: by workers (fence, record, succeed, any fate), by callers (cancel), by the deadline (expire).

One function each, on one transaction; `fate` decides what becomes of an attempt without a recorded
result, and `recover` has what an operator does. The fence: the job must still name this attempt;
otherwise `Stale` is raised before anything is written, and the worker stops.
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tenuto.account.caller import Caller
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.errors import NotFound, Stale
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobRecord
from tenuto.ids import Ids
from tenuto.job import attempts_sql, events, fate, jobs_sql
from tenuto.job.attempts_sql import AttemptKeys, FencedAttempt
from tenuto.job.fate import Cause, Fate
from tenuto.job.states import (
    CANCELLED,
    END_ATTEMPT,
    FAILED,
    FINAL,
    LEAST_DEADLINE_MS,
    QUEUED,
    RECOVERY_REQUIRED,
    RUNNING,
    SENTENCES,
    Decision,
)
from tenuto.money import operations as billing
from tenuto.money.rules import charge_micros

EXPIRY_BATCH = 100


class RecordedResult(Struct, frozen=True):
    """What an engine made, after its bytes became durable."""

    blob: BlobRecord
    media_type: str
    metadata: dict[str, Any]
    duration_ms: int | None


def pass_fence(tx: Transaction, ids: Ids, attempt_id: str, *, now_ms: int) -> bool:
    """Before a metered call: from then on, if the outcome is lost, the job is never run again.

    False when the caller cancelled the job in time: it ends, and the call must not be made.
    """
    attempt = _fenced(tx, attempt_id, (RUNNING,))
    if attempt.fenced_at is not None:
        return True  # Repeated because the first response was lost: no call was made yet.
    if attempt.cancel_requested_at is not None:
        _end(tx, ids, attempt, Fate(CANCELLED, "cancelled"), now_ms=now_ms)
        return False
    if attempts_sql.pass_fence(tx, attempt_id, now_ms) == 0:
        raise Stale
    return True


def record_result(tx: Transaction, attempt_id: str, result: RecordedResult, *, now_ms: int) -> None:
    """The bytes are durable: from now on any worker may finish the attempt, and it is never run again."""
    attempt = _fenced(tx, attempt_id, (RUNNING, RECOVERY_REQUIRED))
    if attempt.blob_id == result.blob.blob_id:
        if attempt.state != "recorded":
            raise Stale  # These bytes were recorded, but have proved unusable since.
        return  # Repeated because the first response was lost.
    artifacts.add_blob(tx, result.blob, now_ms=now_ms)
    recorded = attempts_sql.record(
        tx,
        attempt.id,
        blob_id=result.blob.blob_id,
        media_type=result.media_type,
        metadata=json.dumps(result.metadata, ensure_ascii=False),
        duration_ms=result.duration_ms,
    )
    if recorded == 0:
        raise Stale
    if attempt.fenced_at is not None:
        jobs_sql.remove_kept_result(tx, attempt.job_id)


def succeed(tx: Transaction, ids: Ids, attempt_id: str, *, now_ms: int, by: Decision | None = None) -> None:
    """Write artifact, settlement, slot and state of a recorded attempt, together; `by`: who decided it."""
    attempt = _fenced(tx, attempt_id, (RUNNING, RECOVERY_REQUIRED))
    if attempt.state != "recorded":
        raise Stale
    assert attempt.blob_id is not None and attempt.media_type is not None
    assert attempt.result_metadata is not None, "what is recorded has a result"
    price = Price(attempt.price_unit, attempt.price_micros, attempt.hold_micros)
    charged = charge_micros(price, attempt.duration_ms)
    artifact_id = artifacts.add_result(
        tx,
        ids,
        account_id=attempt.account_id,
        job_id=attempt.job_id,
        blob_id=attempt.blob_id,
        media_type=attempt.media_type,
        metadata=attempt.result_metadata,
        now_ms=now_ms,
    )
    sequence = attempts_sql.succeed(
        tx, attempt.job_id, attempt_id, artifact_id=artifact_id, charged_micros=charged, now_ms=now_ms
    )
    note, detail = (None, None) if by is None else (by.as_note("completed"), "completed by the operator")
    billing.settle(
        tx,
        ids,
        job_id=attempt.job_id,
        charge_micros=charged,
        note=note,
        entry_id=None if by is None else by.entry_id,
        now_ms=now_ms,
    )
    artifacts.condemn_recordings(tx, attempt.job_id, now_ms=now_ms)
    _close(tx, attempt, sequence, "succeeded", now_ms=now_ms, detail=detail, by=by)


def unrecorded(tx: Transaction, attempt_id: str) -> FencedAttempt:
    """A running attempt without a recorded result; one with a result can only be finished with it."""
    attempt = _fenced(tx, attempt_id, (RUNNING,))
    if attempt.state == "recorded":
        raise Stale
    return attempt


def end(
    tx: Transaction, ids: Ids, attempt_id: str, cause: Cause, *, now_ms: int, evidence: str | None = None
) -> None:
    """The attempt has ended without a result, by this cause.

    `evidence` is for operators: it may quote the caller, and is not needed of what was cancelled. Stale, too,
    if the database keeps the result: the attempt stays open until that is stored.
    """
    attempt = unrecorded(tx, attempt_id)
    decided = _fate(tx, attempt, cause)
    if decided is None:
        raise Stale
    known = None if decided.state == CANCELLED else evidence
    _end(tx, ids, attempt, decided, now_ms=now_ms, evidence=known)


def rescue(tx: Transaction, ids: Ids, attempt_id: str, *, beat: int, now_ms: int) -> str:
    """Its worker is gone (its counter stopped at `beat`): returns the job's new state.

    Or "recorded": nothing has changed, and the caller checks the bytes of the recorded result and finishes
    with `succeed`. Or "kept": nothing has either, and it stores the bytes that wait in the database.
    """
    attempt = _fenced(tx, attempt_id, (RUNNING, RECOVERY_REQUIRED))
    if attempt.beat != beat:
        raise Stale
    if attempt.state == "recorded":
        return "recorded"
    if attempt.job_state != RUNNING:
        raise Stale
    decided = _fate(tx, attempt, Cause("worker_lost"))
    if decided is None:
        return "kept"
    _end(tx, ids, attempt, decided, now_ms=now_ms)
    return decided.state


def hand_over(
    tx: Transaction, attempt_id: str, *, code: str, message: str, now_ms: int, evidence: str | None = None
) -> None:
    """The job can be neither run, finished nor queued: running → recovery_required.

    Reads only the few columns that have to be intact for it.
    """
    attempt = attempts_sql.locked_keys(tx, attempt_id)
    if attempt is None or attempt.job_attempt_id != attempt_id:
        raise Stale
    if attempt.job_state == RECOVERY_REQUIRED:
        attempts_sql.end_attempt(tx, attempt_id, "unknown", now_ms=now_ms, evidence=evidence)
    else:
        _end(tx, None, attempt, fate.recovery(code, message), now_ms=now_ms, evidence=evidence)


def result_unusable(tx: Transaction, attempt_id: str, *, message: str, now_ms: int) -> None:
    """A recorded result can't be verified: nothing is run again, and an operator decides."""
    if _fenced(tx, attempt_id, (RUNNING, RECOVERY_REQUIRED)).state != "recorded":
        raise Stale
    hand_over(tx, attempt_id, code="outcome_unknown", message=message, now_ms=now_ms)


# --- by callers, and by the deadline ----------------------------------------------------------------


def cancel(tx: Transaction, ids: Ids, caller: Caller, *, job_id: str, now_ms: int) -> bool:
    """A caller cancels a job. True when a worker has to be notified.

    Queued: cancelled at once, the hold voided. Running: noted, the worker stops its engine. Final or
    waiting for recovery: unchanged. NotFound; ModelNotAllowed: the key may not use the job's model.
    """
    job = jobs_sql.owned(tx, job_id, caller.account_id)
    if job is None:
        raise NotFound
    caller.check_job(job.model)
    if job.state == QUEUED:
        sequence = jobs_sql.end_queued(
            tx, job_id, CANCELLED, error_code=None, error_message=None, now_ms=now_ms
        )
        assert sequence is not None, "the row is locked"
        _release_hold(tx, ids, job_id, now_ms=now_ms)
        events.add_event(tx, job_id, sequence, "cancelled", now_ms=now_ms)
        return False
    if job.state != RUNNING:
        return False
    noted = jobs_sql.note_cancel(tx, job_id, now_ms)
    if noted is not None:
        events.add_event(
            tx,
            job_id,
            noted.event_sequence,
            "cancel_requested",
            now_ms=now_ms,
            attempt_id=noted.attempt_id,
        )
    return True


def take_over(tx: Transaction, job_ids: Sequence[str], *, waiter: str) -> None:
    """Make this API process the one that may cancel the jobs once their client has left."""
    for job_id in job_ids:
        jobs_sql.set_waiter(tx, job_id, waiter)


def cancel_abandoned(
    tx: Transaction, ids: Ids, caller: Caller, *, job_id: str, waiter: str, now_ms: int
) -> bool:
    """Cancel a queued job, unless an API process other than `waiter` has taken it over. NotFound."""
    job = jobs_sql.owned(tx, job_id, caller.account_id)
    if job is None:
        raise NotFound
    if job.state != QUEUED or jobs_sql.waiter(tx, job_id) not in (None, waiter):
        return False
    cancel(tx, ids, caller, job_id=job_id, now_ms=now_ms)
    return True


def overdue(tx: Transaction, *, lane: str, now_ms: int, after: str = "") -> list[str]:
    """Queued jobs of the lane that are past their deadline, oldest first, one batch at a time.

    Starts after an id; fewer than EXPIRY_BATCH: there are no more.
    """
    return jobs_sql.overdue(tx, lane, now_ms, limit=EXPIRY_BATCH, after=after, least=LEAST_DEADLINE_MS)


def expire(tx: Transaction, ids: Ids, *, job_id: str, now_ms: int) -> bool:
    """A queued job past its deadline fails, its hold voided; False if it is no longer queued."""
    sequence = jobs_sql.end_queued(
        tx,
        job_id,
        FAILED,
        error_code="deadline_exceeded",
        error_message=SENTENCES["deadline_exceeded"],
        now_ms=now_ms,
    )
    if sequence is None:
        return False
    _release_hold(tx, ids, job_id, now_ms=now_ms)
    events.add_event(tx, job_id, sequence, "failed", now_ms=now_ms, detail="deadline_exceeded")
    return True


# --- the fence, and what several transitions share -----------------------------------------------------


def _fenced(tx: Transaction, attempt_id: str, states: tuple[str, ...]) -> FencedAttempt:
    attempt = attempts_sql.locked_attempt(tx, attempt_id)
    if attempt is None or attempt.job_attempt_id != attempt_id or attempt.job_state not in states:
        raise Stale
    return attempt


def _fate(tx: Transaction, attempt: FencedAttempt, cause: Cause) -> Fate | None:
    is_paid = attempt.fenced_at is not None
    return fate.of(
        cause,
        is_paid=is_paid,
        is_kept=is_paid and attempts_sql.has_kept(tx, attempt.id),
        is_cancelled=attempt.cancel_requested_at is not None,
        hosts_lost=attempt.hosts_lost,
        unforeseen_errors=attempt.unforeseen_errors,
        workers_lost=attempt.workers_lost,
    )


def _end(
    tx: Transaction,
    ids: Ids | None,
    attempt: FencedAttempt | AttemptKeys,
    decided: Fate,
    *,
    now_ms: int,
    evidence: str | None = None,
) -> None:
    """Write what becomes of the attempt; without `ids` no money may move."""
    sequence = _move(tx, attempt, decided, now_ms)
    if decided.state in FINAL:
        assert ids is not None, "a hold that is released is a line of the ledger"
        _release_hold(tx, ids, attempt.job_id, now_ms=now_ms)
    _close(tx, attempt, sequence, decided.event, now_ms=now_ms, detail=decided.detail, evidence=evidence)


def _move(tx: Transaction, attempt: FencedAttempt | AttemptKeys, decided: Fate, now_ms: int) -> int | None:
    """The job's new state; returns the number of the event, None if another transaction was first."""
    assert decided.state in END_ATTEMPT.after
    if decided.state != QUEUED:
        return attempts_sql.end_running(
            tx,
            attempt.job_id,
            attempt.id,
            state=decided.state,
            error_code=decided.error_code,
            error_message=decided.error_message,
            finished_at=now_ms if decided.state in FINAL else None,
        )
    return attempts_sql.requeue_running(
        tx,
        attempt.job_id,
        attempt.id,
        hosts_lost=decided.hosts_lost,
        workers_lost=decided.workers_lost,
        losses_shared=decided.losses_shared,
        unforeseen_errors=decided.unforeseen_errors,
        not_before_at=now_ms + decided.pause_ms if decided.pause_ms else 0,
    )


def _release_hold(tx: Transaction, ids: Ids, job_id: str, *, now_ms: int) -> None:
    """Release the hold and the recordings of a job that ended without a result."""
    billing.void(tx, ids, job_id=job_id, now_ms=now_ms)
    artifacts.condemn_recordings(tx, job_id, now_ms=now_ms)


def _close(
    tx: Transaction,
    attempt: FencedAttempt | AttemptKeys,
    sequence: int | None,
    type_: str,
    *,
    now_ms: int,
    detail: str | None = None,
    evidence: str | None = None,
    by: Decision | None = None,
) -> None:
    """End the attempt, free its slot and write the event of a transition that has just been made."""
    if sequence is None:
        raise Stale
    outcome = "unknown" if type_ == RECOVERY_REQUIRED else type_
    attempts_sql.end_attempt(tx, attempt.id, outcome, now_ms=now_ms, evidence=evidence)
    attempts_sql.free_slot_of(tx, attempt.id)
    events.add_event(
        tx,
        attempt.job_id,
        sequence,
        type_,
        now_ms=now_ms,
        attempt_id=attempt.id,
        detail=detail,
        by=by,
    )
