"""Uploads: bytes stored and inspected in one pass, and the same record for the same `Idempotency-Key`.

Whether the record is an input or a voice is not known here; a digest of the whole request distinguishes
uploads, so one key never serves two kinds of them. Nothing is kept of an upload that is refused.
"""

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from tenuto.db.database import Transaction
from tenuto.errors import ChecksumMismatch, Fault, IdempotencyConflict, InvalidRequest, StorageFailed
from tenuto.file import store
from tenuto.file.blob import BlobRecord, BlobStore
from tenuto.media.flac import FlacInvalid, FlacSummary, Inspection

PIECE_BYTES = 64 * 1024
"""Inspected at a time: takes 0.2 ms of CPU time for a recording, 20 ms for frames of a few samples."""
DENSE_S = 0.002
"""A piece that takes longer is dense: few files are, unless they were made to overload the service."""
REST_FACTOR = 3
"""A dense piece is followed by a pause this many times as long as its inspection."""

_resting = threading.Lock()
"""Held during a pause: all dense uploads together take at most a third of the interpreter."""


def admit_flac(
    blobs: BlobStore, blob_id: str, blocks: Iterable[bytes], *, expected_sha256: str | None
) -> tuple[BlobRecord, FlacSummary]:
    """Store the bytes and inspect them, in a thread of the upload's own.

    What `blocks` raises is passed on, and nothing is stored then. `expected_sha256`: as the caller gave it.

    Raises ChecksumMismatch, InvalidRequest (what is wrong with the FLAC), StorageFailed.
    """
    inspection = Inspection()
    record = blobs.write(blob_id, _inspected(blocks, inspection))
    with _nothing_kept(blobs, blob_id):
        if expected_sha256 is not None and record.sha256 != expected_sha256:
            raise ChecksumMismatch
        try:
            return record, inspection.finish()
        except FlacInvalid as error:
            message = f"the file is not a FLAC that is accepted: {error}"
            raise InvalidRequest([Fault("body", "invalid_recording", message)]) from error


def request_sha256(*parts: str) -> str:
    """The digest of an upload: its path, its fields, and the SHA-256 of its bytes."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode()
        digest.update(b"%d:" % len(content))
        digest.update(content)
    return digest.hexdigest()


def find_upload(tx: Transaction, *, key_id: str, idempotency_key: str, request_sha256: str) -> str | None:
    """The record that this upload made earlier. IdempotencyConflict: the key belongs to another upload."""
    upload = store.upload(tx, key_id, idempotency_key)
    if upload is None:
        return None
    if upload.request_sha256 != request_sha256:
        raise IdempotencyConflict
    return upload.record_id


def record_of(tx: Transaction, *, key_id: str, idempotency_key: str) -> str | None:
    """The record of the upload with this key, for a key that identifies its bytes by itself."""
    upload = store.upload(tx, key_id, idempotency_key)
    return None if upload is None else upload.record_id


def bind_upload(
    tx: Transaction, *, key_id: str, idempotency_key: str, request_sha256: str, record_id: str, now_ms: int
) -> str:
    """Bind the key to a record made in this transaction; returns the record that the key stands for.

    If it is not `record_id`, another upload was first: then nothing of this one may be kept.
    """
    bound = store.bind_upload(
        tx,
        key_id=key_id,
        idempotency_key=idempotency_key,
        request_sha256=request_sha256,
        record_id=record_id,
        now_ms=now_ms,
    )
    if bound:
        return record_id
    first = find_upload(tx, key_id=key_id, idempotency_key=idempotency_key, request_sha256=request_sha256)
    assert first is not None, "a key that is bound stays bound"
    return first


def _inspected(blocks: Iterable[bytes], inspection: Inspection) -> Iterator[bytes]:
    for block in blocks:
        for at in range(0, len(block), PIECE_BYTES):
            began_s = time.thread_time()
            inspection.add(block[at : at + PIECE_BYTES])
            _rest_after(time.thread_time() - began_s)
        yield block


def _rest_after(took_s: float) -> None:
    """Pause after a dense piece: inspection holds the interpreter, which other requests need."""
    if took_s > DENSE_S:
        with _resting:
            time.sleep(took_s * REST_FACTOR)


@contextmanager
def _nothing_kept(blobs: BlobStore, blob_id: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # Bytes that cannot be removed now have no row, so the sweep removes them.
        with suppress(StorageFailed):
            blobs.delete(blob_id)
        raise
