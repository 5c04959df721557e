"""The rows of attempts, their segments and chunks, and the changes that an attempt makes to its job.

Takes a transaction, never commits. Every update of a job names the states (`states.Move`) and the attempt it
starts from; None or 0 rows means that another transaction was first, and nothing more may then be written.
"""

from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Row, Transaction
from tenuto.job.fate import Fate
from tenuto.job.rows import AttemptKeys, ChunkKey, FencedAttempt, NewSegment, Segment, SegmentBytes
from tenuto.job.states import END_ATTEMPT, FINAL, SUCCEED


def free_slot_of(tx: Transaction, attempt_id: str) -> None:
    """Free the attempt's slot. It is looked up by the attempt, so a second call changes nothing."""
    tx.run("update slot set job_id = null, attempt_id = null where attempt_id = :id", id=attempt_id)


# --- an attempt's writes, each behind the fence ---------------------------------------------------


def locked_attempt(tx: Transaction, attempt_id: str) -> FencedAttempt | None:
    """The attempt with what a transition needs of its job; locks the job against every other writer.

    The attempt's row is locked, too: a caller that had to wait for the job's lock alone would go on with the
    attempt as it was before the wait, and repeat a call whose fence was passed meanwhile.
    """
    return records.one(
        tx,
        FencedAttempt,
        """select a.id, a.job_id, a.state, a.beat, a.fenced_at, a.blob_id, a.media_type, a.result_metadata,
                  a.duration_ms, j.state as job_state, j.attempt_id as job_attempt_id, j.account_id,
                  j.hold_micros, j.price_micros, j.price_unit, j.cancel_requested_at, j.hosts_lost,
                  j.unforeseen_errors, j.workers_lost
           from attempt a join job j on j.id = a.job_id where a.id = :id for update of j, a""",
        id=attempt_id,
    )


def locked_keys(tx: Transaction, attempt_id: str) -> AttemptKeys | None:
    """The attempt and its job, locked; only the columns that identify them."""
    return records.one(
        tx,
        AttemptKeys,
        """select a.id, a.job_id, j.state as job_state, j.attempt_id as job_attempt_id
           from attempt a join job j on j.id = a.job_id where a.id = :id for update of j, a""",
        id=attempt_id,
    )


def heartbeat(tx: Transaction, attempt_id: str, progress: str | None) -> bool | None:
    """Record a heartbeat. Returns whether the caller has cancelled the job; None if the attempt is over."""
    row = tx.one(
        """update attempt set beat = beat + 1, progress = coalesce(:progress, progress),
                  heard_at = coalesce((select w.seen_at from worker w where w.id = attempt.worker_id),
                                      heard_at)
           where id = :id and state <> 'ended'
           returning (select j.cancel_requested_at from job j where j.id = attempt.job_id) as cancelled_at""",
        id=attempt_id,
        progress=progress,
    )
    return None if row is None else row["cancelled_at"] is not None


def pass_fence(tx: Transaction, attempt_id: str, now_ms: int) -> int:
    return tx.run(
        """update attempt set fenced_at = :now
           where id = :id and state = 'running' and fenced_at is null""",
        id=attempt_id,
        now=now_ms,
    )


def record(
    tx: Transaction,
    attempt_id: str,
    *,
    blob_id: str,
    media_type: str,
    metadata: str,
    duration_ms: int | None,
) -> int:
    """Only a running attempt, or one whose outcome was unknown until now, records a result."""
    return tx.run(
        """update attempt set state = 'recorded', outcome = null, ended_at = null, blob_id = :blob_id,
                              media_type = :media_type, result_metadata = :metadata,
                              duration_ms = :duration_ms
           where id = :id and (state = 'running' or (state = 'ended' and outcome = 'unknown'))""",
        id=attempt_id,
        blob_id=blob_id,
        media_type=media_type,
        metadata=metadata,
        duration_ms=duration_ms,
    )


def end_attempt(
    tx: Transaction, attempt_id: str, outcome: str, *, now_ms: int, evidence: str | None = None
) -> int:
    return tx.run(
        """update attempt set state = 'ended', outcome = :outcome, ended_at = :now,
                              evidence = coalesce(:evidence, evidence)
           where id = :id and state <> 'ended'""",
        id=attempt_id,
        outcome=outcome,
        evidence=evidence,
        now=now_ms,
    )


def succeed(
    tx: Transaction, job_id: str, attempt_id: str, *, artifact_id: str, charged_micros: int, now_ms: int
) -> int | None:
    changed = tx.one(
        f"""update job set state = 'succeeded', artifact_id = :artifact_id, charged_micros = :charged,
                           audio_ms = coalesce((select duration_ms from attempt where id = :attempt_id), 0),
                           finished_at = :now, event_sequence = event_sequence + 1
            where id = :id and attempt_id = :attempt_id and {SUCCEED.guard}
            returning event_sequence""",  # noqa: S608 (states)
        id=job_id,
        attempt_id=attempt_id,
        artifact_id=artifact_id,
        charged=charged_micros,
        now=now_ms,
    )
    return _sequence(changed)


