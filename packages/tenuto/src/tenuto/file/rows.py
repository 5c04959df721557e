"""Rows of artifacts, uploads and backups in progress, as the stores here read them.

Bytes are durable before any row names them. A process that dies in between leaves bytes without a row, which
the sweep removes a day later. An artifact's row stays for ever; a blob's is deleted after its bytes, and is
read as a `BlobRecord`.
"""

import msgspec


class ArtifactRow(msgspec.Struct, frozen=True):
    """What a download needs of an artifact."""

    id: str
    """New for each result and each upload."""
    media_type: str
    """Written with the row, as are size and digest."""
    size_bytes: int
    """Of the content."""
    sha256: str
    """Of the content; callers compare what they have downloaded with it."""
    erased_at: int | None
    """Set when the owner or the retention erased the content; never unset."""
    blob_id: str | None
    """Where the bytes are; null once erased, in the same transaction."""
    block_crcs: str | None
    """The checksums of the blob's blocks; null once erased."""


class InputRow(msgspec.Struct, frozen=True):
    """An upload, for its account to see and for jobs to use. The rest is as in `ArtifactRow`."""

    id: str
    media_type: str
    size_bytes: int
    sha256: str
    metadata: str
    """JSON object of the measurements made when the bytes were admitted; may be damaged."""
    blob_id: str | None
    created_at: int
    """When the upload was recorded; retention is counted from it."""
    erased_at: int | None
    name: str | None
    """The name of the caller's file, written with the row if the upload gave one; null once erased."""


class HeldArtifactRow(msgspec.Struct, frozen=True):
    """An artifact locked for erasure. The rest is as in `ArtifactRow`."""

    id: str
    job_id: str | None
    """The job that made it; null for an upload."""
    blob_id: str | None
    erased_at: int | None


class ResultRow(msgspec.Struct, frozen=True):
    """A job's result, for the erasure of the job's content. The rest is as in `ArtifactRow`."""

    id: str
    blob_id: str | None
    metadata: str
    """JSON object: what the engine reported beside the bytes; may quote the request until that is erased."""


class StoredRow(msgspec.Struct, frozen=True):
    """What an account stores, added up over its inputs and own voices."""

    bytes: int
    """Without what was erased or deleted."""
    files: int
    """The number of recordings."""


class UploadRow(msgspec.Struct, frozen=True):
    """What an idempotency key of an upload stands for; written once, with the record that the upload made."""

    request_sha256: str
    """Digest that identifies the whole request; a different request under the key is refused."""
    record_id: str
    """The input, voice or ledger entry that was made. It may be gone; the key is not used again."""
