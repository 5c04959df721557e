"""The statements behind a job's evidence. Takes a transaction, changes nothing."""

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.features.evidence.evidence import AttemptSegments, AttemptSurroundings, ChunkRow, JobSurroundings
from tenuto.features.evidence.rows import AttemptRow, JobRow
from tenuto.job.rows import EventRow

_JOB_COLUMNS = records.columns(JobRow, "j")
_ATTEMPT_COLUMNS = records.columns(AttemptRow, "t")


def whole_job(tx: Transaction, job_id: str) -> tuple[JobRow, JobSurroundings] | None:
    """The job with its account and what its key was bound to."""
    row = tx.one(
        f"""select {_JOB_COLUMNS}, a.name as account_name, a.available_micros, a.held_micros,
                   i.idempotency_key, i.body_sha256
            from job j join account a on a.id = j.account_id left join idempotency i on i.job_id = j.id
            where j.id = :id""",  # noqa: S608 (columns)
        id=job_id,
    )
    if row is None:
        return None
    return records.made(JobRow, row), records.made(JobSurroundings, row)


def attempts(tx: Transaction, job_id: str) -> list[tuple[AttemptRow, AttemptSurroundings]]:
    """Every attempt with its recorded bytes, and what is still known of its worker."""
    rows = tx.all(
        f"""select {_ATTEMPT_COLUMNS}, b.size_bytes, b.sha256, b.block_crcs, b.condemned_at, w.seen_at
            from attempt t left join blob b on b.id = t.blob_id left join worker w on w.id = t.worker_id
            where t.job_id = :job_id order by t.number limit 10000""",  # noqa: S608 (columns)
        job_id=job_id,
    )
    return [(records.made(AttemptRow, row), records.made(AttemptSurroundings, row)) for row in rows]


def segments_by_attempt(tx: Transaction, job_id: str) -> list[AttemptSegments]:
    """The number and size of each attempt's segments."""
    return records.all_records(
        tx,
        AttemptSegments,
        """select attempt_id, count(*) as segments, cast(sum(size_bytes) as bigint) as size_bytes,
                  cast(sum(duration_ms) as bigint) as duration_ms
           from segment where job_id = :job_id group by attempt_id order by attempt_id""",
        job_id=job_id,
    )


def chunks(tx: Transaction, job_id: str) -> list[ChunkRow]:
    return records.all_records(
        tx,
        ChunkRow,
        """select role, number, start_frame, end_frame, model_id, model_revision, attempt_id, created_at
           from part where job_id = :job_id order by role, number""",
        job_id=job_id,
    )


def events(tx: Transaction, job_id: str) -> list[EventRow]:
    """Oldest first, with the operators who decided."""
    return records.all_records(
        tx,
        EventRow,
        """select sequence, at, type, attempt_id, detail, operator, note from event
           where job_id = :job_id order by sequence limit 10000""",
        job_id=job_id,
    )
