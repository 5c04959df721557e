"""The rows of attempts, their segments and chunks, and the changes that an attempt makes to its job.

Takes a transaction, never commits. Every update of a job names the states (`states.Move`) and the
attempt it
starts from; None or 0 rows means that another transaction was first, and nothing more may then be written.

Written by `scripts/sql_calls.py` from `attempts.sql`: change that.
"""

import msgspec

from tenuto.db import records
from tenuto.db.database import Transaction


class FencedAttempt(msgspec.Struct, frozen=True):
    """What `locked_attempt` returns."""

    id: str
    job_id: str
    state: str
    """running: the worker has it; recorded: the result is durable; ended: nothing more happens."""
    beat: int
    """Raised by the heartbeat; a rescuer compares it with what it saw before."""
    fenced_at: int | None
    """Set, and committed, before a metered engine is called."""
    blob_id: str | None
    """The recorded result: bytes that are durable and verified."""
    media_type: str | None
    result_metadata: str | None
    duration_ms: int | None
    job_state: str
    job_attempt_id: str | None
    """The newest attempt; set by claim, kept when the job ends."""
    account_id: str
    hold_micros: int
    price_micros: int
    price_unit: str
    cancel_requested_at: int | None
    hosts_lost: int
    unforeseen_errors: int
    workers_lost: int


class AttemptKeys(msgspec.Struct, frozen=True):
    """What `locked_keys` returns."""

    id: str
    job_id: str
    job_state: str
    job_attempt_id: str | None
    """The newest attempt; set by claim, kept when the job ends."""


class Heard(msgspec.Struct, frozen=True):
    """What `heartbeat` returns."""

    cancelled_at: int | None


class NewSegmentRow(msgspec.Struct, frozen=True):
    """What `add_segment` writes."""

    segment_id: str
    job_id: str
    attempt_id: str
    sequence: int
    media_type: str
    size_bytes: int
    sha256: str
    duration_ms: int
    blob_id: str | None
    now_ms: int


class Segment(msgspec.Struct, frozen=True):
    """What `segments` returns."""

    segment_id: str
    attempt_id: str
    sequence: int
    """From 0 without gaps within its attempt."""
    media_type: str
    size_bytes: int
    sha256: str
    duration_ms: int
    object: str = "segment"


class SegmentBytes(msgspec.Struct, frozen=True):
    """What `segment` returns."""

    id: str
    media_type: str
    size_bytes: int
    sha256: str
    blob_id: str | None
    """Null once the job's content was erased."""
    block_crcs: str | None
    """CRC-32 of every 1 MiB block, 8 hex digits each."""


class NewChunk(msgspec.Struct, frozen=True):
    """What `add_chunk` writes."""

    job_id: str
    role: str
    number: int
    start_frame: int
    end_frame: int
    model_id: str
    model_revision: str
    transcript: str
    attempt_id: str
    now_ms: int


class ChunkRow(msgspec.Struct, frozen=True):
    """What `chunks` returns."""

    role: str
    """Whose transcript it is: segment_text or word_timestamps."""
    number: int
    start_frame: int
    """The span among the recording's 16 kHz samples, and the engine: a part is used again for just these."""
    end_frame: int
    model_id: str
    model_revision: str
    transcript: str
    """JSON object as the engine gave it, checked."""


def free_slot_of(tx: Transaction, attempt_id: str) -> int:
    """Free the attempt's slot. It is looked up by the attempt, so a second call changes nothing."""
    return tx.run(
        """
        update slot set job_id = null, attempt_id = null where attempt_id = :attempt_id
        """,
        attempt_id=attempt_id,
    )


def locked_attempt(tx: Transaction, attempt_id: str) -> FencedAttempt | None:
    """The attempt with what a transition needs of its job; locks the job against every other writer.

    The attempt's row is locked, too: a caller that had to wait for the job's lock alone would go on with the
    attempt as it was before the wait, and repeat a call whose fence was passed meanwhile.
    """
    return records.one(
        tx,
        FencedAttempt,
        """
        select a.id, a.job_id, a.state, a.beat, a.fenced_at, a.blob_id, a.media_type, a.result_metadata, a.duration_ms,
               j.state as job_state, j.attempt_id as job_attempt_id, j.account_id, j.hold_micros, j.price_micros,
               j.price_unit, j.cancel_requested_at, j.hosts_lost, j.unforeseen_errors, j.workers_lost
        from attempt a join job j on j.id = a.job_id where a.id = :attempt_id for update of j, a
        """,
        attempt_id=attempt_id,
    )


def locked_keys(tx: Transaction, attempt_id: str) -> AttemptKeys | None:
    """The attempt and its job, locked; only the columns that identify them: enough where nothing else can be
    read.
    """
    return records.one(
        tx,
        AttemptKeys,
        """
        select a.id, a.job_id, j.state as job_state, j.attempt_id as job_attempt_id
        from attempt a join job j on j.id = a.job_id where a.id = :attempt_id for update of j, a
        """,
        attempt_id=attempt_id,
    )


