"""Inputs: what callers upload for recognition. Checks the quota, records inputs and finds them.

The bytes have been admitted by `uploads`; a row here says that they are durable and sound.
"""

from collections.abc import Callable, Sequence

import msgspec

from tenuto.db.damaged_text import decoded_json, sound_json, text_of
from tenuto.db.database import Transaction
from tenuto.errors import ArtifactUnavailable, Erased, NotFound, RateLimited
from tenuto.file import operations, store
from tenuto.file.blob import BlobRecord
from tenuto.file.rows import InputRow
from tenuto.ids import Ids, is_id
from tenuto.logs import get_logger
from tenuto.media.flac import FlacSummary

INPUT_MEDIA_TYPE = "audio/flac"
MAX_INPUT_BYTES = 268_435_456
MAX_INPUT_SECONDS = 7200
FULL_RETRY_S = 120

_log = get_logger("tenuto.artifacts")


class Input(msgspec.Struct, frozen=True):
    """An input as its caller sees it."""

    id: str
    media_type: str
    size_bytes: int
    sha256: str
    metadata: msgspec.Raw
    created_at: int
    name: str | None
    object: str = "artifact"


class Measured(msgspec.Struct, frozen=True):
    """Measurements of an upload, made when its bytes were admitted; stored as its metadata."""

    duration_ms: int
    sample_rate: int
    channels: int


class Bound(msgspec.Struct, frozen=True):
    """The facts about its input that a job freezes."""

    artifact_id: str
    blob_id: str
    duration_ms: int
    sample_rate: int
    channels: int
    name: str | None = None
    """The name of the caller's file: for the job's title, not for its attempts."""

    def frozen(self) -> dict[str, str | int]:
        """What an attempt needs, and no more: a worker of an earlier version refuses other fields."""
        return {
            "artifact_id": self.artifact_id,
            "blob_id": self.blob_id,
            "duration_ms": self.duration_ms,
            "sample_rate": self.sample_rate,
            "channels": self.channels,
        }


def check_quota(
    tx: Transaction, account_id: str, *, size_bytes: int, limit_bytes: int, limit_files: int
) -> None:
    """Raise RateLimited if this would exceed the account's storage limits; a limit of 0 means unlimited."""
    stored = store.stored(tx, account_id)
    if limit_files and stored.files >= limit_files:
        message = f"this account stores {limit_files} uploads, its limit; erase inputs or delete voices"
        raise RateLimited(message, retry_after_s=FULL_RETRY_S, limit="stored_files")
    if limit_bytes and stored.bytes + size_bytes > limit_bytes:
        limit = f"{limit_bytes >> 20} MiB"
        message = f"this account has reached its storage limit ({limit}); erase inputs or delete voices"
        raise RateLimited(message, retry_after_s=FULL_RETRY_S, limit="stored_mib")


def add_input(
    tx: Transaction,
    ids: Ids,
    *,
    account_id: str,
    media_type: str,
    blob: BlobRecord,
    summary: FlacSummary,
    name: str | None = None,
    artifact_id: str | None = None,
    now_ms: int,
) -> str:
    """Record an upload whose bytes are durable and were admitted; returns its id. `name`: of the file.

    `artifact_id` is given if something else that is recorded with the input already names it.
    """
    operations.add_blob(tx, blob, now_ms=now_ms)
    artifact_id = artifact_id or ids.new("artifact")
    measured = Measured(summary.duration_ms, summary.sample_rate, summary.channels)
    usable = store.usable_blob(tx, blob.blob_id)
    assert usable is not None, "it was added just now"
    store.add_artifact(
        tx,
        artifact_id,
        account_id=account_id,
        job_id=None,
        media_type=media_type,
        blob=usable,
        metadata=msgspec.json.encode(measured).decode(),
        name=name,
        now_ms=now_ms,
    )
    return artifact_id


def send_with_job(tx: Transaction, artifact_ids: Sequence[str], *, job_id: str) -> None:
    """Mark inputs that came in one request with the job: they are erased some time after it has ended."""
    for artifact_id in artifact_ids:
        store.send_with_job(tx, artifact_id, job_id)


def get_input(tx: Transaction, *, account_id: str, artifact_id: str) -> Input:
    """The input. NotFound for other accounts' ids exactly as for missing ones."""
    return _shown(_own(tx, account_id, artifact_id))


def uploaded(tx: Transaction, *, account_id: str, artifact_id: str) -> Input:
    """An input that an earlier upload made. Erased: its bytes are gone, so no job could name it."""
    own = _own(tx, account_id, artifact_id)
    if own.erased_at is not None:
        raise Erased("the recording that this Idempotency-Key uploaded was erased; send it under a new key")
    return _shown(own)


def is_usable(tx: Transaction, *, account_id: str, artifact_id: str, media_type: str) -> bool:
    """Whether a job of this account may name it: an upload of its own, of this type, not erased."""
    return _usable(tx, account_id, artifact_id, media_type, store.input_artifact) is not None


def bind_input(tx: Transaction, *, account_id: str, artifact_id: str, media_type: str) -> Bound | None:
    """What a job freezes of its input, locked until the transaction ends; None if it can't be used."""
    own = _usable(tx, account_id, artifact_id, media_type, store.locked_input)
    if own is None:
        return None
    measured = decoded_json(own.metadata, Measured)
    if measured is None or own.blob_id is None:
        _log.error("record.damaged", id=artifact_id, column="blob_id" if measured else "metadata")
        raise ArtifactUnavailable(f"the record of {artifact_id} is damaged")
    return Bound(
        artifact_id=artifact_id,
        blob_id=own.blob_id,
        duration_ms=measured.duration_ms,
        sample_rate=measured.sample_rate,
        channels=measured.channels,
        name=own.name,
    )


def _usable(
    tx: Transaction,
    account_id: str,
    artifact_id: str,
    media_type: str,
    find: Callable[[Transaction, str, str], InputRow | None],
) -> InputRow | None:
    if not is_id(artifact_id, "artifact"):
        return None
    own = find(tx, artifact_id, account_id)
    if own is None or own.erased_at is not None or own.media_type != media_type:
        return None
    return own


def _own(tx: Transaction, account_id: str, artifact_id: str) -> InputRow:
    own = store.input_artifact(tx, artifact_id, account_id)
    if own is None:
        raise NotFound
    return own


def _shown(own: InputRow) -> Input:
    return Input(
        id=own.id,
        media_type=own.media_type,
        size_bytes=own.size_bytes,
        sha256=own.sha256,
        metadata=sound_json(own.metadata, "{}", of=own.id, column="metadata"),
        created_at=own.created_at // 1000,
        name=text_of(own.name),
    )
