"""How an attempt ends without a recorded result: one pure decision. No database, no clock.

`of` takes what happened (`Cause`) and how the attempt stands, and says all that `finish.end` then writes. The
order of its questions is the policy:

1. Is the engine at fault, or was a limit exceeded? The job has failed, and nothing is charged.
2. Was a paid call begun, or is a call's outcome unknown? No call is paid for twice: an operator decides. If
   the database keeps the result, nothing is decided: whoever rescues the attempt stores that result.
3. Did the caller cancel the job? It is cancelled.
4. Otherwise the job is queued again, and the cause says what is counted. After `MAX_HOSTS_LOST` lost hosts it
   fails; after `MAX_UNFORESEEN_ERRORS`, an operator decides. Lost workers never fail a job.
"""

from typing import Literal

from msgspec import Struct

from tenuto.job.states import (
    CANCELLED,
    FAILED,
    MAX_HOSTS_LOST,
    MAX_UNFORESEEN_ERRORS,
    OUTCOME_UNKNOWN,
    QUEUED,
    RECOVERY_REQUIRED,
    SENTENCES,
    UNFORESEEN,
    FailureCode,
    ReleaseReason,
    pause_ms,
)

UNFORESEEN_PAUSE_MS = 2_000

What = Literal[
    "engine_at_fault",  # Or a limit was exceeded.
    "stopped_for_the_caller",
    "given_back",  # Unharmed: the worker stops, or no engine starts.
    "host_lost",  # Or an engine's fault that may be transient.
    "unforeseen",  # An error that the worker does not know.
    "outcome_unknown",  # A metered engine cannot tell whether its call was charged.
    "worker_lost",
]


class Cause(Struct, frozen=True):
    """What ended an attempt."""

    what: What
    code: FailureCode = "engine_failed"
    """What the job fails with, if it does."""
    message: str | None = None
    """What an engine at fault wrote for the caller; None: the sentence of the code."""
    reason: ReleaseReason | None = None
    """Why the job is given back."""
    is_shared: bool = False
    """Other runs were in the lost process: the loss only makes the job run alone later."""
    pause_ms: int = 0
    """How long a job that is given back waits."""


class Fate(Struct, frozen=True):
    """What becomes of the job: its state, its event, what callers read, what is added to its counters."""

    state: str
    event: str
    detail: str | None = None
    """Of the event."""
    error_code: str | None = None
    error_message: str | None = None
    hosts_lost: int = 0
    workers_lost: int = 0
    losses_shared: int = 0
    unforeseen_errors: int = 0
    pause_ms: int = 0


_AFTER_A_PAID_CALL = {
    "stopped_for_the_caller": "the engine was stopped"
    " after the metered call was begun; its outcome is unknown",
    "given_back": "given back after the fence: {reason}",
    "worker_lost": "the worker was lost after the metered call was begun; its outcome is unknown",
    "unforeseen": UNFORESEEN,
}
"""Why an operator decides, by what ended the attempt; otherwise OUTCOME_UNKNOWN."""

_MAY_BE_KEPT = frozenset({"unforeseen", "outcome_unknown", "worker_lost"})
"""The causes that can come after a result was made, and so after the database began to keep it."""


def of(  # noqa: PLR0911 (one for each fate)
    cause: Cause,
    *,
    is_paid: bool,
    is_kept: bool,
    is_cancelled: bool,
    hosts_lost: int,
    unforeseen_errors: int,
    workers_lost: int,
) -> Fate | None:
    """What becomes of the attempt; None: nothing, as whoever rescues it stores the result that is kept.

    `is_paid`: its metered call was begun. The counters are those of the job's earlier attempts.
    """
    what = cause.what
    if what == "engine_at_fault":
        return _failed(cause.code, cause.message or SENTENCES[cause.code])
    if is_paid and is_kept and what in _MAY_BE_KEPT:
        return None
    if is_paid or what == "outcome_unknown":
        return _recovery(cause)
    if is_cancelled or what == "stopped_for_the_caller":
        return Fate(CANCELLED, "cancelled")
    if what == "given_back":
        return Fate(QUEUED, "released", cause.reason, pause_ms=cause.pause_ms)
    if what == "worker_lost":
        return Fate(QUEUED, "worker_lost", workers_lost=1, pause_ms=pause_ms(workers_lost + 1))
    if what == "unforeseen":
        if unforeseen_errors + 1 >= MAX_UNFORESEEN_ERRORS:
            return _recovery(cause)
        return Fate(QUEUED, "unforeseen", UNFORESEEN, unforeseen_errors=1, pause_ms=UNFORESEEN_PAUSE_MS)
    if cause.is_shared:
        return Fate(QUEUED, "host_lost", cause.code, losses_shared=1)
    if hosts_lost + 1 >= MAX_HOSTS_LOST:
        return _failed(cause.code, f"{SENTENCES[cause.code]} It was tried {hosts_lost + 1} times.")
    return Fate(QUEUED, "host_lost", cause.code, hosts_lost=1)


def recovery(code: str, message: str) -> Fate:
    """An operator decides, for this reason."""
    return Fate(RECOVERY_REQUIRED, "recovery_required", message, code, message)


def _recovery(cause: Cause) -> Fate:
    message = _AFTER_A_PAID_CALL.get(cause.what, OUTCOME_UNKNOWN).format(reason=cause.reason)
    return recovery("unforeseen" if cause.what == "unforeseen" else "outcome_unknown", message)


def _failed(code: FailureCode, message: str) -> Fate:
    return Fate(FAILED, "failed", code, code, message)
