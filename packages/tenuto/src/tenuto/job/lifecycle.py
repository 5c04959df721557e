"""The transitions of accepted jobs: by workers (fence, record, succeed, fail, release, rescue), by callers
(cancel) and by the deadline (expire). `recover` has the operator's.

One function each, on one transaction. The fence: the job must still name this attempt; otherwise `Stale` is
raised before anything is written, and the worker stops.
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
from tenuto.job import attempt_store, states, store
from tenuto.job.rows import AttemptKeys, FencedAttempt
from tenuto.job.states import (
    CANCELLED,
    FAILED,
    FINAL,
    MAX_HOSTS_LOST,
    OUTCOME_UNKNOWN,
    QUEUED,
    RECOVERY_REQUIRED,
    RUNNING,
    SENTENCES,
    UNFORESEEN,
    Decision,
    FailureCode,
    ReleaseReason,
)
from tenuto.money import operations as billing
from tenuto.money.rules import charge_micros

EXPIRY_BATCH = 100
UNFORESEEN_PAUSE_MS = 2_000


class RecordedResult(Struct, frozen=True):
    """What an engine made, after its bytes became durable."""

    blob: BlobRecord
    media_type: str
    metadata: dict[str, Any]
    duration_ms: int | None


def heartbeat(tx: Transaction, progress: dict[str, dict[str, Any] | None]) -> dict[str, bool | None]:
    """Raise the beat of each attempt; True: its job was cancelled, None: the attempt is over."""
    return {
        attempt_id: attempt_store.raise_beat(tx, attempt_id, None if made is None else json.dumps(made))
        for attempt_id, made in progress.items()
    }


def pass_fence(tx: Transaction, ids: Ids, attempt_id: str, *, now_ms: int) -> bool:
    """Before a metered call: from then on, if the outcome is lost, the job is never run again.

    False when the caller cancelled the job in time: it ends, and the call must not be made.
    """
    attempt = _fenced(tx, attempt_id, (RUNNING,))
    if attempt.fenced_at is not None:
        return True  # Repeated because the first response was lost: no call was made yet.
    if attempt.cancel_requested_at is not None:
        _cancel(tx, ids, attempt, now_ms=now_ms)
        return False
    if attempt_store.pass_fence(tx, attempt_id, now_ms) == 0:
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
    recorded = attempt_store.record(
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
        store.remove_kept_result(tx, attempt.job_id)


def keep_result(tx: Transaction, attempt_id: str, lines: Sequence[str], *, now_ms: int) -> None:
    """The store of bytes does not take a paid result: the database keeps it until it does. Repeatable."""
    attempt = _unrecorded(tx, attempt_id)
    attempt_store.keep_result(tx, lines, job_id=attempt.job_id, attempt_id=attempt_id, now_ms=now_ms)


def kept_result(tx: Transaction, attempt_id: str) -> list[str]:
    """What the database keeps of the attempt's result, in order; nothing: it keeps none."""
    return attempt_store.kept_result(tx, attempt_id)


