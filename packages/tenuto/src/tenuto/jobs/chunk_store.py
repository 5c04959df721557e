"""The rows of finished chunks, in the table `part`. Takes a transaction, never commits, decides nothing."""

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.jobs.rows import ChunkRow


def add(
    tx: Transaction,
    *,
    job_id: str,
    attempt_id: str,
    role: str,
    number: int,
    start_frame: int,
    end_frame: int,
    model_id: str,
    model_revision: str,
    transcript: str,
    now_ms: int,
) -> None:
    """A chunk that was made again replaces one that could not be used."""
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
        job_id=job_id,
        role=role,
        number=number,
        start_frame=start_frame,
        end_frame=end_frame,
        model_id=model_id,
        model_revision=model_revision,
        transcript=transcript,
        attempt_id=attempt_id,
        now=now_ms,
    )


def of_job(tx: Transaction, job_id: str) -> list[ChunkRow]:
    return records.all_records(
        tx,
        ChunkRow,
        """select role, number, start_frame, end_frame, model_id, model_revision, transcript
           from part where job_id = :job_id order by role, number""",
        job_id=job_id,
    )


def remove_of_final(tx: Transaction) -> int:
    return tx.run(
        """delete from part where job_id in (
               select j.id from job j where j.state in ('succeeded', 'failed', 'cancelled')
                 and exists (select 1 from part p where p.job_id = j.id))"""
    )
