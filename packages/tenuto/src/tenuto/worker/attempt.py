"""One attempt of a job, from the claim to its end: run behind the fence, check, store, record, succeed.

Each possible outcome of a run leads to exactly one transition. If a transition finds that the attempt is no
longer ours (`Stale`), the attempt just stops: another process has decided.
"""

import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.errors import Stale, Swept, Unavailable, causes, is_of_the_machine
from tenuto.features.kept_results.paid import LeftToOthers, PaidResult
from tenuto.features.kept_results.results import KeptResult
from tenuto.features.telemetry import trace
from tenuto.file.blob import BlobRecord
from tenuto.file.reasons import reason
from tenuto.host.host import (
    Cancelled,
    EngineFailed,
    HostDeadline,
    HostLost,
    HostNotReady,
    HostResult,
    OutcomeUnknown,
)
from tenuto.job import lifecycle
from tenuto.job.lifecycle import RecordedResult
from tenuto.job.queue import Claim
from tenuto.job.states import ENGINE_CODES, UNSETTLED, FailureCode, ReleaseReason
from tenuto.kind.kinds import kinds
from tenuto.logs import get_logger, log_failure
from tenuto.worker.calls import EngineCalls, ResultInvalid
from tenuto.worker.context import WorkerContext
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Heartbeat, Watched
from tenuto.worker.storage_retries import (
    LATE_S,
    PATIENCE_S,
    STORE_TRIES,
    NotStored,
    store,
    unless_stopped,
    write,
)

ClaimNext = Callable[[Transaction, int], Claim | None]
"""Claims a slot's next job in a transaction; `Engines.claiming` is held meanwhile."""

SET_BACK: ReleaseReason = "the worker's machine could not do it just now; the job is tried again"
"""What callers see after a fault of the machine; details are in the log, for operators only."""

NOT_STARTED_PAUSE_MS = 2_000
"""How long a job waits after its engine did not start, so that the lane does not retry in a tight loop."""

MAX_PUBLIC_CHARACTERS = 500

_log = get_logger("tenuto.worker")


def run(
    context: WorkerContext, engines: Engines, heartbeat: Heartbeat, claim: Claim, claim_next: ClaimNext
) -> Claim | None:
    """Run one claimed attempt to its end. Never raises: whatever is left undone is rescued by upkeep.

    Returns the slot's next attempt, if there is one. Claiming it in the transaction in which this one
    succeeds saves a commit and keeps the engine busy.
    """
    watched = heartbeat.watch(claim.attempt_id, cancellable=True)
    log = _log.bind(job_id=claim.job_id, attempt_id=claim.attempt_id, model=claim.model)
    began = time.monotonic()
    try:
        calls = EngineCalls(context, engines, claim, watched, partial(_pass_fence, context, claim, watched))
        result = _make(calls)
        if result is None:
            return None
        settled = _settle(calls, result, claim_next)
        if settled is None:
            return None
        context.setbacks.forget(claim.job_id)
        log.info(
            "job.succeeded",
            duration_ms=result.duration_ms,
            took_ms=round((time.monotonic() - began) * 1000),
        )
        return settled.following
    except Stale:
        log.warning("attempt.superseded")
    except Exception as error:
        log_failure(log, "attempt.abandoned", error)
    finally:
        heartbeat.forget(claim.attempt_id)
        context.database.wake("changes")
    return None


def _make(calls: EngineCalls) -> HostResult | None:
    """The result, checked; None if the attempt has ended in another way."""
    claim = calls.claim
    try:
        calls.engines.ready(claim.model, calls.watched.stop)
        return kinds()[claim.kind].run(calls)
    except Stale:
        raise
    except _CancelledInTime:
        return None
    except Exception as error:
        _end_badly(calls, error)
    finally:
        calls.engines.end(claim.model)
    return None


