"""One attempt of a job, from the claim to its end: claim given, run, record, settle, next.

Whatever else ends it is an exception, and each exception is one `Cause`: `job.fate` decides what
becomes of the attempt. If a transition finds that the attempt is no longer ours (`Stale`), the attempt just
stops: another process has decided.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.errors import Stale, Swept, Unavailable, causes, is_of_the_machine
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
from tenuto.job import finish
from tenuto.job.fate import Cause
from tenuto.job.finish import RecordedResult
from tenuto.job.queue import Claim
from tenuto.job.states import ENGINE_CODES, UNSETTLED, ReleaseReason
from tenuto.kind.kinds import kinds
from tenuto.logs import get_logger, log_failure, tell
from tenuto.worker.context import WorkerContext
from tenuto.worker.engine_calls import EngineCalls, ResultInvalid
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Heartbeat, Watched
from tenuto.worker.result_keeper import keeping
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

Step = Callable[[Transaction, int], None]
"""Part of a transaction, at a time in ms."""

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
        pass_fence, keep = (
            partial(_pass_fence, context, claim, watched),
            partial(keeping.keep_chunk, context, claim),
        )
        calls = EngineCalls(context, engines, claim, watched, pass_fence, keep)
        result = _run(calls)
        if result is None:
            return None
        with _ending(calls):
            following = _record_and_settle(calls, result, claim_next)
            context.setbacks.forget(claim.job_id)
            log.info(
                "job.succeeded",
                duration_ms=result.duration_ms,
                took_ms=round((time.monotonic() - began) * 1000),
            )
            return following
    except Stale:
        log.warning("attempt.superseded")
    except Exception as error:
        log_failure(log, "attempt.abandoned", error)
    finally:
        heartbeat.forget(claim.attempt_id)
        context.database.wake("changes")
    return None


class _Over(Exception):
    """There is nothing left to do for this attempt here."""


@contextmanager
def _ending(calls: EngineCalls) -> Iterator[None]:
    """A part of the attempt: an error in it ends the attempt."""
    try:
        yield
    except _Over:
        pass
    except Stale:
        raise
    except Exception as error:
        _end(calls, error)


# --- run ------------------------------------------------------------------------------------------------


def _run(calls: EngineCalls) -> HostResult | None:
    """The result, checked; None if the attempt has ended in another way."""
    claim = calls.claim
    try:
        with _ending(calls):
            calls.engines.ready(claim.model, calls.watched.stop)
            return kinds()[claim.kind].run(calls)
    finally:
        calls.engines.end(claim.model)
    return None


def _pass_fence(context: WorkerContext, claim: Claim, watched: Watched) -> None:
    """Commit the fence before the first metered call of an attempt; from then on nothing stops the attempt.

    Raises Cancelled if the attempt must stop, and _Over if the caller has cancelled the job in time.
    """
    if claim.rerunnable or not watched.cancellable:
        return
    watched.cancellable = False
    if watched.stop.is_set():
        raise Cancelled(lost=False)

    def pass_fence(tx: Transaction, now_ms: int) -> bool:
        passed = finish.pass_fence(tx, context.ids, claim.attempt_id, now_ms=now_ms)
        failpoints.hit("fence.before_commit")
        return passed

    passed = write(context, pass_fence)
    failpoints.hit("fence.after_commit")
    if not passed:
        raise _Over


# --- record ---------------------------------------------------------------------------------------------


def _record_and_settle(calls: EngineCalls, result: HostResult, claim_next: ClaimNext) -> Claim | None:
    """Make the bytes durable, record them, succeed: in this order, each step repeatable.

    If the worker was suspended for so long that its bytes were swept, it stores them again from memory.
    """
    for _ in range(STORE_TRIES):
        try:
            return _settle(calls, _record(calls, result), claim_next)
        except Swept:
            _log.warning("blob.swept", job_id=calls.claim.job_id, attempt_id=calls.claim.attempt_id)
    raise Swept


def _record(calls: EngineCalls, result: HostResult) -> Step:
    """Make the bytes durable; returns what records them, in the transaction in which the job succeeds.

    What was paid for is recorded at once, and kept elsewhere if that takes long. NotStored; _Over if the
    worker had to stop before, and others record what is kept.
    """
    if calls.claim.rerunnable:
        return _recording(calls, result, _make_durable(calls, result))
    keeper = keeping.begin(calls, result)
    try:
        record_it = _recording(calls, result, _make_durable(calls, result, when_late=keeper.keep))
        unless_stopped(
            calls.watched, partial(write, calls.context, record_it), late_s=LATE_S, when_late=keeper.keep
        )
    except NotStored as error:
        known = keeper.leave()
        if known is None:
            raise _Over from error
        error.evidence += f"\n{known}"
        raise
    failpoints.hit("record.after_commit")
    keeper.forget()
    return lambda tx, now_ms: None


def _recording(calls: EngineCalls, result: HostResult, record: BlobRecord) -> Step:
    """The step that records the stored bytes as the attempt's result."""
    failpoints.hit("result.after_bytes")
    recorded = RecordedResult(record, result.media_type, result.metadata, result.duration_ms)

    def record_it(tx: Transaction, now_ms: int) -> None:
        finish.record_result(tx, calls.claim.attempt_id, recorded, now_ms=now_ms)
        failpoints.hit("record.before_commit")

    return record_it


def _make_durable(
    calls: EngineCalls, result: HostResult, *, when_late: Callable[[], object] = lambda: None
) -> BlobRecord:
    context, claim = calls.context, calls.claim
    patience_s = PATIENCE_S if claim.rerunnable else None
    began = time.perf_counter()
    record = store(context, result.content, calls.watched, patience_s=patience_s, when_late=when_late)
    took_s = time.perf_counter() - began
    tell("result.stored", claim=claim, size_bytes=record.size_bytes, ended_ms=context.clock(), took_s=took_s)
    return record