def heartbeat(tx: Transaction, attempt_id: str, progress: str | None) -> Heard | None:
    """Record a heartbeat; None if the attempt is over."""
    return records.one(
        tx,
        Heard,
        """
        update attempt set beat = beat + 1, progress = coalesce(:progress, progress),
               heard_at = coalesce((select w.seen_at from worker w where w.id = attempt.worker_id), heard_at)
        where id = :attempt_id and state <> 'ended'
        returning (select j.cancel_requested_at from job j where j.id = attempt.job_id) as cancelled_at
        """,
        attempt_id=attempt_id,
        progress=progress,
    )


def pass_fence(tx: Transaction, attempt_id: str, now_ms: int) -> int:
    return tx.run(
        """
        update attempt set fenced_at = :now_ms where id = :attempt_id and state = 'running' and fenced_at is null
        """,
        attempt_id=attempt_id,
        now_ms=now_ms,
    )


def record(
    tx: Transaction,
    attempt_id: str,
    *,
    blob_id: str | None,
    media_type: str | None,
    metadata: str,
    duration_ms: int | None,
) -> int:
    """Only a running attempt, or one whose outcome was unknown until now, records a result."""
    return tx.run(
        """
        update attempt set state = 'recorded', outcome = null, ended_at = null, blob_id = :blob_id,
               media_type = :media_type, result_metadata = :metadata, duration_ms = :duration_ms
        where id = :attempt_id and (state = 'running' or (state = 'ended' and outcome = 'unknown'))
        """,
        attempt_id=attempt_id,
        blob_id=blob_id,
        media_type=media_type,
        metadata=metadata,
        duration_ms=duration_ms,
    )


def end_attempt(
    tx: Transaction, attempt_id: str, outcome: str | None, now_ms: int, evidence: str | None
) -> int:
    return tx.run(
        """
        update attempt set state = 'ended', outcome = :outcome, ended_at = :now_ms,
               evidence = coalesce(:evidence, evidence)
        where id = :attempt_id and state <> 'ended'
        """,
        attempt_id=attempt_id,
        outcome=outcome,
        now_ms=now_ms,
        evidence=evidence,
    )


def succeed(
    tx: Transaction,
    job_id: str,
    attempt_id: str,
    *,
    artifact_id: str | None,
    charged_micros: int | None,
    now_ms: int,
) -> int | None:
    """The number of the transition's event, as of all that follow here."""
    row = tx.one(
        """
        update job set state = 'succeeded', artifact_id = :artifact_id, charged_micros = :charged_micros,
               audio_ms = coalesce((select duration_ms from attempt where id = :attempt_id), 0),
               finished_at = :now_ms, event_sequence = event_sequence + 1
        where id = :job_id and attempt_id = :attempt_id and state in ('running', 'recovery_required')
        returning event_sequence
        """,
        job_id=job_id,
        attempt_id=attempt_id,
        artifact_id=artifact_id,
        charged_micros=charged_micros,
        now_ms=now_ms,
    )
    return None if row is None or row["event_sequence"] is None else int(row["event_sequence"])


def end_running(
    tx: Transaction,
    job_id: str,
    attempt_id: str,
    *,
    state: str,
    error_code: str | None,
    error_message: str | None,
    finished_at: int | None,
) -> int | None:
    """The job is over, or waits for an operator. Writes no more than it must: the row may be damaged."""
    row = tx.one(
        """
        update job set state = :state, error_code = :error_code, error_message = :error_message,
               finished_at = :finished_at, event_sequence = event_sequence + 1
        where id = :job_id and attempt_id = :attempt_id and state in ('running')
        returning event_sequence
        """,
        job_id=job_id,
        attempt_id=attempt_id,
        state=state,
        error_code=error_code,
        error_message=error_message,
        finished_at=finished_at,
    )
    return None if row is None or row["event_sequence"] is None else int(row["event_sequence"])


def requeue_running(
    tx: Transaction,
    job_id: str,
    attempt_id: str,
    *,
    hosts_lost: int,
    workers_lost: int,
    losses_shared: int,
    unforeseen_errors: int,
    not_before_at: int,
) -> int | None:
    """The job waits again, at its old place (ids order the queue), with the losses counted."""
    row = tx.one(
        """
        update job set state = 'queued', hosts_lost = hosts_lost + :hosts_lost,
               workers_lost = workers_lost + :workers_lost,
               losses_shared = losses_shared + :losses_shared,
               unforeseen_errors = unforeseen_errors + :unforeseen_errors,
               not_before_at = :not_before_at, event_sequence = event_sequence + 1
        where id = :job_id and attempt_id = :attempt_id and state in ('running')
        returning event_sequence
        """,
        job_id=job_id,
        attempt_id=attempt_id,
        hosts_lost=hosts_lost,
        workers_lost=workers_lost,
        losses_shared=losses_shared,
        unforeseen_errors=unforeseen_errors,
        not_before_at=not_before_at,
    )
    return None if row is None or row["event_sequence"] is None else int(row["event_sequence"])


