"""The changes that erase what jobs and attempts hold. Takes a transaction, never commits, decides nothing."""

from tenuto.db.database import Transaction


def erase_job(tx: Transaction, job_id: str, now_ms: int) -> None:
    """What was asked for goes; what was charged and when stays."""
    tx.run(
        """update job set body = '', parameters = '{}', erased_at = coalesce(erased_at, :now)
           where id = :id and state in ('succeeded', 'failed', 'cancelled')""",
        id=job_id,
        now=now_ms,
    )


def recorded_blobs(tx: Transaction, job_id: str) -> list[str]:
    found = tx.all(
        "select blob_id from attempt where job_id = :job_id and blob_id is not null limit 10000",
        job_id=job_id,
    )
    return [row["blob_id"] for row in found]


def erase_attempts(tx: Transaction, job_id: str) -> None:
    """The evidence may quote what the engine was given."""
    tx.run("update attempt set blob_id = null, evidence = null where job_id = :job_id", job_id=job_id)


def forget_blob(tx: Transaction, job_id: str, blob_id: str) -> None:
    tx.run(
        "update attempt set blob_id = null where job_id = :job_id and blob_id = :blob_id",
        job_id=job_id,
        blob_id=blob_id,
    )


def segment_blobs(tx: Transaction, job_id: str) -> list[str]:
    found = tx.all(
        "select blob_id from segment where job_id = :job_id and blob_id is not null", job_id=job_id
    )
    return [row["blob_id"] for row in found]


def erase_segments(tx: Transaction, job_id: str) -> None:
    tx.run("update segment set blob_id = null where job_id = :job_id", job_id=job_id)


def remove_parts(tx: Transaction, job_id: str) -> None:
    tx.run("delete from part where job_id = :job_id", job_id=job_id)


def is_needed(tx: Transaction, account_id: str, lane: str, artifact_id: str) -> bool:
    """Whether an open job of the account has this input. Each state is looked up by an index of its own.

    One statement, which sees one moment: between two, a job may go from where the second looks to where the
    first one did.
    """
    row = tx.one(
        """select 1 as one from (
               select id from (
                   select id from job where state = 'queued' and lane = :lane and account_id = :account_id
                     and input_artifact_ids like :like limit 1) as queued
               union all
               select id from (
                   select j.id from slot s join job j on j.id = s.job_id
                   where j.account_id = :account_id and j.input_artifact_ids like :like limit 1) as running
               union all
               select id from (
                   select id from job where state = 'recovery_required' and account_id = :account_id
                     and input_artifact_ids like :like limit 1) as waiting) as open limit 1""",
        lane=lane,
        account_id=account_id,
        like=f"%{artifact_id}%",
    )
    return row is not None


def ended_before(tx: Transaction, finished_before: int, limit: int) -> list[str]:
    found = tx.all(
        """select id from job where finished_at < :before and finished_at is not null and erased_at is null
           order by finished_at limit :limit""",
        before=finished_before,
        limit=limit,
    )
    return [row["id"] for row in found]
