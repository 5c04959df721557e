"""The rows of jobs: for each column, what sets it, when, and what happens if the process dies there.

The stores here make them, from statements that select the fields of their struct. Nothing is validated: a
damaged value is passed on as it was read, and the code that uses it checks it.
"""

import msgspec

from tenuto.file.blob import BlobRecord

AFTER_ALL = "joc"
"""Greater than any id of a job."""


class WaitingAccount(msgspec.Struct, frozen=True):
    """An account with work in a lane, in the order of turns."""

    account_id: str
    served: int | None
    """The number of its last turn, given by the claim that served it; null for an account that had none."""


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
