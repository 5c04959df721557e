"""The deep audit: every blob is read and compared with its row; files that no row names are found (P5, P6).
What unfinished jobs will need is decoded.

Bytes are read in blocks and rows in pages, so it takes no more memory for a terabyte than for a megabyte.
The service may be running: a blob that is removed while it is being read is not a finding.
"""

import hashlib
from collections.abc import Iterator

from msgspec import Struct

from tenuto.db.database import Database
from tenuto.errors import ArtifactUnavailable, CorruptBlob, StoreUnreachable
from tenuto.features.audit.all_checks import SWEPT_WITHIN_MS
from tenuto.features.audit.check import Finding
from tenuto.file import operations as artifacts
from tenuto.file.blob import BLOCK_BYTES, BlobRecord, BlobStore
from tenuto.file.operations import ORPHAN_AGE_MS
from tenuto.job import queue

PAGE_BLOBS = 500
_RESTORE = "restore its bytes from a backup: the file SUBJECT of the folder of blobs"

PAGE_JOBS = 500

CHECKS = ("job_unreadable", "blob_missing", "blob_damaged", "blob_digest", "file_unknown")


class Rehashed(Struct):
    """How much has been read so far; updated by `rehash`."""

    blobs: int = 0
    size_bytes: int = 0


def rehash(database: Database, blobs: BlobStore, progress: Rehashed, *, now_ms: int) -> Iterator[Finding]:
    """Every finding, as soon as it is made; `progress` is kept up to date."""
    after = ""
    while True:
        page = database.read(lambda tx, after=after: artifacts.blob_records(tx, after, PAGE_BLOBS))  # type: ignore[misc]
        for record in page:
            fault = _fault(blobs, record)
            progress.blobs += 1
            progress.size_bytes += record.size_bytes
            if fault is not None and _is_wanted(database, record.blob_id):
                yield _finding(database, record.blob_id, *fault)
        if len(page) < PAGE_BLOBS:
            break
        after = page[-1].blob_id
    for blob_id in blobs.ids(older_than_ms=now_ms - ORPHAN_AGE_MS - SWEPT_WITHIN_MS):
        if not database.read(lambda tx, blob_id=blob_id: artifacts.is_known(tx, blob_id)):  # type: ignore[misc]
            yield Finding(
                "file_unknown",
                blob_id,
                "no row names this file, and it is older than a day",
                {},
                "`tenuto serve` removes it; if it stays, look for `blob.not_removed` in the log",
            )


def unreadable_jobs(database: Database) -> Iterator[Finding]:
    """The unfinished jobs that would only be found damaged when a worker claims them."""
    after, is_last = "", False
    while not is_last:
        ids, faults = database.read(lambda tx, after=after: queue.unreadable(tx, after, PAGE_JOBS))  # type: ignore[misc]
        for job_id, fault in faults.items():
            yield Finding(
                "job_unreadable",
                job_id,
                "the unfinished job cannot be run: its row is damaged",
                {"fault": fault},
                "restore the row from a backup, or resolve the job with `tenuto admin recover` once it waits",
            )
        is_last = len(ids) < PAGE_JOBS
        after = ids[-1] if ids else after


def _fault(blobs: BlobStore, record: BlobRecord) -> tuple[str, str, str] | None:
    """The check that a blob fails, what that means, and the details; None for a sound one."""
    digest = hashlib.sha256()
    try:
        for block in blobs.read(record):
            digest.update(block)
    except StoreUnreachable:
        raise  # Otherwise every blob would seem to be missing.
    except ArtifactUnavailable as error:
        return "blob_missing", "the bytes are not there, or cannot be read", error.message
    except CorruptBlob as error:
        return "blob_damaged", "the bytes are not those that were written", error.message
    if digest.hexdigest() != record.sha256:
        return "blob_digest", "the bytes have another SHA-256 than their row", digest.hexdigest()
    blocks = -(-record.size_bytes // BLOCK_BYTES)
    if len(record.block_crcs) != 8 * blocks:
        return "blob_digest", "the row has checksums for another number of blocks", f"{blocks} blocks"
    return None


def _is_wanted(database: Database, blob_id: str) -> bool:
    """Whether the blob should still exist: the sweep or an erasure may have removed it meanwhile."""
    return database.read(lambda tx: artifacts.blob_record(tx, blob_id)) is not None


def _finding(database: Database, blob_id: str, check: str, what: str, fault: str) -> Finding:
    """The finding, with what uses the blob."""
    users = database.read(lambda tx: artifacts.users(tx, blob_id))
    seen = {"fault": fault, "used_by": ",".join(users) or None}
    return Finding(check, blob_id, what, seen, _RESTORE.replace("SUBJECT", blob_id))