def is_over(tx: Transaction, attempt_id: str) -> bool:
    """Whether the attempt's job has ended, and waits for no operator; False if there is no such attempt."""
    attempt = attempt_store.locked_keys(tx, attempt_id)
    return attempt is not None and attempt.job_state in FINAL


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
    sequence = attempt_store.succeed(
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


def fail(
    tx: Transaction,
    ids: Ids,
    attempt_id: str,
    *,
    code: FailureCode,
    now_ms: int,
    public: str | None = None,
    evidence: str | None = None,
) -> None:
    """The engine is at fault, or a limit was exceeded: running → failed, the hold voided.

    `public` is what an engine wrote for the caller; `evidence` is for operators.
    """
    attempt = _unrecorded(tx, attempt_id)
    message = public or SENTENCES[code]
    _fail(tx, ids, attempt, code=code, message=message, now_ms=now_ms, evidence=evidence)


def cancelled(tx: Transaction, ids: Ids, attempt_id: str, *, now_ms: int) -> None:
    """The engine was stopped because the caller cancelled: running → cancelled, the hold voided.

    A metered engine that was called may have charged for it: recovery_required.
    """
    attempt = _unrecorded(tx, attempt_id)
    if attempt.fenced_at is not None:
        message = "the engine was stopped after the metered call was begun; its outcome is unknown"
        _require_recovery(tx, attempt, message=message, now_ms=now_ms)
        return
    _cancel(tx, ids, attempt, now_ms=now_ms)


def release(
    tx: Transaction,
    ids: Ids,
    attempt_id: str,
    *,
    now_ms: int,
    reason: ReleaseReason,
    pause_ms: int = 0,
    evidence: str | None = None,
) -> None:
    """The worker returns the job unharmed (it drains, no engine starts): running → queued, not counted.

    A job that its caller wants cancelled is cancelled instead: it might wait long for its next worker. A
    metered engine's job is never returned once its fence is passed: recovery_required.
    """
    attempt = _unrecorded(tx, attempt_id)
    if attempt.fenced_at is not None:
        message = f"given back after the fence: {reason}"
        _require_recovery(tx, attempt, message=message, now_ms=now_ms, evidence=evidence)
        return
    if attempt.cancel_requested_at is not None:
        _cancel(tx, ids, attempt, now_ms=now_ms)
        return
    sequence = _requeue(tx, attempt, not_before_ms=now_ms + pause_ms if pause_ms else 0)
    _close(tx, attempt, sequence, "released", now_ms=now_ms, detail=reason, evidence=evidence)


def try_again(
    tx: Transaction,
    ids: Ids,
    attempt_id: str,
    *,
    code: FailureCode,
    now_ms: int,
    evidence: str | None = None,
    shared: bool = False,
) -> None:
    """The host was lost, or the fault may be transient: queued again, the third time failed with `code`.

    A loss that other runs in the host may have caused (`shared`) does not count as a failure; it only makes
    the job run alone later.
    A metered engine that was called is never called again: recovery_required.
    """
    attempt = _unrecorded(tx, attempt_id)
    if attempt.fenced_at is not None:
        _require_recovery(tx, attempt, message=OUTCOME_UNKNOWN, now_ms=now_ms, evidence=evidence)
        return
    if attempt.cancel_requested_at is not None:
        _cancel(tx, ids, attempt, now_ms=now_ms)
        return
    lost = attempt.hosts_lost + (not shared)
    if lost >= MAX_HOSTS_LOST and not shared:
        message = f"{SENTENCES[code]} It was tried {lost} times."
        _fail(tx, ids, attempt, code=code, message=message, now_ms=now_ms, evidence=evidence)
        return
    sequence = _requeue(tx, attempt, hosts_lost=lost, losses_shared=int(shared))
    _close(tx, attempt, sequence, "host_lost", now_ms=now_ms, detail=code, evidence=evidence)


def unforeseen(tx: Transaction, ids: Ids, attempt_id: str, *, evidence: str, now_ms: int) -> None:
    """The worker met an unforeseen error: queued again after a pause, twice; then it waits for an operator.

    It neither fails the job nor is retried for ever.
    """
    attempt = _unrecorded(tx, attempt_id)
    _check_not_kept(tx, attempt_id)
    if attempt.fenced_at is None and attempt.cancel_requested_at is not None:
        _cancel(tx, ids, attempt, now_ms=now_ms)
        return
    met = attempt.hosts_lost + 1
    if attempt.fenced_at is not None or met >= MAX_HOSTS_LOST:
        _require_recovery(
            tx, attempt, message=UNFORESEEN, code="unforeseen", now_ms=now_ms, evidence=evidence
        )
        return
    sequence = _requeue(tx, attempt, hosts_lost=met, not_before_ms=now_ms + UNFORESEEN_PAUSE_MS)
    _close(tx, attempt, sequence, "released", now_ms=now_ms, detail=UNFORESEEN, evidence=evidence)


def hand_over(
    tx: Transaction, attempt_id: str, *, code: str, message: str, evidence: str, now_ms: int
) -> None:
    """The job can be neither run, finished nor queued: running → recovery_required.

    Reads only the few columns that have to be intact for it.
    """
    attempt = attempt_store.locked_keys(tx, attempt_id)
    if attempt is None or attempt.job_attempt_id != attempt_id:
        raise Stale
    if attempt.job_state == RECOVERY_REQUIRED:
        attempt_store.end_attempt(tx, attempt_id, "unknown", now_ms=now_ms, evidence=evidence)
    else:
        _require_recovery(tx, attempt, message=message, code=code, now_ms=now_ms, evidence=evidence)


def outcome_unknown(tx: Transaction, attempt_id: str, *, now_ms: int, evidence: str | None = None) -> None:
    """A metered engine cannot tell whether its call was charged: running → recovery_required, hold kept."""
    attempt = _unrecorded(tx, attempt_id)
    _check_not_kept(tx, attempt_id)
    _require_recovery(tx, attempt, message=OUTCOME_UNKNOWN, now_ms=now_ms, evidence=evidence)


def rescue(tx: Transaction, ids: Ids, attempt_id: str, *, beat: int, now_ms: int) -> str:
    """Its worker is gone (its counter stopped at `beat`): finish, cancel, recover or queue again.

    Returns what was done: "recorded" means that nothing has changed, and that the caller checks the bytes of
    the recorded result and finishes with `succeed`; "kept" that nothing has either, and that it stores the
    bytes that wait in the database.
    """
    attempt = _fenced(tx, attempt_id, (RUNNING, RECOVERY_REQUIRED))
    if attempt.beat != beat:
        raise Stale
    if attempt.state == "recorded":
        return "recorded"
    if attempt.job_state != RUNNING:
        raise Stale
    if attempt.fenced_at is not None and attempt_store.has_kept(tx, attempt_id):
        return "kept"
    if attempt.fenced_at is not None:
        message = "the worker was lost after the metered call was begun; its outcome is unknown"
        _require_recovery(tx, attempt, message=message, now_ms=now_ms)
        return "recovery_required"
    if attempt.cancel_requested_at is not None:
        _cancel(tx, ids, attempt, now_ms=now_ms)
        return "cancelled"
    lost = attempt.workers_lost + 1
    pause = states.pause_ms(lost)
    sequence = _requeue(tx, attempt, workers_lost=lost, not_before_ms=now_ms + pause if pause else 0)
    _close(tx, attempt, sequence, "worker_lost", now_ms=now_ms)
    return "queued"


def result_unusable(tx: Transaction, attempt_id: str, *, message: str, now_ms: int) -> None:
    """A recorded result can't be verified: nothing is run again, and an operator decides."""
    attempt = _fenced(tx, attempt_id, (RUNNING, RECOVERY_REQUIRED))
    if attempt.state != "recorded":
        raise Stale
    if attempt.job_state == RECOVERY_REQUIRED:
        attempt_store.end_attempt(tx, attempt_id, "unknown", now_ms=now_ms)
        return
    _require_recovery(tx, attempt, message=message, now_ms=now_ms)


# --- by callers, and by the deadline ----------------------------------------------------------------


def cancel(tx: Transaction, ids: Ids, caller: Caller, *, job_id: str, now_ms: int) -> bool:
    """A caller cancels a job. True when a worker has to be notified.

    Queued: cancelled at once, the hold voided. Running: noted, the worker stops its engine. Final or
    waiting for recovery: unchanged. NotFound; ModelNotAllowed: the key may not use the job's model.
    """
    job = store.owned(tx, job_id, caller.account_id)
    if job is None:
        raise NotFound
    caller.check_job(job.model)
    if job.state == QUEUED:
        sequence = store.end_queued(tx, job_id, CANCELLED, error_code=None, error_message=None, now_ms=now_ms)
        assert sequence is not None, "the row is locked"
        _release_hold(tx, ids, job_id, now_ms=now_ms)
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


def take_over(tx: Transaction, job_ids: Sequence[str], *, waiter: str) -> None:
    """Make this API process the one that may cancel the jobs once their client has left."""
    for job_id in job_ids:
        store.set_waiter(tx, job_id, waiter)


def cancel_abandoned(
    tx: Transaction, ids: Ids, caller: Caller, *, job_id: str, waiter: str, now_ms: int
) -> bool:
    """Cancel a queued job, unless an API process other than `waiter` has taken it over. NotFound."""
    job = store.owned(tx, job_id, caller.account_id)
    if job is None:
        raise NotFound
    if job.state != QUEUED or store.waiter(tx, job_id) not in (None, waiter):
        return False
    cancel(tx, ids, caller, job_id=job_id, now_ms=now_ms)
    return True


def overdue(tx: Transaction, *, lane: str, now_ms: int, after: str = "") -> list[str]:
    """Queued jobs of the lane that are past their deadline, oldest first, one batch at a time.

    Starts after an id; fewer than EXPIRY_BATCH: there are no more.
    """
    return store.overdue(tx, lane, now_ms, EXPIRY_BATCH, after=after)


def expire(tx: Transaction, ids: Ids, *, job_id: str, now_ms: int) -> bool:
    """A queued job past its deadline fails, its hold voided; False if it is no longer queued."""
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
    _release_hold(tx, ids, job_id, now_ms=now_ms)
    store.add_event(tx, job_id, sequence, "failed", now_ms=now_ms, detail="deadline_exceeded")
    return True


# --- the fence, and what several transitions share -----------------------------------------------------


def _fenced(tx: Transaction, attempt_id: str, states: tuple[str, ...]) -> FencedAttempt:
    attempt = attempt_store.locked_attempt(tx, attempt_id)
    if attempt is None or attempt.job_attempt_id != attempt_id or attempt.job_state not in states:
        raise Stale
    return attempt


def _unrecorded(tx: Transaction, attempt_id: str) -> FencedAttempt:
    """A running attempt without a recorded result; one with a result can only be finished with it."""
    attempt = _fenced(tx, attempt_id, (RUNNING,))
    if attempt.state == "recorded":
        raise Stale
    return attempt


def _check_not_kept(tx: Transaction, attempt_id: str) -> None:
    """Stale if the database keeps the attempt's result: whoever rescues the attempt stores it."""
    if attempt_store.has_kept(tx, attempt_id):
        raise Stale


def _requeue(
    tx: Transaction,
    attempt: FencedAttempt,
    *,
    hosts_lost: int | None = None,
    workers_lost: int | None = None,
    losses_shared: int = 0,
    not_before_ms: int = 0,
) -> int | None:
    """Queue it again, with the given loss counters; `losses_shared` is added to its own."""
    return attempt_store.requeue_running(
        tx,
        attempt.job_id,
        attempt.id,
        hosts_lost=attempt.hosts_lost if hosts_lost is None else hosts_lost,
        workers_lost=attempt.workers_lost if workers_lost is None else workers_lost,
        losses_shared=losses_shared,
        not_before_ms=not_before_ms,
    )


def _release_hold(tx: Transaction, ids: Ids, job_id: str, *, now_ms: int) -> None:
    """Release the hold and the recordings of a job that ended without a result."""
    billing.void(tx, ids, job_id=job_id, now_ms=now_ms)
    artifacts.condemn_recordings(tx, job_id, now_ms=now_ms)


def _fail(
    tx: Transaction,
    ids: Ids,
    attempt: FencedAttempt,
    *,
    code: str,
    message: str,
    now_ms: int,
    evidence: str | None = None,
) -> None:
    sequence = attempt_store.end_running(
        tx, attempt.job_id, attempt.id, FAILED, error_code=code, error_message=message, now_ms=now_ms
    )
    _release_hold(tx, ids, attempt.job_id, now_ms=now_ms)
    _close(tx, attempt, sequence, "failed", now_ms=now_ms, detail=code, evidence=evidence)


def _cancel(tx: Transaction, ids: Ids, attempt: FencedAttempt, *, now_ms: int) -> None:
    sequence = attempt_store.end_running(
        tx, attempt.job_id, attempt.id, CANCELLED, error_code=None, error_message=None, now_ms=now_ms
    )
    _release_hold(tx, ids, attempt.job_id, now_ms=now_ms)
    _close(tx, attempt, sequence, "cancelled", now_ms=now_ms)


def _require_recovery(
    tx: Transaction,
    attempt: FencedAttempt | AttemptKeys,
    *,
    message: str,
    now_ms: int,
    code: str = "outcome_unknown",
    evidence: str | None = None,
) -> None:
    sequence = attempt_store.require_recovery(tx, attempt.job_id, attempt.id, code=code, message=message)
    _close(
        tx,
        attempt,
        sequence,
        "recovery_required",
        now_ms=now_ms,
        detail=message,
        evidence=evidence,
        outcome="unknown",
    )


def _close(
    tx: Transaction,
    attempt: FencedAttempt | AttemptKeys,
    sequence: int | None,
    type_: str,
    *,
    now_ms: int,
    detail: str | None = None,
    evidence: str | None = None,
    outcome: str | None = None,
    by: Decision | None = None,
) -> None:
    """End the attempt, free its slot and write the event of a transition that has just been made."""
    if sequence is None:
        raise Stale
    attempt_store.end_attempt(tx, attempt.id, outcome or type_, now_ms=now_ms, evidence=evidence)
    attempt_store.free_slot_of(tx, attempt.id)
    store.add_event(
        tx,
        attempt.job_id,
        sequence,
        type_,
        now_ms=now_ms,
        attempt_id=attempt.id,
        detail=detail,
        by=by,
    )
