"""The rows of jobs, with a sentence for each column: who sets it, when, and what if the process dies there.

The stores here make them, from statements that select the fields of their struct. Nothing is validated: a
damaged value is passed on as it was read, and whoever needs it checks it.
"""

import datetime

import msgspec

from tenuto.blobs.blob import BlobRecord

DAY_MS = 24 * 3600 * 1000


class JobRow(msgspec.Struct, frozen=True):
    """A job: what was accepted, frozen, then what became of it. The row stays; only content is erased."""

    id: str
    """Made by `submit`; ids rise with time, and order the queue."""
    account_id: str
    """Whose job it is; frozen at acceptance."""
    key_id: str
    """The API key that submitted it; frozen at acceptance, the key may be revoked since."""
    kind: str
    """`speech`, `recognition` or `image`; frozen at acceptance."""
    model: str
    """The full name; frozen at acceptance, the catalog may not have it any more."""
    lane: str
    """Whose slots it takes; frozen at acceptance."""
    state: str
    """See `states`: every change is one conditional update in one transaction with its event, so that a death
    leaves the state before or the state after."""
    body: str
    """The accepted body, verbatim; empty once it is erased."""
    parameters: str
    """JSON object: what the engine gets, every default and reference resolved at acceptance; `{}` once it is
    erased."""
    metadata: str
    """JSON object of the caller's own; frozen at acceptance."""
    input_artifact_ids: str
    """JSON array; frozen at acceptance."""
    characters: int
    """How much there is to speak; frozen at acceptance, for the text may be erased."""
    rerunnable: int
    """1: its engine may run again after a lost outcome; 0: a call is metered. Frozen at acceptance."""
    hold_micros: int
    """What was held at acceptance, in its transaction; freed by the settlement or the void that ends it."""
    price_micros: int
    """The price at acceptance, by `price_unit`; later prices do not touch it."""
    price_unit: str
    """`job` or `audio_minute`."""
    charged_micros: int | None
    """Set with `succeeded` and the settlement, in one transaction; null until then and in every other end."""
    audio_ms: int | None
    """How much audio it made or recognised, 0 for none; set with `succeeded`, from its attempt, else null."""
    created_at: int
    deadline_at: int
    """14 days after acceptance; upkeep fails a queued job that is past it, the worker a running one."""
    not_before_at: int
    """No claim takes it before; set when it is queued again after losses or setbacks, else 0."""
    started_at: int | None
    """When its first attempt was claimed."""
    finished_at: int | None
    """When it became final."""
    attempts: int
    """Claims so far: raised by each, in its transaction."""
    hosts_lost: int
    """Attempts whose host died, or that met what nobody foresaw; raised when it is queued again. The third is
    the last."""
    workers_lost: int
    """Attempts whose worker was lost, without limit; raised by the rescue. They set how long it pauses."""
    losses_shared: int
    """Hosts lost together with other runs: from two on it runs alone."""
    attempt_id: str | None
    """The fence: the newest attempt, set by the claim, kept when the job ends. Whoever is not named here may
    write nothing."""
    artifact_id: str | None
    """The result; set with `succeeded`."""
    error_code: str | None
    """Why it failed, or waits for its operator; set with that state, null again when it is queued again."""
    error_message: str | None
    """The sentence for it."""
    cancel_requested_at: int | None
    """When the caller cancelled it; a running attempt learns of it with its next beat, and the rescue cancels
    the job if the worker dies before."""
    event_sequence: int
    """The number of its newest event: raised by every transition, in its transaction."""
    erased_at: int | None
    """When its content was erased, by its owner or the retention; the row, the key and the ledger stay."""
    title: str | None
    """What its caller recognises it by; frozen at acceptance, empty once erased. Null: an earlier version
    accepted it, and upkeep has not named it yet."""
    search_text: str | None
    """What searches look through, as `title`."""
    voice_id: str | None
    """The voice that was asked for; frozen at acceptance."""
    traceparent: str | None
    """Its caller's trace, as `traceparent` names one; frozen at acceptance, null if none came."""


