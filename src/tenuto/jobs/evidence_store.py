"""The queries behind the evidence of a job. Takes a transaction, changes nothing."""

from tenuto.db.database import Row, Transaction


def job(tx: Transaction, job_id: str) -> Row | None:
    """The job with its account and what its key was bound to."""
    return tx.one(
        """select j.*, a.name as account_name, a.available_micros, a.held_micros, i.idempotency_key,
                  i.body_sha256
           from job j join account a on a.id = j.account_id left join idempotency i on i.job_id = j.id
           where j.id = :id""",
        id=job_id,
    )


def attempts(tx: Transaction, job_id: str) -> list[Row]:
    """Every attempt with its recorded bytes, and what is still known of its worker."""
    return tx.all(
        """select t.*, b.size_bytes, b.sha256, b.block_crcs, b.condemned_at, w.seen_at
           from attempt t left join blob b on b.id = t.blob_id left join worker w on w.id = t.worker_id
           where t.job_id = :job_id order by t.number limit 10000""",
        job_id=job_id,
    )


def segments(tx: Transaction, job_id: str) -> list[Row]:
    """What each attempt has shown of its sound."""
    return tx.all(
        """select attempt_id, count(*) as segments, cast(sum(size_bytes) as bigint) as size_bytes,
                  cast(sum(duration_ms) as bigint) as duration_ms
           from segment where job_id = :job_id group by attempt_id order by attempt_id""",
        job_id=job_id,
    )


def parts(tx: Transaction, job_id: str) -> list[Row]:
    return tx.all(
        """select role, number, start_frame, end_frame, model_id, model_revision, attempt_id, created_at
           from part where job_id = :job_id order by role, number""",
        job_id=job_id,
    )


def events(tx: Transaction, job_id: str) -> list[Row]:
    return tx.all(
        """select sequence, at, type, attempt_id, detail, operator, note from event
           where job_id = :job_id order by sequence limit 10000""",
        job_id=job_id,
    )


def entries(tx: Transaction, job_id: str) -> list[Row]:
    """The job's lines of the ledger: three look-ups, for each of which there is an index."""
    return tx.all(
        """select * from (select * from entry where job_id = :job_id and type = 'hold'
                          union all
                          select * from entry where job_id = :job_id and type in ('settle', 'void')
                          union all
                          select * from entry where job_id = :job_id and type = 'adjust') as lines
           order by id limit 1000""",
        job_id=job_id,
    )
