"""One attempt of a job, from the claim to its end: fence, run, check, store, record, succeed.

Every way in which a host can end is mapped to one transition here. When a transition finds that the
attempt is not ours any more (`Stale`) the attempt simply stops: somebody else has decided.
"""

import time
from collections.abc import Callable

import structlog

from tenuto import failpoints
from tenuto.blobs.blob import BlobRecord
from tenuto.db.database import Transaction
from tenuto.errors import Stale, StorageFailed, Swept
from tenuto.hosts.host import (
    Cancelled,
    EngineFailed,
    HostDeadline,
    HostLost,
    HostNotReady,
    HostResult,
    OutcomeUnknown,
)
from tenuto.jobs import lifecycle
from tenuto.jobs.lifecycle import RecordedResult
from tenuto.jobs.queue import Claim
from tenuto.jobs.segments import SegmentLimit
from tenuto.worker.calls import EngineCalls, ResultInvalid
from tenuto.worker.durable import STORE_TRIES, store, write
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Heartbeat, Watched
from tenuto.worker.parts import Parts
from tenuto.worker.runners import RUNNERS

ClaimNext = Callable[[Transaction, int], Claim | None]
"""Claims a slot's next job in a transaction; `Engines.claiming` is held meanwhile."""

NOT_STARTED_PAUSE_MS = 2_000
"""A job whose engine did not start waits so long, so that the lane does not spin on it."""

MAX_MESSAGE_CHARACTERS = 500

FAILURE_CODES = frozenset({"engine_failed", "nothing_to_speak", "segment_limit", "input_unreadable"})
"""Codes that an engine may give; any other is shown as engine_failed."""

_log = structlog.get_logger("tenuto.worker")


def run(
    parts: Parts, engines: Engines, heartbeat: Heartbeat, claim: Claim, claim_next: ClaimNext
) -> Claim | None:
    """Run one claimed attempt to its end. Never raises: whatever is left undone is rescued by upkeep.

    Gives the slot's next attempt when there is one: it is claimed in the transaction in which this one
    succeeds, which spares a commit, and the engine the wait for it.
    """
    watched = heartbeat.watch(claim.attempt_id, cancellable=claim.rerunnable)
    log = _log.bind(job_id=claim.job_id, attempt_id=claim.attempt_id, model=claim.model)
    began = time.monotonic()
    try:
        try:
            result = _make(parts, engines, claim, watched)
        finally:
            engines.end(claim.model)
        if result is not None:
            following = _settle(parts, engines, claim, result, claim_next)
            log.info(
                "job.succeeded",
                duration_ms=result.duration_ms,
                took_ms=round((time.monotonic() - began) * 1000),
            )
            return following
    except Stale:
        log.warning("attempt.superseded")
    except Exception:
        log.exception("attempt.abandoned")
    finally:
        heartbeat.forget(claim.attempt_id)
        parts.database.wake("changes")
    return None


def _make(parts: Parts, engines: Engines, claim: Claim, watched: Watched) -> HostResult | None:
    """The result, checked; None when the attempt has ended in another way."""
    try:
        engines.ready(claim.model)
        if not claim.rerunnable and not _pass_fence(parts, claim):
            return None
        return RUNNERS[claim.kind](EngineCalls(parts, engines, claim, watched))
    except HostNotReady as error:
        _release(parts, claim, f"the engine did not start: {error.message}", NOT_STARTED_PAUSE_MS)
    except Cancelled as error:
        _stopped(parts, claim, watched, error)
    except EngineFailed as error:
        _failed(parts, claim, error)
    except OutcomeUnknown as error:
        _unknown(parts, claim, error.message, error.evidence)
    except HostDeadline as error:
        _overdue(parts, claim, error)
    except HostLost as error:
        _try_again(parts, claim, "engine_crashed", error.message, error.evidence)
    except ResultInvalid as error:
        _fail(parts, claim, "engine_failed", str(error))
    except SegmentLimit as error:
        _fail(parts, claim, "segment_limit", f"the preview is larger than what is kept: {error}")
    except (StorageFailed, Swept) as error:
        _try_again(parts, claim, "storage_failed", error.message, None)
    return None


def _pass_fence(parts: Parts, claim: Claim) -> bool:
    """Whether the metered call may be made; committed before it is."""

    def pass_fence(tx: Transaction, now_ms: int) -> bool:
        passed = lifecycle.pass_fence(tx, parts.ids, claim.attempt_id, now_ms=now_ms)
        failpoints.hit("fence.before_commit")
        return passed

    passed = write(parts, pass_fence)
    failpoints.hit("fence.after_commit")
    return passed


def _settle(
    parts: Parts, engines: Engines, claim: Claim, result: HostResult, claim_next: ClaimNext
) -> Claim | None:
    """Make the bytes durable, record them, succeed: in this order, each step repeatable.

    A worker that stood still for a day in between finds its bytes swept, and stores anew what it still has.
    """
    for _ in range(STORE_TRIES):
        try:
            return _settle_once(parts, engines, claim, result, claim_next)
        except Swept:
            _log.warning("blob.swept", job_id=claim.job_id, attempt_id=claim.attempt_id)
    raise Swept