def end_running(tx: Transaction, job_id: str, attempt_id: str, fate: Fate, *, now_ms: int) -> int | None:
    """The job is over, or waits for an operator. Writes no more than it must: the row may be damaged."""
    assert fate.state in END_ATTEMPT.after
    changed = tx.one(
        f"""update job set state = :state, error_code = :code, error_message = :message,
                           finished_at = :finished, event_sequence = event_sequence + 1
            where id = :id and attempt_id = :attempt_id and {END_ATTEMPT.guard}
            returning event_sequence""",  # noqa: S608 (states)
        id=job_id,
        attempt_id=attempt_id,
        state=fate.state,
        code=fate.error_code,
        message=fate.error_message,
        finished=now_ms if fate.state in FINAL else None,
    )
    return _sequence(changed)


def requeue_running(tx: Transaction, job_id: str, attempt_id: str, fate: Fate, *, now_ms: int) -> int | None:
    """The job waits again, at its old place (ids order the queue), with the losses counted."""
    changed = tx.one(
        f"""update job set state = 'queued', hosts_lost = hosts_lost + :hosts_lost,
                           workers_lost = workers_lost + :workers_lost,
                           losses_shared = losses_shared + :losses_shared,
                           unforeseen_errors = unforeseen_errors + :unforeseen_errors,
                           not_before_at = :not_before, event_sequence = event_sequence + 1
            where id = :id and attempt_id = :attempt_id and {END_ATTEMPT.guard}
            returning event_sequence""",  # noqa: S608 (states)
        id=job_id,
        attempt_id=attempt_id,
        hosts_lost=fate.hosts_lost,
        workers_lost=fate.workers_lost,
        losses_shared=fate.losses_shared,
        unforeseen_errors=fate.unforeseen_errors,
        not_before=now_ms + fate.pause_ms if fate.pause_ms else 0,
    )
    return _sequence(changed)


# --- segments -----------------------------------------------------------------------------------------


def add_segment(
    tx: Transaction, new: NewSegment, *, job_id: str, attempt_id: str, media_type: str, now_ms: int
) -> None:
    tx.do(
        """insert into segment (id, job_id, attempt_id, sequence, media_type, size_bytes, sha256, duration_ms,
                                blob_id, created_at)
           values (:id, :job_id, :attempt_id, :sequence, :media_type, :size_bytes, :sha256, :duration_ms,
                   :blob_id, :now)""",
        id=new.segment_id,
        job_id=job_id,
        attempt_id=attempt_id,
        sequence=new.sequence,
        media_type=media_type,
        size_bytes=new.blob.size_bytes,
        sha256=new.blob.sha256,
        duration_ms=new.duration_ms,
        blob_id=new.blob.blob_id,
        now=now_ms,
    )


def has_segment(tx: Transaction, segment_id: str) -> bool:
    return tx.one("select 1 as one from segment where id = :id", id=segment_id) is not None


def newest_with_segments(tx: Transaction, job_id: str) -> str | None:
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


def segments(tx: Transaction, attempt_id: str, limit: int) -> list[Segment]:
    return records.all_records(
        tx,
        Segment,
        """select id as segment_id, attempt_id, sequence, media_type, size_bytes, sha256, duration_ms,
                  'segment' as object
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


# --- finished chunks, in the table `part` ----------------------------------------------------------------


def add_chunk(
    tx: Transaction, key: ChunkKey, *, job_id: str, attempt_id: str, transcript: str, now_ms: int
) -> None:
    """Store a finished chunk; one that was redone replaces the unusable one."""
    tx.run(
        """insert into part (job_id, role, number, start_frame, end_frame, model_id, model_revision,
                             transcript, attempt_id, created_at)
           values (:job_id, :role, :number, :start_frame, :end_frame, :model_id, :model_revision,
                   :transcript, :attempt_id, :now)
           on conflict (job_id, role, number) do update set
               start_frame = excluded.start_frame, end_frame = excluded.end_frame,
               model_id = excluded.model_id, model_revision = excluded.model_revision,
               transcript = excluded.transcript, attempt_id = excluded.attempt_id,
               created_at = excluded.created_at""",
        **asdict(key),
        job_id=job_id,
        transcript=transcript,
        attempt_id=attempt_id,
        now=now_ms,
    )


def chunks(tx: Transaction, job_id: str) -> list[tuple[ChunkKey, str]]:
    """The chunks of a job with their transcripts, as JSON."""
    rows = tx.all(
        """select role, number, start_frame, end_frame, model_id, model_revision, transcript
           from part where job_id = :job_id order by role, number""",
        job_id=job_id,
    )
    return [(records.made(ChunkKey, row), row["transcript"]) for row in rows]


def remove_final_chunks(tx: Transaction) -> int:
    return tx.run(
        """delete from part where job_id in (
               select j.id from job j where j.state in ('succeeded', 'failed', 'cancelled')
                 and exists (select 1 from part p where p.job_id = j.id))"""
    )


def newest_attempt(tx: Transaction, job_id: str) -> str | None:
    """The attempt that the job names; None before its first one."""
    row = tx.one("select attempt_id from job where id = :id", id=job_id)
    return None if row is None or row["attempt_id"] is None else str(row["attempt_id"])


def has_kept(tx: Transaction, attempt_id: str) -> bool:
    """Whether the database keeps the attempt's result."""
    return (
        tx.one("select 1 from kept_result where attempt_id = :id and sequence = 0", id=attempt_id) is not None
    )


def _sequence(changed: Row | None) -> int | None:
    """The number of the transition's event; None: another transaction was first."""
    return None if changed is None else int(changed["event_sequence"])
