"""The rows of a job and its attempts as evidence shows them: for each column, what sets it, and when.

Nothing is validated: a damaged value is passed on as it was read.
"""

import msgspec


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