def add_segment(tx: Transaction, new: NewSegmentRow) -> None:
    tx.do(
        """
        insert into segment (id, job_id, attempt_id, sequence, media_type, size_bytes,
               sha256, duration_ms, blob_id, created_at)
        values (:segment_id, :job_id, :attempt_id, :sequence, :media_type, :size_bytes,
               :sha256, :duration_ms, :blob_id, :now_ms)
        """,
        **msgspec.structs.asdict(new),
    )


def has_segment(tx: Transaction, segment_id: str) -> bool:
    return (
        tx.one(
            """
        select 1 as one from segment where id = :segment_id
        """,
            segment_id=segment_id,
        )
        is not None
    )


def newest_with_segments(tx: Transaction, job_id: str) -> str | None:
    """The job's newest attempt that has saved a segment."""
    row = tx.one(
        """
        select t.id from attempt t
        where t.job_id = :job_id and exists (select 1 from segment s where s.attempt_id = t.id)
        order by t.number desc limit 1
        """,
        job_id=job_id,
    )
    return None if row is None or row["id"] is None else str(row["id"])


def is_attempt_of(tx: Transaction, attempt_id: str, job_id: str) -> bool:
    return (
        tx.one(
            """
        select 1 as one from attempt where id = :attempt_id and job_id = :job_id
        """,
            attempt_id=attempt_id,
            job_id=job_id,
        )
        is not None
    )


def segments(tx: Transaction, attempt_id: str, limit: int) -> list[Segment]:
    return records.all_records(
        tx,
        Segment,
        """
        select id as segment_id, attempt_id, sequence, media_type, size_bytes, sha256, duration_ms,
            'segment' as object
        from segment where attempt_id = :attempt_id order by sequence limit :limit
        """,
        attempt_id=attempt_id,
        limit=limit,
    )


def segment(tx: Transaction, segment_id: str, job_id: str, account_id: str) -> SegmentBytes | None:
    """A segment of this job of this account, together with its blob."""
    return records.one(
        tx,
        SegmentBytes,
        """
        select s.id, s.media_type, s.size_bytes, s.sha256, s.blob_id, b.block_crcs
        from segment s join job j on j.id = s.job_id left join blob b on b.id = s.blob_id
        where s.id = :segment_id and s.job_id = :job_id and j.account_id = :account_id
        """,
        segment_id=segment_id,
        job_id=job_id,
        account_id=account_id,
    )


def add_chunk(tx: Transaction, new: NewChunk) -> int:
    """Store a finished chunk; one that was redone replaces the unusable one."""
    return tx.run(
        """
        insert into part (job_id, role, number, start_frame, end_frame, model_id,
               model_revision, transcript, attempt_id,
                          created_at)
        values (:job_id, :role, :number, :start_frame, :end_frame, :model_id,
               :model_revision, :transcript, :attempt_id, :now_ms)
        on conflict (job_id, role, number) do update set
            start_frame = excluded.start_frame, end_frame = excluded.end_frame, model_id = excluded.model_id,
            model_revision = excluded.model_revision,
            transcript = excluded.transcript,
            attempt_id = excluded.attempt_id, created_at = excluded.created_at
        """,
        **msgspec.structs.asdict(new),
    )


def chunks(tx: Transaction, job_id: str) -> list[ChunkRow]:
    """The chunks of a job with their transcripts, as JSON."""
    return records.all_records(
        tx,
        ChunkRow,
        """
        select role, number, start_frame, end_frame, model_id, model_revision, transcript
        from part where job_id = :job_id order by role, number
        """,
        job_id=job_id,
    )


def remove_final_chunks(tx: Transaction) -> int:
    return tx.run("""
        delete from part where job_id in (
            select j.id from job j where j.state in ('succeeded', 'failed', 'cancelled')
              and exists (select 1 from part p where p.job_id = j.id))
        """)


def newest_attempt(tx: Transaction, job_id: str) -> str | None:
    """The attempt that the job names; None before its first one."""
    row = tx.one(
        """
        select attempt_id from job where id = :job_id
        """,
        job_id=job_id,
    )
    return None if row is None or row["attempt_id"] is None else str(row["attempt_id"])


def has_kept(tx: Transaction, attempt_id: str) -> bool:
    """Whether the database keeps the attempt's result."""
    return (
        tx.one(
            """
        select 1 as one from kept_result where attempt_id = :attempt_id and sequence = 0
        """,
            attempt_id=attempt_id,
        )
        is not None
    )
