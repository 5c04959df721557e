"""The states of a job and the transitions between them, as data; the messages that callers read about a
failed job; an operator's decision. No database, no clock.

Every transition is one named function in `finish`, `submit`, `queue` or `recover`, and one event.
"""

from typing import Literal, NamedTuple

from msgspec import Struct

from tenuto.errors import OperatorError

QUEUED = "queued"
"""Accepted, durable, covered by a hold; waits for a slot. Set by submit, and by every end of an attempt after
which the job may run again."""

RUNNING = "running"
"""One attempt runs it, in a slot. If the worker dies, upkeep rescues the attempt."""

SUCCEEDED = "succeeded"
"""Final: the artifact is durable and verified, the charge is settled. Never changes again."""

FAILED = "failed"
"""Final: the hold is voided, `error_code` says why."""

CANCELLED = "cancelled"
"""Final: the caller asked for it in time, the hold is voided."""

RECOVERY_REQUIRED = "recovery_required"
"""The hold stays, nothing is rerun, a named operator decides. Either a metered call was made and its outcome
is unknown (the same attempt may still report its result late), or the job's record cannot be read, or its
result cannot be settled, or its worker repeatedly met an unforeseen error."""

SUBMITTING = "submitting"
"""Part of the contract; this server accepts a job in one transaction and never commits this state."""

ALL = (SUBMITTING, QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELLED, RECOVERY_REQUIRED)
FINAL = frozenset({SUCCEEDED, FAILED, CANCELLED})


class Move(NamedTuple):
    """The states that one update of a job may start from, and those that it may lead to."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def guard(self) -> str:
        """The condition of that update: if no row meets it, another transaction was first."""
        return f"state in ({', '.join(map(repr, self.before))})"


ACCEPT = Move((SUBMITTING,), (QUEUED,))
START = Move((QUEUED,), (RUNNING,))
"""By a claim."""
END_QUEUED = Move((QUEUED,), (CANCELLED, FAILED))
"""By the caller, or by the deadline."""
END_ATTEMPT = Move((RUNNING,), (QUEUED, FAILED, CANCELLED, RECOVERY_REQUIRED))
"""By whatever ended the attempt without a result: see `fate`."""
SUCCEED = Move((RUNNING, RECOVERY_REQUIRED), (SUCCEEDED,))
"""By the result of the job's own attempt, even a late one."""
DECIDE = Move((RECOVERY_REQUIRED,), (QUEUED, FAILED, CANCELLED))
"""By an operator."""

TRANSITIONS: dict[str, frozenset[str]] = {
    state: frozenset(
        after
        for move in (ACCEPT, START, END_QUEUED, END_ATTEMPT, SUCCEED, DECIDE)
        if state in move.before
        for after in move.after
    )
    for state in ALL
}

MAX_HOSTS_LOST = 3
"""After this many deaths or hangs of an engine's process under one job, the job is at fault and fails."""

MAX_UNFORESEEN_ERRORS = 3
"""After this many errors that the worker does not know, an operator decides about the job."""

MAX_LOSSES_SHARED = 2
"""After losing a process shared with other runs this many times, a job runs alone: the next loss is its own.
Shared losses never count against it."""

WORKERS_LOST_WITHOUT_PAUSE = 4
FIRST_PAUSE_MS = 1_000
MAX_PAUSE_MS = 600_000
DEADLINE_MS = 14 * 24 * 3600 * 1000
"""From acceptance to the end, for every kind (contract: 14 days)."""
LEAST_DEADLINE_MS = 1_767_225_600_000
"""The beginning of 2026. Tenuto did not exist before, so an earlier deadline is ignored: the clock of the
machine that accepted the job had not been set."""


def is_overdue(deadline_at: int, now_ms: int) -> bool:
    """Whether a deadline has passed."""
    return LEAST_DEADLINE_MS <= deadline_at <= now_ms


