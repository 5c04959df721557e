"""The rows of segments. Takes a transaction, never commits, decides nothing."""

from tenuto.blobs.blob import BlobRecord
from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.jobs.rows import SegmentBytes, SegmentRow


def add(
    tx: Transaction,
    segment_id: str,
    *,
    job_id: str,
    attempt_id: str,
    sequence: int,
    media_type: str,
    blob: BlobRecord,
    duration_ms: int,
    now_ms: int,
) -> None:
    tx.do(
        """insert into segment (id, job_id, attempt_id, sequence, media_type, size_bytes, sha256, duration_ms,
                                blob_id, created_at)
           values (:id, :job_id, :attempt_id, :sequence, :media_type, :size_bytes, :sha256, :duration_ms,
                   :blob_id, :now)""",
        id=segment_id,
        job_id=job_id,
        attempt_id=attempt_id,
        sequence=sequence,
        media_type=media_type,
        size_bytes=blob.size_bytes,
        sha256=blob.sha256,
        duration_ms=duration_ms,
        blob_id=blob.blob_id,
        now=now_ms,
    )


def is_saved(tx: Transaction, segment_id: str) -> bool:
    return tx.one("select 1 as one from segment where id = :id", id=segment_id) is not None


def newest_attempt(tx: Transaction, job_id: str) -> str | None:
    """The job's newest attempt that has saved a segment."""
    row = tx.one(
        """select t.id from attempt t
           where t.job_id = :job_id and exists (select 1 from segment s where s.attempt_id = t.id)
           order by t.number desc limit 1""",
        job_id=job_id,
    )
    return None if row is None else str(row["id"])


def is_attempt_of(tx: Transaction, attempt_id: str, job_id: str) -> bool:
    row = tx.one(
        "select 1 as one from attempt where id = :id and job_id = :job_id", id=attempt_id, job_id=job_id
    )
    return row is not None


def of_attempt(tx: Transaction, attempt_id: str, limit: int) -> list[SegmentRow]:
    return records.all_records(
        tx,
        SegmentRow,
        """select id as segment_id, attempt_id, sequence, media_type, size_bytes, sha256, duration_ms
           from segment where attempt_id = :attempt_id order by sequence limit :limit""",
        attempt_id=attempt_id,
        limit=limit,
    )


def segment(tx: Transaction, segment_id: str, job_id: str, account_id: str) -> SegmentBytes | None:
    """A segment of this job of this account, together with its blob."""
    return records.one(
        tx,
        SegmentBytes,
        """select s.id, s.media_type, s.size_bytes, s.sha256, s.blob_id, b.block_crcs
           from segment s join job j on j.id = s.job_id left join blob b on b.id = s.blob_id
           where s.id = :id and s.job_id = :job_id and j.account_id = :account_id""",
        id=segment_id,
        job_id=job_id,
        account_id=account_id,
    )
