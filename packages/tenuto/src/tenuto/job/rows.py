"""The rows of jobs: for each column, what sets it, when, and what happens if the process dies there.

The stores here make them, from statements that select the fields of their struct. Nothing is validated: a
damaged value is passed on as it was read, and the code that uses it checks it.
"""

import msgspec

from tenuto.file.blob import BlobRecord


class JobRow(msgspec.Struct, frozen=True):
    """A job: what was accepted, frozen, and what became of it. The row stays; only content is erased."""

    id: str
    """Made by `submit`; ids rise with time, and order the queue."""
    account_id: str
    """Whose job it is; frozen at acceptance."""
    key_id: str
    """The API key that submitted it; frozen at acceptance, although the key may have been revoked since."""
    kind: str
    """`speech`, `recognition` or `image`; frozen at acceptance."""
    model: str
    """The full name; frozen at acceptance, although the catalog may no longer have it."""
    lane: str
    """The lane whose slots it takes; frozen at acceptance."""
    state: str
    """See `states`: every change is one conditional update in one transaction with its event, so that a crash
    leaves either the old state or the new one."""
    body: str
    """The accepted body, verbatim; empty once it is erased."""
    parameters: str
    """JSON object: what the engine gets, every default and reference resolved at acceptance; `{}` once it is
    erased."""
    metadata: str
    """The caller's own JSON object; frozen at acceptance."""
    input_artifact_ids: str
    """JSON array; frozen at acceptance."""
    characters: int
    """Length of the text to speak; frozen at acceptance, because the text may be erased."""
    rerunnable: int
    """1: it may be run again after a lost outcome; 0: calls are metered. Frozen at acceptance."""
    hold_micros: int
    """What was held at acceptance, in its transaction; freed by the settlement or the void that ends it."""
    price_micros: int
    """The price at acceptance, per `price_unit`; later prices do not affect it."""
    price_unit: str
    """`job` or `audio_minute`."""
    charged_micros: int | None
    """Set with `succeeded` and the settlement, in one transaction; null before, and after any other end."""
    audio_ms: int | None
    """How much audio it made or recognised, 0 for none; set with `succeeded`, from its attempt, else null."""
    created_at: int
    deadline_at: int
    """14 days after acceptance; upkeep fails a queued job that is past it, the worker a running one."""
    not_before_at: int
    """No claim takes it before this time; set when it is queued again after a loss or a fault, else 0."""
    started_at: int | None
    """When its first attempt was claimed."""
    finished_at: int | None
    """When it became final."""
    attempts: int
    """Claims so far: each increments it, in its transaction."""
    hosts_lost: int
    """Attempts whose host died, or whose engine could not for now; incremented when it is queued again. The
    third is the last."""
    workers_lost: int
    """Attempts whose worker was lost, without limit; incremented by the rescue. Determines the pause."""
    losses_shared: int
    """Hosts lost while other runs were in them: from two on, it runs alone."""
    unforeseen_errors: int
    """Attempts that met an error that the worker does not know; incremented when it is queued again. The
    third is the last."""
    attempt_id: str | None
    """The fence: the newest attempt, set by the claim, kept when the job ends. No other attempt may write
    anything."""
    artifact_id: str | None
    """The result; set with `succeeded`."""
    error_code: str | None
    """Why it failed or waits for an operator; set with that state, null again when it is queued again."""
    error_message: str | None
    """The sentence for that code."""
    cancel_requested_at: int | None
    """When the caller cancelled it; a running attempt learns of it with its next heartbeat, and the rescue
    cancels the job if the worker dies first."""
    event_sequence: int
    """The number of its newest event: incremented by every transition, in its transaction."""
    erased_at: int | None
    """When its content was erased, by its owner or the retention; the row, the key and the ledger stay."""
    title: str | None
    """What its caller recognises it by; frozen at acceptance, empty once erased. Null: an earlier version
    accepted it, and upkeep has not added a title yet."""
    search_text: str | None
    """The text that searches go through; otherwise as `title`."""
    voice_id: str | None
    """The voice that was requested; frozen at acceptance."""
    traceparent: str | None
    """The `traceparent` that its caller sent; frozen at acceptance, null if none was sent."""