# --- settle, next ---------------------------------------------------------------------------------------


def _settle(calls: EngineCalls, record: Step, claim_next: ClaimNext) -> Claim | None:
    """Succeed, and claim the slot's next job in the same commit; if that fails, succeed alone.

    _Over: the result is good but its charge fails, so that the job is with the operator.
    """
    context, claim = calls.context, calls.claim

    def succeed(tx: Transaction, now_ms: int) -> None:
        record(tx, now_ms)
        finish.succeed(tx, context.ids, claim.attempt_id, now_ms=now_ms)
        failpoints.hit("succeed.before_commit")

    try:
        return _succeed(calls, succeed, claim_next)
    except (Stale, Swept):
        raise
    except Exception as error:
        _log.exception("job.unsettled", job_id=claim.job_id, attempt_id=claim.attempt_id)
        _hand_over(calls, record, evidence=causes(error))
        raise _Over from error


def _succeed(calls: EngineCalls, succeed: Step, claim_next: ClaimNext) -> Claim | None:
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


def _hand_over(calls: EngineCalls, record: Step, *, evidence: str) -> None:
    claim = calls.claim

    def hand_over(tx: Transaction, now_ms: int) -> None:
        record(tx, now_ms)
        finish.hand_over(
            tx, claim.attempt_id, code="unsettled", message=UNSETTLED, evidence=evidence, now_ms=now_ms
        )

    _write_end(calls.context, hand_over)
    _log.error("job.recovery_required", job_id=claim.job_id, attempt_id=claim.attempt_id)


# --- every other end ------------------------------------------------------------------------------------


def _end(calls: EngineCalls, error: Exception) -> None:
    """Make the one transition that this error means."""
    context, claim = calls.context, calls.claim
    ids = {"job_id": claim.job_id, "attempt_id": claim.attempt_id}
    cause, evidence = _cause_of(error, calls)
    if cause.what == "unforeseen":
        _log.error("attempt.unforeseen", **ids, exc_info=error)
    elif cause.reason == SET_BACK:
        why = reason(error.__cause__ or error)
        _log.error("attempt.set_back", **ids, reason=why, pause_ms=cause.pause_ms)
    _write_end(
        context,
        lambda tx, now_ms: finish.end(
            tx, context.ids, claim.attempt_id, cause, now_ms=now_ms, evidence=evidence
        ),
    )
    _log_end(cause, ids)


def _log_end(cause: Cause, ids: dict[str, str]) -> None:
    match cause.what:
        case "engine_at_fault":
            _log.warning("job.failed", **ids, code=cause.code)
        case "host_lost":
            _log.warning("attempt.failed", **ids, code=cause.code)
        case "given_back":
            _log.info("attempt.released", **ids)
        case "stopped_for_the_caller":
            _log.info("job.cancelled", **ids)
        case "outcome_unknown":
            _log.error("job.recovery_required", **ids)


def _write_end(context: WorkerContext, transition: Step) -> None:
    def end(tx: Transaction, now_ms: int) -> None:
        transition(tx, now_ms)
        failpoints.hit("ending.before_commit")

    write(context, end)
    failpoints.hit("ending.after_commit")


def _cause_of(  # noqa: PLR0911, PLR0912 (one for each error)
    error: Exception, calls: EngineCalls
) -> tuple[Cause, str | None]:
    """What this error means for the attempt, and the evidence. The job is not blamed for a fault of the
    machine, which gives it back uncounted, with a longer pause each time.

    Stale: another process has the attempt.
    """
    context, claim, watched = calls.context, calls.claim, calls.watched
    if isinstance(error, Unavailable | Swept) or is_of_the_machine(error):
        return Cause("given_back", reason=SET_BACK, pause_ms=context.setbacks.pause_ms(claim.job_id)), None
    match error:
        case Cancelled() if watched.lost:
            raise Stale
        case Cancelled() if watched.silent:
            evidence = f"the engine said nothing for {context.settings.engine_silence_s} s\n{error.evidence}"
            return Cause("host_lost", "engine_crashed", is_shared=error.shared), evidence.strip()
        case Cancelled() if watched.cancelled:
            return Cause("stopped_for_the_caller"), None
        case Cancelled():
            return Cause("given_back", reason="the worker is stopping"), None
        case HostNotReady():
            not_started: ReleaseReason = "the model's engine did not start"
            cause = Cause("given_back", reason=not_started, pause_ms=NOT_STARTED_PAUSE_MS)
        case EngineFailed():
            code = ENGINE_CODES.get(error.code, "engine_failed")
            message = error.message[:MAX_PUBLIC_CHARACTERS] if error.public else None
            is_retried = error.transient and claim.rerunnable
            cause = Cause("host_lost", code) if is_retried else Cause("engine_at_fault", code, message)
        case HostDeadline() if claim.rerunnable:
            cause = Cause("engine_at_fault", "deadline_exceeded")
        case OutcomeUnknown() | NotStored() | HostDeadline():
            cause = Cause("outcome_unknown")
        case HostLost(blame="service"):
            ended: ReleaseReason = "the engine's process was ended for another reason than this job"
            cause = Cause("given_back", reason=ended)
        case HostLost():
            cause = Cause("host_lost", "engine_crashed", is_shared=error.blame == "shared")
        case ResultInvalid():
            return Cause("engine_at_fault" if claim.rerunnable else "outcome_unknown"), str(error)
        case _:
            return Cause("unforeseen"), causes(error)
    return cause, f"{error.message}\n{error.evidence}".strip()