class AttemptRow(msgspec.Struct, frozen=True):
    """One run of a job by one worker."""

    id: str
    """Made by the claim."""
    job_id: str
    number: int
    """1 for the job's first; set by the claim."""
    worker_id: str
    """Who claimed it. If that worker dies, upkeep of another one ends the attempt."""
    state: str
    """`running` from the claim on; `recorded` when the result is durable; `ended`: nothing more happens."""
    outcome: str | None
    """How it ended; null before. `unknown`: a late result may still be recorded."""
    beat: int
    """Raised by the worker's heartbeat; if it stands still while a rescuer watches, the worker is dead."""
    progress: str | None
    """JSON object: the newest progress, written with a beat. If the worker dies it stays as it was."""
    fenced_at: int | None
    """Set, and committed, before a metered engine is called: from here on a lost outcome is not run again."""
    blob_id: str | None
    """The recorded result, whose bytes were durable before; null before it and once it is erased."""
    media_type: str | None
    """Of the recorded result."""
    result_metadata: str | None
    """JSON object of the recorded result."""
    duration_ms: int | None
    """Of the recorded result, as it is charged; null where there is nothing to measure."""
    evidence: str | None
    """What an operator needs to know of a bad end; null once the content is erased."""
    started_at: int
    """When it was claimed."""
    ended_at: int | None
    """When it became `ended`."""
    machine: str | None
    """Of the worker, copied by the claim: the worker's own row is forgotten in time."""
    pid: int | None
    """Of the worker, likewise."""
    heard_at: int | None
    """When the worker last reported, by its own clock; for display only, nothing depends on it."""


class FencedAttempt(msgspec.Struct, frozen=True):
    """An attempt and what its job froze, both locked: all that a transition decides by. See above."""

    id: str
    job_id: str
    state: str
    beat: int
    fenced_at: int | None
    blob_id: str | None
    media_type: str | None
    result_metadata: str | None
    duration_ms: int | None
    job_state: str
    job_attempt_id: str | None
    """The fence: the attempt that the job names."""
    account_id: str
    hold_micros: int
    price_micros: int
    price_unit: str
    cancel_requested_at: int | None
    hosts_lost: int
    workers_lost: int


class AttemptKeys(msgspec.Struct, frozen=True):
    """An attempt and its job, locked, by what identifies them: enough where nothing else can be read."""

    id: str
    job_id: str
    job_state: str
    job_attempt_id: str | None


class JobWork(msgspec.Struct, frozen=True):
    """What a worker needs to know of a job that it claims; each column as in `JobRow`, and not yet judged."""

    kind: str
    model: str
    parameters: str
    input_artifact_ids: str
    rerunnable: int
    deadline_at: int
    losses_shared: int
    traceparent: str | None


class Started(msgspec.Struct, frozen=True):
    """What a claim's update of the job returns."""

    event_sequence: int
    attempts: int


class OwnedJob(msgspec.Struct, frozen=True):
    """A job of the caller's, locked: enough to decide whether it can be cancelled or erased."""

    id: str
    model: str
    state: str
    attempt_id: str | None


class CancelNoted(msgspec.Struct, frozen=True):
    """What noting the request to cancel a running job returns."""

    event_sequence: int
    attempt_id: str | None


class WaitingJob(msgspec.Struct, frozen=True):
    """A job in `recovery_required`, as operators see it in a list; each column as in `JobRow`."""

    id: str
    kind: str
    model: str
    account_id: str
    account_name: str
    created_at: int
    started_at: int | None
    attempts: int
    hold_micros: int
    error_code: str | None
    error_message: str | None


class WaitingAccount(msgspec.Struct, frozen=True):
    """An account with work in a lane, in the order of turns."""

    account_id: str
    served: int | None
    """The number of its last turn, given by the claim that served it; null for an account that had none."""


class SlotRow(msgspec.Struct, frozen=True):
    """A slot of a lane: made and taken away by workers as they start, as the settings say."""

    number: int
    job_id: str | None
    """The job that runs in it, set by the claim; null again with the end of its attempt, whoever ends it."""


class OpenAttempt(msgspec.Struct, frozen=True):
    """An attempt that is not over, and what is known of its worker."""

    attempt_id: str
    job_id: str
    worker_id: str
    beat: int
    machine: str | None
    """Null, as the lock, when the worker was forgotten meanwhile."""
    lock_name: str | None


class BoundKey(msgspec.Struct, frozen=True):
    """An idempotency key of an API key: bound with its job, in one transaction, and never released."""

    body_sha256: str
    """Of the body's value: the same key with another one is a conflict."""
    job_id: str


class NewestKey(msgspec.Struct, frozen=True):
    """The idempotency key that was bound last among several, and the job that it made."""

    idempotency_key: str
    job_id: str


class FreeSlot(msgspec.Struct, frozen=True):
    """A slot in which nothing runs."""

    number: int


class Counted(msgspec.Struct, frozen=True):
    """How many rows there are, up to the limit of the count."""

    number: int


class OperationRow(msgspec.Struct, frozen=True):
    """What callers see of a job, its newest attempt and its result; each column as in its own table."""

    id: str
    kind: str
    model: str
    lane: str
    state: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    attempts: int
    artifact_id: str | None
    hold_micros: int
    charged_micros: int | None
    metadata: str
    input_artifact_ids: str
    error_code: str | None
    error_message: str | None
    cancel_requested_at: int | None
    erased_at: int | None
    title: str | None
    progress: str | None
    """Of the newest attempt."""
    media_type: str | None
    """Of the result, as all below; null where `artifact_id` is."""
    size_bytes: int | None
    sha256: str | None
    artifact_metadata: str | None