class AttemptRow(msgspec.Struct, frozen=True):
    """One run of a job by one worker."""

    id: str
    """Made by the claim."""
    job_id: str
    number: int
    """1 for the job's first; set by the claim."""
    worker_id: str
    """The worker that claimed it. If it dies, the upkeep of another one ends the attempt."""
    state: str
    """`running` from the claim on; `recorded` when the result is durable; `ended`: nothing more happens."""
    outcome: str | None
    """How it ended; null before. `unknown`: a late result may still be recorded."""
    beat: int
    """Incremented by the worker's heartbeat; if it stops while a rescuer watches, the worker is dead."""
    progress: str | None
    """JSON object: the newest progress, written with a heartbeat. If the worker dies, it stays as it was."""
    fenced_at: int | None
    """Set, and committed, before a metered engine is called: after that, a lost outcome is never rerun."""
    blob_id: str | None
    """The recorded result, whose bytes are already durable; null before that and once it is erased."""
    media_type: str | None
    """Of the recorded result."""
    result_metadata: str | None
    """JSON object of the recorded result."""
    duration_ms: int | None
    """Of the recorded result, as it is charged; null where there is nothing to measure."""
    evidence: str | None
    """What an operator needs to know about a bad end; null once the content is erased."""
    started_at: int
    """When it was claimed."""
    ended_at: int | None
    """When it became `ended`."""
    machine: str | None
    """Of the worker, copied by the claim: the worker's own row is eventually removed."""
    pid: int | None
    """Of the worker, likewise."""
    heard_at: int | None
    """When the worker last reported, by its own clock; for display only, nothing depends on it."""


class FencedAttempt(msgspec.Struct, frozen=True):
    """An attempt and columns of its job, both locked: all that a transition depends on. See above."""

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
    unforeseen_errors: int
    workers_lost: int


class AttemptKeys(msgspec.Struct, frozen=True):
    """What identifies an attempt and its job, both locked: enough where nothing else can be read."""

    id: str
    job_id: str
    job_state: str
    job_attempt_id: str | None


class JobWork(msgspec.Struct, frozen=True):
    """What a worker needs to know about a job that it claims; columns as in `JobRow`, not yet checked."""

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
    """Returned when the request to cancel a running job is recorded."""

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
    """A slot of a lane; workers add and remove slots when they start, as the settings say."""

    number: int
    job_id: str | None
    """The job that runs in it, set by the claim; null again when its attempt ends, for whatever reason."""


class OpenAttempt(msgspec.Struct, frozen=True):
    """An attempt that is not over, and what is known about its worker."""

    attempt_id: str
    job_id: str
    worker_id: str
    beat: int
    machine: str | None
    """Null, like the lock, when the worker's row was removed meanwhile."""
    lock_name: str | None


class BoundKey(msgspec.Struct, frozen=True):
    """An idempotency key of an API key: bound with its job, in one transaction, and never released."""

    body_sha256: str
    """Of the body's value: the same key with another digest is a conflict."""
    job_id: str


class NewestKey(msgspec.Struct, frozen=True):
    """The last of several idempotency keys in their order, and the job that it made."""

    idempotency_key: str
    job_id: str


class FreeSlot(msgspec.Struct, frozen=True):
    """A slot in which nothing runs."""

    number: int


class Counted(msgspec.Struct, frozen=True):
    """How many rows there are, up to the limit of the count."""

    number: int


class CallerJobRow(msgspec.Struct, frozen=True):
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
    """Of the result, like all below; null where `artifact_id` is null."""
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
    """The operator who decided; null where none did. Callers do not see it."""
    note: str | None
    """Why, in the operator's words; for operators only."""


class ChunkKey(msgspec.Struct, frozen=True):
    """Identifies a chunk of a recording: for which transcript, which span of samples, by which engine."""

    role: str
    number: int
    start_frame: int
    end_frame: int
    model_id: str
    model_revision: str


class NewSegment(msgspec.Struct, frozen=True):
    """A segment whose bytes are durable, before its row is written."""

    segment_id: str
    sequence: int
    blob: BlobRecord
    duration_ms: int


class Segment(msgspec.Struct, frozen=True):
    """A piece of speech, as callers see it: written once its bytes are durable, while its job runs."""

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
