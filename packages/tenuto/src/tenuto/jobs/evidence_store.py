"""The queries behind the evidence of a job. Takes a transaction, changes nothing."""

import msgspec

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.jobs.rows import AttemptRow, JobRow

_JOB = records.columns(JobRow, "j")
_ATTEMPT = records.columns(AttemptRow, "t")


class EvidenceOfJob(msgspec.Struct, frozen=True):
    """What an operator sees beside the job's own row, read by the same statement."""

    account_name: str
    available_micros: int
    held_micros: int
    idempotency_key: str | None
    """Null where the key's row is lost: bound with the job, it stays."""
    body_sha256: str | None


class EvidenceOfAttempt(msgspec.Struct, frozen=True):
    """What an operator sees beside the attempt's own row, read by the same statement."""

    size_bytes: int | None
    """Of the recorded bytes, as the next two; null where there are none."""
    sha256: str | None
    block_crcs: str | None
    condemned_at: int | None
    """When the bytes were given up; they may be gone."""
    seen_at: int | None
    """When its worker last wrote its row; null once the worker is forgotten."""


class AttemptSegments(msgspec.Struct, frozen=True):
    """What one attempt has shown of its sound."""

    attempt_id: str
    segments: int
    size_bytes: int
    duration_ms: int


class ChunkEvidence(msgspec.Struct, frozen=True):
    """A finished chunk of a recording, without its transcript; each column as in `ChunkRow`."""

    role: str
    number: int
    start_frame: int
    end_frame: int
    model_id: str
    model_revision: str
    attempt_id: str
    """Which attempt made it."""
    created_at: int


class LedgerEvidence(msgspec.Struct, frozen=True):
    """A line of the job's in the ledger; each column as in `billing.rows.LedgerLine`."""

    id: str
    type: str
    account_id: str
    available_micros: int
    held_micros: int
    revenue_micros: int
    funding_micros: int
    """What came from outside; with the three above it sums to zero."""
    note: str | None
    created_at: int


class EventEvidence(msgspec.Struct, frozen=True):
    """A line of a job's life with who decided; each column as in `EventRow`."""

    sequence: int
    at: int
    type: str
    attempt_id: str | None
    detail: str | None
    operator: str | None
    """Who decided, written with the event; null where no operator did. Callers are not shown it."""
    note: str | None
    """Why, in the operator's words."""


def job(tx: Transaction, job_id: str) -> tuple[JobRow, EvidenceOfJob] | None:
    """The job with its account and what its key was bound to."""
    found = tx.one(
        f"""select {_JOB}, a.name as account_name, a.available_micros, a.held_micros, i.idempotency_key,
                   i.body_sha256
            from job j join account a on a.id = j.account_id left join idempotency i on i.job_id = j.id
            where j.id = :id""",  # noqa: S608 (columns)
        id=job_id,
    )
    if found is None:
        return None
    return records.made(JobRow, found), records.made(EvidenceOfJob, found)


def attempts(tx: Transaction, job_id: str) -> list[tuple[AttemptRow, EvidenceOfAttempt]]:
    """Every attempt with its recorded bytes, and what is still known of its worker."""
    found = tx.all(
        f"""select {_ATTEMPT}, b.size_bytes, b.sha256, b.block_crcs, b.condemned_at, w.seen_at
            from attempt t left join blob b on b.id = t.blob_id left join worker w on w.id = t.worker_id
            where t.job_id = :job_id order by t.number limit 10000""",  # noqa: S608 (columns)
        job_id=job_id,
    )
    return [(records.made(AttemptRow, row), records.made(EvidenceOfAttempt, row)) for row in found]


def segments(tx: Transaction, job_id: str) -> list[AttemptSegments]:
    """What each attempt has shown of its sound."""
    return records.all_records(
        tx,
        AttemptSegments,
        """select attempt_id, count(*) as segments, cast(sum(size_bytes) as bigint) as size_bytes,
                  cast(sum(duration_ms) as bigint) as duration_ms
           from segment where job_id = :job_id group by attempt_id order by attempt_id""",
        job_id=job_id,
    )


def chunks(tx: Transaction, job_id: str) -> list[ChunkEvidence]:
    return records.all_records(
        tx,
        ChunkEvidence,
        """select role, number, start_frame, end_frame, model_id, model_revision, attempt_id, created_at
           from part where job_id = :job_id order by role, number""",
        job_id=job_id,
    )


def events(tx: Transaction, job_id: str) -> list[EventEvidence]:
    return records.all_records(
        tx,
        EventEvidence,
        """select sequence, at, type, attempt_id, detail, operator, note from event
           where job_id = :job_id order by sequence limit 10000""",
        job_id=job_id,
    )


def entries(tx: Transaction, job_id: str) -> list[LedgerEvidence]:
    """The job's lines of the ledger: three look-ups, for each of which there is an index."""
    return records.all_records(
        tx,
        LedgerEvidence,
        """select * from (select * from entry where job_id = :job_id and type = 'hold'
                          union all
                          select * from entry where job_id = :job_id and type in ('settle', 'void')
                          union all
                          select * from entry where job_id = :job_id and type = 'adjust') as lines
           order by id limit 1000""",
        job_id=job_id,
    )
