"""Inputs: what callers upload for recognition. How much an account may store, recording one, finding it.

The bytes are admitted before (`admission`); a row here says that they are durable and sound.
"""

import json
from typing import Any

import msgspec

from tenuto.artifacts import operations, store
from tenuto.blobs.blob import BlobRecord
from tenuto.db.database import Row, Transaction
from tenuto.errors import Erased, NotFound, RateLimited
from tenuto.ids import Ids, is_id
from tenuto.media.decoding import Decoded

FULL_RETRY_S = 120


class Input(msgspec.Struct, frozen=True):
    """An input as its caller sees it."""

    id: str
    media_type: str
    size_bytes: int
    sha256: str
    metadata: msgspec.Raw
    created_at: int
    object: str = "artifact"


class Bound(msgspec.Struct, frozen=True):
    """What a job freezes of its input."""

    artifact_id: str
    blob_id: str
    duration_ms: int
    sample_rate: int
    channels: int


def check_room(tx: Transaction, account_id: str, *, size_bytes: int, limit_bytes: int) -> None:
    """RateLimited when the account would then store more than it may; a limit of 0 is none."""
    if limit_bytes and store.stored_bytes(tx, account_id) + size_bytes > limit_bytes:
        limit = f"{limit_bytes >> 20} MiB"
        message = f"this account stores as much as it may ({limit}); erase inputs or delete voices"
        raise RateLimited(message, retry_after_s=FULL_RETRY_S, limit="stored_mib")


def add_input(
    tx: Transaction,
    ids: Ids,
    *,
    account_id: str,
    media_type: str,
    blob: BlobRecord,
    decoded: Decoded,
    now_ms: int,
) -> str:
    """Record an upload whose bytes are durable and were admitted; gives its id."""
    operations.add_blob(tx, blob, now_ms=now_ms)
    artifact_id = ids.new("artifact")
    metadata = {
        "duration_ms": decoded.duration_ms,
        "sample_rate": decoded.sample_rate,
        "channels": decoded.channels,
    }
    row = store.usable_blob(tx, blob.blob_id)
    assert row is not None, "it was added just now"
    store.add_artifact(
        tx,
        artifact_id,
        account_id=account_id,
        job_id=None,
        media_type=media_type,
        blob=row,
        metadata=json.dumps(metadata),
        now_ms=now_ms,
    )
    return artifact_id


def get_input(tx: Transaction, *, account_id: str, artifact_id: str) -> Input:
    """The input. NotFound for foreign ids exactly as for missing ones."""
    return _shown(_found(tx, account_id, artifact_id))


def uploaded(tx: Transaction, *, account_id: str, artifact_id: str) -> Input:
    """An input that an upload made before. Erased: its bytes are gone, so no job could name it."""
    row = _found(tx, account_id, artifact_id)
    if row["erased_at"] is not None:
        raise Erased("the recording that this Idempotency-Key uploaded was erased; send it under a new key")
    return _shown(row)


def is_usable(tx: Transaction, *, account_id: str, artifact_id: str, media_type: str) -> bool:
    """Whether a job of this account may name it: its own upload, of this type, not erased, no result."""
    return _usable(tx, account_id, artifact_id, media_type, store.input_artifact) is not None


def bind_input(tx: Transaction, *, account_id: str, artifact_id: str, media_type: str) -> Bound | None:
    """What a job freezes of its input, locked until the transaction ends; None when it can't be used."""
    row = _usable(tx, account_id, artifact_id, media_type, store.locked_input)
    if row is None:
        return None
    about: dict[str, Any] = json.loads(row["metadata"])
    return Bound(
        artifact_id=row["id"],
        blob_id=row["blob_id"],
        duration_ms=about["duration_ms"],
        sample_rate=about["sample_rate"],
        channels=about["channels"],
    )


def _usable(tx: Transaction, account_id: str, artifact_id: str, media_type: str, look: Any) -> Row | None:
    if not is_id(artifact_id, "artifact"):
        return None
    row: Row | None = look(tx, artifact_id, account_id)
    if row is None or row["erased_at"] is not None or row["media_type"] != media_type:
        return None
    return row


def _found(tx: Transaction, account_id: str, artifact_id: str) -> Row:
    row = store.input_artifact(tx, artifact_id, account_id)
    if row is None:
        raise NotFound
    return row


def _shown(row: Row) -> Input:
    return Input(
        id=row["id"],
        media_type=row["media_type"],
        size_bytes=row["size_bytes"],
        sha256=row["sha256"],
        metadata=msgspec.Raw(row["metadata"].encode()),
        created_at=row["created_at"] // 1000,
    )
