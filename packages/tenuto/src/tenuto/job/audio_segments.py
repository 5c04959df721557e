"""Segments: pieces of speech that can be played while their job runs, saved permanently by its attempt.

They do not mean that the job will succeed, and cost nothing. Their audio format is not known here.
"""

from msgspec import Struct

from tenuto.db.database import Transaction
from tenuto.errors import Erased, Fault, InvalidRequest, NotFound, Stale
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobRecord
from tenuto.file.operations import Opened
from tenuto.job import attempts_sql, read_store
from tenuto.job.attempts_sql import NewSegmentRow, Segment
from tenuto.job.rows import NewSegment
from tenuto.job.states import RUNNING

MAX_SEGMENT_BYTES = 16 * 1024 * 1024
MAX_SEGMENTS = 1024
MAX_ATTEMPT_BYTES = 320 * 1024 * 1024
MEDIA_TYPE = "audio/wav"


class SegmentLimit(Exception):
    """An attempt has more segments than may be stored; the message says which limit it exceeded."""


class SegmentTotals(Struct, frozen=True):
    """How much an attempt has saved so far."""

    count: int = 0
    size_bytes: int = 0

    def plus(self, size_bytes: int) -> "SegmentTotals":
        """The totals with one more segment. Raises SegmentLimit."""
        if size_bytes > MAX_SEGMENT_BYTES:
            raise SegmentLimit(f"it would have a segment of more than {MAX_SEGMENT_BYTES >> 20} MiB")
        more = SegmentTotals(self.count + 1, self.size_bytes + size_bytes)
        if more.count > MAX_SEGMENTS:
            raise SegmentLimit(f"it would have more than {MAX_SEGMENTS:,} segments")
        if more.size_bytes > MAX_ATTEMPT_BYTES:
            raise SegmentLimit(f"it would have more than {MAX_ATTEMPT_BYTES >> 20} MiB")
        return more


def save(tx: Transaction, attempt_id: str, new: NewSegment, *, now_ms: int) -> None:
    """Make a durable segment readable. Stale: the attempt is not running, nothing is written."""
    attempt = attempts_sql.locked_attempt(tx, attempt_id)
    if (
        attempt is None
        or attempt.job_attempt_id != attempt_id
        or (attempt.job_state, attempt.state) != (RUNNING, "running")
    ):
        raise Stale
    if attempts_sql.has_segment(tx, new.segment_id):
        return  # Repeated because the first response was lost.
    artifacts.add_blob(tx, new.blob, now_ms=now_ms)
    attempts_sql.add_segment(
        tx,
        NewSegmentRow(
            segment_id=new.segment_id,
            job_id=attempt.job_id,
            attempt_id=attempt_id,
            sequence=new.sequence,
            media_type=MEDIA_TYPE,
            size_bytes=new.blob.size_bytes,
            sha256=new.blob.sha256,
            duration_ms=new.duration_ms,
            blob_id=new.blob.blob_id,
            now_ms=now_ms,
        ),
    )


def list_segments(tx: Transaction, *, account_id: str, job_id: str, attempt_id: str | None) -> list[Segment]:
    """What one attempt saved, in order: the one named, else the newest that has saved anything."""
    if read_store.model(tx, job_id, account_id) is None:
        raise NotFound
    if attempt_id is None:
        attempt_id = attempts_sql.newest_with_segments(tx, job_id)
    elif not attempts_sql.is_attempt_of(tx, attempt_id, job_id):
        message = "this job has no such attempt; leave it out for the newest one that has segments"
        raise InvalidRequest([Fault("attempt_id", "unknown_attempt", message)])
    if attempt_id is None:
        return []
    return attempts_sql.segments(tx, attempt_id, MAX_SEGMENTS)


def open_segment(tx: Transaction, *, account_id: str, job_id: str, segment_id: str) -> Opened:
    """What sending a segment needs. NotFound for foreign ids exactly as for missing ones."""
    row = attempts_sql.segment(tx, segment_id, job_id, account_id)
    if row is None:
        raise NotFound
    if row.blob_id is None:
        raise Erased
    assert row.block_crcs is not None, "a segment names a blob that there is"
    blob = BlobRecord(row.blob_id, row.size_bytes, row.sha256, row.block_crcs)
    return Opened(row.id, row.media_type, blob)