def _end_badly(calls: EngineCalls, error: Exception) -> None:
    """Make the one transition that this error means. The job is not blamed for a fault of the machine."""
    context, claim = calls.context, calls.claim
    if isinstance(error, Unavailable | Swept) or is_of_the_machine(error):
        _set_back(context, claim, error)
        return
    match error:
        case HostNotReady():
            evidence = _evidence(error.message, error.evidence)
            _release(context, claim, "the model's engine did not start", NOT_STARTED_PAUSE_MS, evidence)
        case Cancelled():
            _stopped(context, claim, calls.watched, error)
        case EngineFailed():
            _failed(context, claim, error)
        case OutcomeUnknown() | NotStored():
            _unknown(context, claim, _evidence(error.message, error.evidence))
        case HostDeadline():
            _overdue(context, claim, error)
        case HostLost():
            _lost(context, claim, error)
        case ResultInvalid() if claim.rerunnable:
            _fail(context, claim, "engine_failed", str(error))
        case ResultInvalid():
            _unknown(context, claim, str(error))
        case _:
            _unforeseen(context, claim, error)


class _CancelledInTime(Exception):
    """The caller cancelled before the fence: the job has ended, and the metered call is not made."""


def _pass_fence(context: WorkerContext, claim: Claim, watched: Watched) -> None:
    """Commit the fence before the first metered call of an attempt; from then on nothing stops the attempt.

    Raises Cancelled if the attempt must stop, and _CancelledInTime.
    """
    if claim.rerunnable or not watched.cancellable:
        return
    watched.cancellable = False
    if watched.stop.is_set():
        raise Cancelled(lost=False)

    def pass_fence(tx: Transaction, now_ms: int) -> bool:
        passed = lifecycle.pass_fence(tx, context.ids, claim.attempt_id, now_ms=now_ms)
        failpoints.hit("fence.before_commit")
        return passed

    passed = write(context, pass_fence)
    failpoints.hit("fence.after_commit")
    if not passed:
        raise _CancelledInTime


class _Settled(Struct, frozen=True):
    """The attempt has succeeded; `following` is what its slot does next."""

    following: Claim | None


def _settle(calls: EngineCalls, result: HostResult, claim_next: ClaimNext) -> _Settled | None:
    """Make the bytes durable, record them, succeed: in this order, each step repeatable. None if that failed.

    If the worker was suspended for so long that its bytes were swept, it stores them again from memory.
    """
    try:
        for _ in range(STORE_TRIES):
            try:
                return _settle_once(calls, result, claim_next)
            except Swept:
                _log.warning("blob.swept", job_id=calls.claim.job_id, attempt_id=calls.claim.attempt_id)
        raise Swept
    except Stale:
        raise
    except LeftToOthers:
        return None
    except Exception as error:
        _end_badly(calls, error)
    return None


def _settle_once(calls: EngineCalls, result: HostResult, claim_next: ClaimNext) -> _Settled | None:
    context, claim = calls.context, calls.claim
    if claim.rerunnable:
        record_it = _recording(calls, result, _make_durable(calls, result))
    else:
        record_it = _record_paid(calls, result)

    def succeed(tx: Transaction, now_ms: int) -> None:
        if claim.rerunnable:
            record_it(tx, now_ms)
        lifecycle.succeed(tx, context.ids, claim.attempt_id, now_ms=now_ms)
        failpoints.hit("succeed.before_commit")

    try:
        return _Settled(_succeed(calls, succeed, claim_next))
    except (Stale, Swept):
        raise
    except Exception as error:
        _log.exception("job.unsettled", job_id=claim.job_id, attempt_id=claim.attempt_id)
        _unsettled(context, claim, record_it if claim.rerunnable else None, error)
    return None


def _recording(
    calls: EngineCalls, result: HostResult, record: BlobRecord
) -> Callable[[Transaction, int], None]:
    """The step that records the stored bytes as the attempt's result."""
    failpoints.hit("result.after_bytes")
    recorded = RecordedResult(record, result.media_type, result.metadata, result.duration_ms)

    def record_it(tx: Transaction, now_ms: int) -> None:
        lifecycle.record_result(tx, calls.claim.attempt_id, recorded, now_ms=now_ms)
        failpoints.hit("record.before_commit")

    return record_it