def _settle_once(
    parts: Parts, engines: Engines, claim: Claim, result: HostResult, claim_next: ClaimNext
) -> Claim | None:
    blob_id = parts.ids.new("blob")
    record = _store(parts, claim, blob_id, result.content)
    if record is None:
        return None
    failpoints.hit("result.after_bytes")
    recorded = RecordedResult(record, result.media_type, result.metadata, result.duration_ms)

    def record_it(tx: Transaction, now_ms: int) -> None:
        lifecycle.record_result(tx, claim.attempt_id, recorded, now_ms=now_ms)
        failpoints.hit("record.before_commit")

    def succeed(tx: Transaction, now_ms: int) -> Claim | None:
        if claim.rerunnable:
            record_it(tx, now_ms)
        lifecycle.succeed(tx, parts.ids, claim.attempt_id, now_ms=now_ms)
        failpoints.hit("succeed.before_commit")
        return claim_next(tx, now_ms)

    if not claim.rerunnable:
        write(parts, record_it)
        failpoints.hit("record.after_commit")
    with engines.claiming:
        following = write(parts, succeed)
        failpoints.hit("succeed.after_commit")
        if following is not None:
            engines.begin(following.model)
    return following


def _store(parts: Parts, claim: Claim, blob_id: str, content: bytes) -> BlobRecord | None:
    try:
        return store(parts, blob_id, content)
    except StorageFailed as error:
        _try_again(parts, claim, "storage_failed", error.message, None)
    return None


def _stopped(parts: Parts, claim: Claim, watched: Watched, error: Cancelled) -> None:
    if watched.lost:
        raise Stale
    if watched.silent:
        seconds = parts.settings.engine_silence_s
        _try_again(parts, claim, "engine_crashed", f"the engine said nothing for {seconds} s", error.evidence)
    elif watched.cancelled:
        _end(parts, lambda tx, now: lifecycle.cancelled(tx, parts.ids, claim.attempt_id, now_ms=now))
        _log.info("job.cancelled", job_id=claim.job_id, attempt_id=claim.attempt_id)
    else:
        _release(parts, claim, "the worker is stopping", 0)


def _failed(parts: Parts, claim: Claim, error: EngineFailed) -> None:
    code = error.code if error.code in FAILURE_CODES else "engine_failed"
    if error.transient and claim.rerunnable:
        _try_again(parts, claim, code, error.message, error.evidence)
    else:
        _fail(parts, claim, code, error.message)


def _overdue(parts: Parts, claim: Claim, error: HostDeadline) -> None:
    if claim.rerunnable:
        _fail(parts, claim, "deadline_exceeded", "the job did not end before its deadline")
    else:
        _unknown(parts, claim, error.message, error.evidence)


def _fail(parts: Parts, claim: Claim, code: str, message: str) -> None:
    shown = message[:MAX_MESSAGE_CHARACTERS]
    _end(
        parts,
        lambda tx, now: lifecycle.fail(tx, parts.ids, claim.attempt_id, code=code, message=shown, now_ms=now),
    )
    _log.warning("job.failed", job_id=claim.job_id, attempt_id=claim.attempt_id, code=code)


def _try_again(parts: Parts, claim: Claim, code: str, message: str, evidence: str | None) -> None:
    shown = message[:MAX_MESSAGE_CHARACTERS]
    _end(
        parts,
        lambda tx, now: lifecycle.try_again(
            tx, parts.ids, claim.attempt_id, code=code, message=shown, now_ms=now, evidence=evidence
        ),
    )
    _log.warning("attempt.failed", job_id=claim.job_id, attempt_id=claim.attempt_id, code=code)


def _unknown(parts: Parts, claim: Claim, message: str, evidence: str | None) -> None:
    shown = message[:MAX_MESSAGE_CHARACTERS]
    _end(
        parts,
        lambda tx, now: lifecycle.outcome_unknown(
            tx, claim.attempt_id, message=shown, now_ms=now, evidence=evidence
        ),
    )
    _log.error("job.recovery_required", job_id=claim.job_id, attempt_id=claim.attempt_id)


def _release(parts: Parts, claim: Claim, reason: str, pause_ms: int) -> None:
    shown = reason[:MAX_MESSAGE_CHARACTERS]
    _end(
        parts,
        lambda tx, now: lifecycle.release(
            tx, parts.ids, claim.attempt_id, now_ms=now, reason=shown, pause_ms=pause_ms
        ),
    )
    _log.info("attempt.released", job_id=claim.job_id, attempt_id=claim.attempt_id)


def _end(parts: Parts, transition: Callable[[Transaction, int], None]) -> None:
    """One of the transitions above, each of which ends the attempt."""

    def end(tx: Transaction, now_ms: int) -> None:
        transition(tx, now_ms)
        failpoints.hit("ending.before_commit")

    write(parts, end)
    failpoints.hit("ending.after_commit")
