"""Operations on artifacts and blob rows: record, open, sweep.

The bytes themselves are in `blobs`; a row here says that they are durable.
"""

from msgspec import Struct

from tenuto.db.database import Transaction
from tenuto.errors import ArtifactUnavailable, Erased, NotFound, Stale, Swept
from tenuto.file import store
from tenuto.file.blob import BlobRecord
from tenuto.ids import Ids

ORPHAN_AGE_MS = 24 * 3600 * 1000
"""Unreferenced bytes are swept once they are older than this: far longer than any write takes."""

PAGE_BLOBS = 2_000
"""How many blob rows one transaction checks for references."""
SWEEP_BATCH = 200
SWEEP_EVERY_MS = 3600 * 1000


class Opened(Struct, frozen=True):
    """An artifact that may be sent: the values of its response headers, and where the bytes are."""

    artifact_id: str
    media_type: str
    blob: BlobRecord


def add_blob(tx: Transaction, blob: BlobRecord, *, now_ms: int) -> None:
    """Record durable bytes. Swept: they went unrecorded for too long, and may be gone."""
    if store.add_blob(tx, blob, now_ms) == 0:
        assert blob_record(tx, blob.blob_id) is None, "an id is used for one write"
        raise Swept


def add_result(
    tx: Transaction,
    ids: Ids,
    *,
    account_id: str,
    job_id: str,
    blob_id: str,
    media_type: str,
    metadata: str,
    now_ms: int,
) -> str:
    """Add the artifact of a job that succeeds in this transaction. Stale: the blob was condemned."""
    blob = store.usable_blob(tx, blob_id)
    if blob is None:
        raise Stale
    artifact_id = ids.new("artifact")
    store.add_artifact(
        tx,
        artifact_id,
        account_id=account_id,
        job_id=job_id,
        media_type=media_type,
        blob=blob,
        metadata=metadata,
        now_ms=now_ms,
    )
    return artifact_id


def open_artifact(tx: Transaction, *, account_id: str, artifact_id: str) -> Opened:
    """What a download needs. NotFound for other accounts' ids exactly as for missing ones."""
    artifact = store.artifact(tx, artifact_id, account_id)
    if artifact is None:
        raise NotFound
    if artifact.erased_at is not None:
        raise Erased
    if artifact.blob_id is None or artifact.block_crcs is None:
        raise ArtifactUnavailable(f"the record of {artifact_id} is damaged: it names no bytes")
    record = BlobRecord(artifact.blob_id, artifact.size_bytes, artifact.sha256, artifact.block_crcs)
    return Opened(artifact.id, artifact.media_type, record)


def blob_record(tx: Transaction, blob_id: str) -> BlobRecord | None:
    """The record of a blob that is not condemned."""
    return store.blob(tx, blob_id)


def begin_sweep(tx: Transaction, worker_id: str, *, now_ms: int) -> bool:
    """True for the one worker that is to sweep. A last start in the future (a wrong clock) is ignored."""
    return store.begin_sweep(tx, worker_id, began_before=now_ms - SWEEP_EVERY_MS, now_ms=now_ms) == 1


def page_of_blobs(tx: Transaction, after: str) -> str | None:
    """The last id of the page of blobs that follows this id; None: there are no more."""
    return store.page_end(tx, after, PAGE_BLOBS)


def has_orphans(tx: Transaction, *, now_ms: int, page: tuple[str, str]) -> bool:
    """Whether there is something to condemn in the page after one id and up to another."""
    return store.has_unreferenced(tx, now_ms - ORPHAN_AGE_MS, *page)


def condemn_orphans(tx: Transaction, *, now_ms: int, page: tuple[str, str | None] = ("", None)) -> int:
    """First step of the sweep: mark rows that nothing refers to; a later commit that refers to one fails.

    `page` bounds it to the blobs after one id and up to another.
    """
    after, last = page
    orphans = store.unreferenced(tx, now_ms - ORPHAN_AGE_MS, SWEEP_BATCH, after=after, last=last)
    return sum(store.condemn(tx, blob_id, now_ms) for blob_id in orphans)


def condemn_rowless(tx: Transaction, blob_ids: list[str], *, now_ms: int) -> int:
    """The same for bytes that never got a row as their writer died; returns how many were condemned."""
    return sum(store.condemn_rowless(tx, blob_id, now_ms) for blob_id in blob_ids)


def condemn_recordings(tx: Transaction, job_id: str, *, now_ms: int) -> None:
    """Once a job is final: condemn its recordings of deleted voices, unless another open job needs them."""
    store.condemn_recordings(tx, job_id, now_ms)


def condemned(tx: Transaction, *, skip: int = 0) -> list[str]:
    """Blobs whose bytes may now be removed, oldest first, without the first `skip`: those that could not be
    removed. None while a backup is in progress.
    """
    blob_ids = store.condemned(tx, SWEEP_BATCH, skip)
    # Checked afterwards: a backup that begins later has seen them condemned.
    return [] if store.has_backup(tx) else blob_ids


def forget_condemned(tx: Transaction, blob_ids: list[str]) -> None:
    """Last step, after the bytes are gone: delete the rows; those of bytes never recorded stay as marks."""
    for blob_id in blob_ids:
        if store.remove_condemned(tx, blob_id) == 0:
            store.mark_removed(tx, blob_id)


def is_known(tx: Transaction, blob_id: str) -> bool:
    """Whether the blob has a row, condemned or not; a mark of removed bytes does not count."""
    return bool(known(tx, [blob_id]))


def known(tx: Transaction, blob_ids: list[str]) -> set[str]:
    """Which of these blobs have a row, likewise."""
    return set(store.known(tx, blob_ids))


def blob_records(tx: Transaction, after: str, limit: int) -> list[BlobRecord]:
    """The blobs that are not condemned, ordered by id, starting after an id."""
    return store.blobs_after(tx, after, limit)


def users(tx: Transaction, blob_id: str) -> list[str]:
    """The artifacts, attempts, segments, voices and jobs that refer to a blob."""
    return store.users(tx, blob_id)


def recorded_blob(tx: Transaction, attempt_id: str) -> BlobRecord | None:
    """The bytes that an attempt has recorded."""
    return store.recorded_blob(tx, attempt_id)