def _record_paid(calls: EngineCalls, result: HostResult) -> Callable[[Transaction, int], None]:
    """Store and record what was paid for; until then the database or a file keeps it if either takes long.

    NotStored, LeftToOthers: the worker had to stop before.
    """
    kept = KeptResult(result.content, result.media_type, result.metadata, result.duration_ms)
    paid = PaidResult(calls, kept)
    try:
        record_it = _recording(calls, result, _make_durable(calls, result, when_late=paid.keep))
        record = partial(write, calls.context, record_it)
        unless_stopped(calls.watched, record, late_s=LATE_S, when_late=paid.keep)
    except NotStored as error:
        raise paid.leave(error) from error
    failpoints.hit("record.after_commit")
    paid.forget_file()
    return record_it


def _make_durable(
    calls: EngineCalls, result: HostResult, *, when_late: Callable[[], object] = lambda: None
) -> BlobRecord:
    context, claim = calls.context, calls.claim
    patience_s = PATIENCE_S if claim.rerunnable else None
    began = time.perf_counter()
    record = store(context, result.content, calls.watched, patience_s=patience_s, when_late=when_late)
    took_s = time.perf_counter() - began
    trace.report_stored(claim, size_bytes=record.size_bytes, ended_ms=context.clock(), took_s=took_s)
    return record


def _succeed(
    calls: EngineCalls, succeed: Callable[[Transaction, int], None], claim_next: ClaimNext
) -> Claim | None:
    """Succeed, and claim the slot's next job in the same commit; if that fails, succeed alone."""

    def both(tx: Transaction, now_ms: int) -> Claim | None:
        succeed(tx, now_ms)
        return claim_next(tx, now_ms)

    context, engines, claim = calls.context, calls.engines, calls.claim
    with engines.claiming:
        try:
            following = write(context, both)
        except (Stale, Swept):
            raise
        except Exception as error:
            following = None
            write(context, succeed)
            # A damaged row of another job must not fail this one.
            _log.error("claim.failed", lane=claim.lane, behind=claim.job_id, exc_info=error)
        failpoints.hit("succeed.after_commit")
        if following is not None:
            engines.begin(following.model)
    return following


def _unsettled(
    context: WorkerContext,
    claim: Claim,
    record_it: Callable[[Transaction, int], None] | None,
    error: Exception,
) -> None:
    """The result is good but its charge fails: hand the job to the operator."""

    def hand_over(tx: Transaction, now_ms: int) -> None:
        if record_it is not None:
            record_it(tx, now_ms)
        lifecycle.hand_over(
            tx,
            claim.attempt_id,
            code="unsettled",
            message=UNSETTLED,
            evidence=causes(error),
            now_ms=now_ms,
        )

    _end(context, hand_over)
    _log.error("job.recovery_required", job_id=claim.job_id, attempt_id=claim.attempt_id)


def _unforeseen(context: WorkerContext, claim: Claim, error: Exception) -> None:
    evidence = causes(error)
    _log.error("attempt.unforeseen", job_id=claim.job_id, attempt_id=claim.attempt_id, exc_info=error)
    _end(
        context,
        lambda tx, now: lifecycle.unforeseen(
            tx, context.ids, claim.attempt_id, evidence=evidence, now_ms=now
        ),
    )


def _set_back(context: WorkerContext, claim: Claim, error: Exception) -> None:
    """After a fault of this machine, return the job to the queue uncounted; it waits longer each time."""
    pause_ms = context.setbacks.pause_ms(claim.job_id)
    _log.error(
        "attempt.set_back",
        job_id=claim.job_id,
        attempt_id=claim.attempt_id,
        reason=reason(error.__cause__ or error),
        pause_ms=pause_ms,
    )
    _release(context, claim, SET_BACK, pause_ms)