class BodyRow(msgspec.Struct, frozen=True):
    """A job's accepted body; each column as in `JobRow`."""

    body: str
    model: str
    erased_at: int | None


class EventRow(msgspec.Struct, frozen=True):
    """An event of a job, written in the transaction of the transition that it reports; never changed."""

    sequence: int
    at: int
    type: str
    """One of `states.EVENTS`."""
    attempt_id: str | None
    detail: str | None
    operator: str | None
    """Who decided; null where no operator did. Callers do not see it."""
    note: str | None
    """Why, in the operator's words; for operators only."""


class ChunkKey(msgspec.Struct, frozen=True):
    """Which chunk of a recording: of whose transcript, of which span of samples, and by which engine."""

    role: str
    number: int
    start_frame: int
    end_frame: int
    model_id: str
    model_revision: str


class NewSegment(msgspec.Struct, frozen=True):
    """A segment whose bytes are durable, before its row."""

    segment_id: str
    sequence: int
    blob: BlobRecord
    duration_ms: int


class Segment(msgspec.Struct, frozen=True):
    """A piece of speech, as callers see it: written when its bytes were durable, while its job runs."""

    segment_id: str
    attempt_id: str
    sequence: int
    """From 0 without gaps within its attempt."""
    media_type: str
    size_bytes: int
    sha256: str
    duration_ms: int
    object: str = "segment"


class SegmentBytes(msgspec.Struct, frozen=True):
    """A segment and where its bytes are."""

    id: str
    media_type: str
    size_bytes: int
    sha256: str
    blob_id: str | None
    """Null once the job's content was erased."""
    block_crcs: str | None


class JobUsage(msgspec.Struct, frozen=True):
    """The succeeded jobs of one model that one key submitted on one day."""

    day_number: int
    """Since 1970, UTC."""
    model: str
    kind: str
    key_id: str
    jobs: int
    characters: int
    """Spoken, of speech."""
    audio_ms: int
    """Made by speech, recognised by recognition."""
    charged_micros: int

    @property
    def day(self) -> str:
        """As `2026-11-21`."""
        return iso_day(self.day_number)


class ChargeRow(msgspec.Struct, frozen=True):
    """What the settled jobs of one model, key or day were charged."""

    grouping: str | int
    """The model, the key's id, or the day since 1970."""
    label: str | None
    """The key's name, the model's name, or nothing for a day."""
    jobs: int
    charged_micros: int


class FinishedJobs(msgspec.Struct, frozen=True):
    """Jobs that ended in one slot of time, of one model, in one state, that waited and ran about as long."""

    slot: int
    """When they ended: how many widths of a slot after 1970."""
    entered: int
    """When they were accepted, likewise."""
    left_slot: int
    """When they started, or ended without a start."""
    model: str
    state: str
    wait_class: int
    """Between which of `read_store.CLASS_BOUNDS_MS` the time until they started lies; -1: never started."""
    run_class: int
    """The same of the time from their start to their end."""
    jobs: int
    charged_micros: int
    longest_wait_ms: int
    """Until one of them started; 0: none did. Negative if the clock was set back meanwhile."""
    longest_run_ms: int
    """The same from its start to its end."""


class QueuedPrefix(msgspec.Struct, frozen=True):
    """Jobs that wait and whose ids begin alike."""

    prefix: str
    """Characters after `job_`: the upper bits of when they came, in milliseconds. Empty: before that."""
    jobs: int


class QueuePassage(msgspec.Struct, frozen=True):
    """Jobs that entered the queue in one slot of time and left it in another."""

    entered: int
    left_slot: int
    jobs: int


class AccountLedgerLine(msgspec.Struct, frozen=True):
    """A line of the ledger with its job or call, and the key; amounts as in `billing.rows.LedgerLine`."""

    id: str
    type: str
    job_id: str | None
    call_id: str | None
    available_micros: int
    held_micros: int
    revenue_micros: int
    operator_note: str | None
    created_at: int
    model: str | None
    key_name: str | None

    @property
    def amount_micros(self) -> int:
        """What its type names, as in `billing.reads`."""
        amounts = {"hold": self.held_micros, "settle": self.revenue_micros}
        return amounts.get(self.type, self.available_micros)

    @property
    def note(self) -> str | None:
        """What the operator wrote about a credit; a note about a job is for operators alone."""
        return self.operator_note if self.job_id is None else None


def iso_day(number: int) -> str:
    """A day by its number since 1970, as `2026-11-21`."""
    return datetime.datetime.fromtimestamp(number * DAY_MS / 1000, datetime.UTC).date().isoformat()
