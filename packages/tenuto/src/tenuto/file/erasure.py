"""Erasing artifacts: the row stays, marked as erased, and the bytes are condemned. Knows no permissions."""

import json
import time
from typing import Any

from tenuto import failpoints
from tenuto.db.damaged_text import decoded_json
from tenuto.db.database import Database, Transaction
from tenuto.errors import StorageFailed
from tenuto.file import store
from tenuto.file.blob import BlobStore
from tenuto.file.operations import forget_condemned
from tenuto.file.rows import HeldArtifactRow

PATIENCE_S = 10.0
"""How long failing removals may take in total: with a stalled store it would be hours."""

ABOUT_THE_MODEL = frozenset({"model_id", "model_revision", "voice_profile_version", "brought_by"})
"""The texts of a result's metadata that say how it was made; any other may quote the request."""


def find(tx: Transaction, *, account_id: str, artifact_id: str) -> HeldArtifactRow | None:
    """An artifact of this account, locked until the transaction ends."""
    return store.locked_artifact(tx, artifact_id, account_id)


def erase(tx: Transaction, artifact_id: str, *, now_ms: int) -> None:
    """Mark its content as erased; `condemn` condemns what it referred to."""
    store.erase(tx, artifact_id, now_ms)


def erase_results(tx: Transaction, job_id: str, *, now_ms: int) -> list[str]:
    """Erase all results of a job, with what their metadata may quote of the request; returns their blobs."""
    blob_ids = []
    for result in store.results(tx, job_id):
        store.erase(tx, result.id, now_ms)
        store.set_metadata(tx, result.id, _unquoted(result.metadata))
        blob_ids += [] if result.blob_id is None else [result.blob_id]
    return blob_ids


def condemn(tx: Transaction, blob_ids: list[str], *, now_ms: int) -> list[str]:
    """Condemn blobs of any age, which nothing may refer to any more; the sweep removes what is left.

    Returns those whose bytes may be removed once this is committed.
    """
    return [blob_id for blob_id in dict.fromkeys(blob_ids) if store.condemn(tx, blob_id, now_ms)]


def condemn_unused(tx: Transaction, blob_id: str, *, now_ms: int) -> list[str]:
    """The same for a blob that an open job may still need: then the end of the last one condemns it."""
    return condemn(tx, [blob_id], now_ms=now_ms) if store.is_unused(tx, blob_id) else []


def old_inputs(tx: Transaction, *, created_before: int, after: str, limit: int) -> list[tuple[str, str]]:
    """Inputs with their accounts, oldest first, starting after an id."""
    return store.old_inputs(tx, created_before, after, limit)


def inputs_of_ended(tx: Transaction, *, ended_before: int, after: str, limit: int) -> list[tuple[str, str]]:
    """Inputs sent with jobs that have ended, with their accounts, starting after an id."""
    return store.inputs_of_ended(tx, ended_before, after, limit)


class Patience:
    """How much longer failing removals may take. Several calls of `remove` may share one."""

    def __init__(self) -> None:
        self.left_s = PATIENCE_S

    def is_over(self) -> bool:
        """Whether to stop: the store is unreachable."""
        return self.left_s < 0


def remove(
    database: Database, blobs: BlobStore, blob_ids: list[str], patience: Patience | None = None
) -> list[str]:
    """Remove the bytes of condemned blobs, then their rows; returns what could not be removed.

    After a failure, the others are still tried unless patience is over. While a backup is in progress nothing
    is removed and nothing counts as failed: upkeep removes the bytes later.
    """
    if not blob_ids or database.read(store.has_backup):
        return []
    patience = patience or Patience()
    stuck: list[str] = []
    for number, blob_id in enumerate(blob_ids):
        began = time.monotonic()
        try:
            blobs.delete(blob_id)
        except StorageFailed:
            stuck.append(blob_id)
            patience.left_s -= time.monotonic() - began
            if patience.is_over():
                stuck += blob_ids[number + 1 :]
                break
    removed = [blob_id for blob_id in blob_ids if blob_id not in stuck]
    if removed:
        failpoints.hit("removal.after_bytes")
        database.write(lambda tx: forget_condemned(tx, removed))
    return stuck


def _unquoted(metadata: str) -> str:
    """Of a result's metadata, the numbers and what says how it was made."""
    members = decoded_json(metadata, dict[str, Any]) or {}
    kept = {
        name: value
        for name, value in members.items()
        if name in ABOUT_THE_MODEL or isinstance(value, bool | int | float)
    }
    return json.dumps(kept, ensure_ascii=False)