def _stopped(context: WorkerContext, claim: Claim, watched: Watched, error: Cancelled) -> None:
    if watched.lost:
        raise Stale
    if watched.silent:
        seconds = context.settings.engine_silence_s
        evidence = _evidence(f"the engine said nothing for {seconds} s", error.evidence)
        _try_again(context, claim, "engine_crashed", evidence, shared=error.shared)
    elif watched.cancelled:
        _end(context, lambda tx, now: lifecycle.cancelled(tx, context.ids, claim.attempt_id, now_ms=now))
        _log.info("job.cancelled", job_id=claim.job_id, attempt_id=claim.attempt_id)
    else:
        _release(context, claim, "the worker is stopping", 0)


def _failed(context: WorkerContext, claim: Claim, error: EngineFailed) -> None:
    code = ENGINE_CODES.get(error.code, "engine_failed")
    evidence = _evidence(error.message, error.evidence)
    if error.transient and claim.rerunnable:
        _try_again(context, claim, code, evidence)
    else:
        _fail(context, claim, code, evidence, error.message if error.public else None)


def _lost(context: WorkerContext, claim: Claim, error: HostLost) -> None:
    evidence = _evidence(error.message, error.evidence)
    if error.blame == "service":
        reason: ReleaseReason = "the engine's process was ended for another reason than this job"
        _release(context, claim, reason, 0, evidence)
    else:
        _try_again(context, claim, "engine_crashed", evidence, shared=error.blame == "shared")


def _overdue(context: WorkerContext, claim: Claim, error: HostDeadline) -> None:
    if claim.rerunnable:
        _fail(context, claim, "deadline_exceeded", _evidence(error.message, error.evidence))
    else:
        _unknown(context, claim, _evidence(error.message, error.evidence))


def _evidence(message: str, output: str) -> str:
    """What happened, then the last of what the engine printed: for operators."""
    return f"{message}\n{output}".strip()


def _fail(
    context: WorkerContext, claim: Claim, code: FailureCode, evidence: str, public: str | None = None
) -> None:
    message = None if public is None else public[:MAX_PUBLIC_CHARACTERS]
    _end(
        context,
        lambda tx, now: lifecycle.fail(
            tx, context.ids, claim.attempt_id, code=code, now_ms=now, public=message, evidence=evidence
        ),
    )
    _log.warning("job.failed", job_id=claim.job_id, attempt_id=claim.attempt_id, code=code)


def _try_again(
    context: WorkerContext, claim: Claim, code: FailureCode, evidence: str, *, shared: bool = False
) -> None:
    _end(
        context,
        lambda tx, now: lifecycle.try_again(
            tx,
            context.ids,
            claim.attempt_id,
            code=code,
            now_ms=now,
            evidence=evidence,
            shared=shared,
        ),
    )
    _log.warning("attempt.failed", job_id=claim.job_id, attempt_id=claim.attempt_id, code=code)


def _unknown(context: WorkerContext, claim: Claim, evidence: str) -> None:
    _end(
        context,
        lambda tx, now: lifecycle.outcome_unknown(tx, claim.attempt_id, now_ms=now, evidence=evidence),
    )
    _log.error("job.recovery_required", job_id=claim.job_id, attempt_id=claim.attempt_id)


def _release(
    context: WorkerContext, claim: Claim, reason: ReleaseReason, pause_ms: int, evidence: str | None = None
) -> None:
    _end(
        context,
        lambda tx, now: lifecycle.release(
            tx,
            context.ids,
            claim.attempt_id,
            now_ms=now,
            reason=reason,
            pause_ms=pause_ms,
            evidence=evidence,
        ),
    )
    _log.info("attempt.released", job_id=claim.job_id, attempt_id=claim.attempt_id)


def _end(context: WorkerContext, transition: Callable[[Transaction, int], None]) -> None:
    """Run a transition that ends the attempt."""

    def end(tx: Transaction, now_ms: int) -> None:
        transition(tx, now_ms)
        failpoints.hit("ending.before_commit")

    write(context, end)
    failpoints.hit("ending.after_commit")
