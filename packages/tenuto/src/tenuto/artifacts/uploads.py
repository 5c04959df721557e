"""Idempotency of uploads: an `Idempotency-Key` sent with bytes gives the same record again.

What the record is, an input or a voice, is its noun's business; a digest over the whole request tells apart
what was sent, so one key never serves two kinds of upload.
"""

import hashlib

from tenuto.artifacts import store
from tenuto.db.database import Transaction
from tenuto.errors import IdempotencyConflict


def request_sha256(*parts: str) -> str:
    """The digest of an upload: where it went, what was said of it, and the SHA-256 of its bytes."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode()
        digest.update(b"%d:" % len(content))
        digest.update(content)
    return digest.hexdigest()


def find_upload(tx: Transaction, *, key_id: str, idempotency_key: str, request_sha256: str) -> str | None:
    """The record that this upload made before. IdempotencyConflict: the key belongs to another upload."""
    upload = store.upload(tx, key_id, idempotency_key)
    if upload is None:
        return None
    if upload.request_sha256 != request_sha256:
        raise IdempotencyConflict
    return upload.record_id


def bind_upload(
    tx: Transaction, *, key_id: str, idempotency_key: str, request_sha256: str, record_id: str, now_ms: int
) -> str:
    """Bind the key to a record made in this very transaction; gives the record that the key stands for.

    Another id than `record_id` is that of an upload which was first: then nothing of this one may be kept.
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