def pause_ms(workers_lost: int) -> int:
    """The pause of a job after losing its nth worker: none at first, then doubling up to 10 minutes."""
    over = workers_lost - WORKERS_LOST_WITHOUT_PAUSE
    return 0 if over <= 0 else min(MAX_PAUSE_MS, FIRST_PAUSE_MS << min(over - 1, 20))


EVENTS: dict[str, str] = {
    "queued": QUEUED,
    "running": RUNNING,
    "cancel_requested": RUNNING,
    "released": QUEUED,
    "host_lost": QUEUED,
    "unforeseen": QUEUED,
    "worker_lost": QUEUED,
    "succeeded": SUCCEEDED,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "recovery_required": RECOVERY_REQUIRED,
    "requeued": QUEUED,
}
"""Every type of event, and the state that a job is in after it."""


def may_follow(before: str | None, event: str) -> bool:
    """Whether an event may come next after another; `before` is None for a job's first."""
    if before is None or event == "queued":
        return before is None and event == "queued"
    if event in ("cancel_requested", "released", "host_lost", "unforeseen", "worker_lost"):
        return EVENTS[before] == RUNNING and (event, before) != ("cancel_requested", "cancel_requested")
    if event == "requeued":
        return before == RECOVERY_REQUIRED
    return EVENTS[event] in TRANSITIONS[EVENTS[before]]


# --- what callers read about a job that did not succeed -------------------------------------------------
#
# A closed set of sentences, one for each cause. An exception's text is never shown: it may contain a path,
# a secret or someone else's text. It is stored with the attempt as evidence, for operators. An engine can
# address callers only by raising `InputError`.

FailureCode = Literal[
    "engine_failed",
    "engine_crashed",
    "nothing_to_speak",
    "segment_limit",
    "input_unreadable",
    "deadline_exceeded",
    "storage_failed",
]

ENGINE_CODES: dict[str, FailureCode] = {
    "nothing_to_speak": "nothing_to_speak",
    "segment_limit": "segment_limit",
    "input_unreadable": "input_unreadable",
}
"""Codes that an engine may give; any other becomes engine_failed."""

SENTENCES: dict[FailureCode, str] = {
    "engine_failed": "The model's engine could not do this job; its operator can see why.",
    "engine_crashed": "The process of the model's engine ended or hung during this job.",
    "nothing_to_speak": "The text has nothing that can be spoken in its `lang`.",
    "segment_limit": "The preview has more or larger segments than are kept; submit it without `stream`.",
    "input_unreadable": "A stored input of this job could not be read.",
    "deadline_exceeded": "The job did not end before its deadline of 14 days.",
    "storage_failed": "The result could not be stored.",
}

OUTCOME_UNKNOWN = (
    "A call that may have been charged was made, and its outcome is unknown; the operator decides."
)

UNFORESEEN = "The worker could not carry out the job because of an unforeseen error."

UNSETTLED = "The result was recorded, but could not be settled."

ReleaseReason = Literal[
    "the model's engine did not start",
    "the worker is stopping",
    "the engine's process was ended for another reason than this job",
    "the worker's machine could not do it just now; the job is tried again",
]
"""Why a running job was returned to the queue unharmed."""


MAX_DECISION_CHARACTERS = 1000


class Decision(Struct, frozen=True):
    """An operator's decision: who made it, and why. OperatorError: no name, or a text that is too long."""

    operator: str
    note: str | None = None
    entry_id: str | None = None
    """The ledger line that it writes, so that a decision repeated after a lost response takes effect once.
    Every edge makes it before the operation; None: a new one each time."""

    def __post_init__(self) -> None:
        if not self.operator.strip():
            raise OperatorError("say who decides: --operator NAME")
        for name, text in (("the operator's name", self.operator), ("the note", self.note or "")):
            if len(text) > MAX_DECISION_CHARACTERS or "\0" in text:
                raise OperatorError(
                    f"{name} may have at most {MAX_DECISION_CHARACTERS} characters, and no NUL"
                )

    def as_note(self, done: str) -> str:
        """The note for the ledger."""
        return f"{done} by {self.operator}" + (f": {self.note}" if self.note else "")
