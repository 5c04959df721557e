"""The rows of jobs and their events. Takes a transaction, never commits.

Every change of a job's state is an update that names the states (`states.Move`) and the attempt it starts
from; None or 0 rows means that another transaction was first, and nothing more may then be written.
"""

import msgspec
from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Deferred, Row, Transaction
from tenuto.job.rows import BoundKey, CancelNoted, JobRow, NewestKey, OwnedJob, WaitingJob
from tenuto.job.states import DECIDE, END_QUEUED, LEAST_DEADLINE_MS, Decision

AFTER_ALL = "joc"
"""Greater than any id of a job.

Queries that need an index of two columns compare both columns as a row: with an equality on the first, the
planner could choose another index that has the same order and covers every job ever made.
"""


_JOB = records.columns(JobRow, "j")


class NewJob(msgspec.Struct, frozen=True):
    """All that is frozen when a job is accepted; each column as in `JobRow`."""

    job_id: str
    account_id: str
    key_id: str
    idempotency_key: str
    body_sha256: str
    kind: str
    model: str
    lane: str
    body: str
    parameters: str
    metadata: str
    input_artifact_ids: str
    characters: int
    rerunnable: int
    hold_micros: int
    price_micros: int
    price_unit: str
    created_at: int
    deadline_at: int
    title: str
    search_text: str
    voice_id: str | None
    traceparent: str | None


def ask_bind_key(tx: Transaction, new: NewJob) -> Deferred:
    """Bind the idempotency key to the job; no row is changed if it is already bound."""
    return tx.ask(
        """insert into idempotency (key_id, idempotency_key, body_sha256, job_id, created_at)
           values (:key_id, :idempotency_key, :body_sha256, :job_id, :now)
           on conflict (key_id, idempotency_key) do nothing""",
        key_id=new.key_id,
        idempotency_key=new.idempotency_key,
        body_sha256=new.body_sha256,
        job_id=new.job_id,
        now=new.created_at,
    )


def bound(tx: Transaction, key_id: str, idempotency_key: str) -> BoundKey | None:
    return records.one(
        tx,
        BoundKey,
        """select body_sha256, job_id from idempotency
           where key_id = :key_id and idempotency_key = :idempotency_key""",
        key_id=key_id,
        idempotency_key=idempotency_key,
    )


def traceparent(tx: Transaction, job_id: str) -> str | None:
    """The trace of the request that made the job; None: it named none."""
    row = tx.one("select traceparent from job where id = :id", id=job_id)
    return None if row is None else row["traceparent"]


def set_waiter(tx: Transaction, job_id: str, waiter: str) -> None:
    """Record the API process whose client waits for the queued job; no effect if it is not queued."""
    tx.run(
        "update job set waited_by = :waiter where id = :job_id and state = 'queued'",
        waiter=waiter,
        job_id=job_id,
    )


def waiter(tx: Transaction, job_id: str) -> str | None:
    """The API process that took the job over; None: the one that accepted it still has it."""
    row = tx.one("select waited_by from job where id = :job_id", job_id=job_id)
    return None if row is None else row["waited_by"]


def newest_key(tx: Transaction, key_id: str, since: str, until: str) -> NewestKey | None:
    """The last of this API key's idempotency keys from `since` to `until`, of letters and digits."""
    return records.one(
        tx,
        NewestKey,
        """select idempotency_key, job_id from idempotency
           where key_id = :key_id and idempotency_key >= :since and idempotency_key <= :until
           order by idempotency_key desc limit 1""",
        key_id=key_id,
        since=since,
        until=until,
    )


def insert_job(tx: Transaction, new: NewJob) -> None:
    tx.do(
        """insert into job (id, account_id, key_id, kind, model, lane, state, body, parameters, metadata,
                            input_artifact_ids, characters, rerunnable, hold_micros, price_micros,
                            price_unit, created_at, deadline_at, title, search_text, voice_id,
                            traceparent, event_sequence)
           values (:job_id, :account_id, :key_id, :kind, :model, :lane, 'queued', :body, :parameters,
                   :metadata, :input_artifact_ids, :characters, :rerunnable, :hold_micros, :price_micros,
                   :price_unit, :created_at, :deadline_at, :title, :search_text, :voice_id,
                   :traceparent, 0)""",
        **asdict(new),
    )


def add_recording(tx: Transaction, job_id: str, blob_id: str) -> None:
    tx.do(
        "insert into job_recording (job_id, blob_id) values (:job_id, :blob_id)",
        job_id=job_id,
        blob_id=blob_id,
    )


def add_event(
    tx: Transaction,
    job_id: str,
    sequence: int,
    type_: str,
    *,
    now_ms: int,
    attempt_id: str | None = None,
    detail: str | None = None,
    by: Decision | None = None,
) -> None:
    """An event of the job; `by`: the operator who decided, which callers do not see.

    Its position is never below that of the job's previous event, nor below the transaction's own number, so
    a reader that follows the positions misses nothing and sees each job's events in order (`feed`).
    """
    tx.do(
        """insert into event (job_id, sequence, type, attempt_id, detail, operator, note, at, account_id,
                              position)
           values (:job_id, :sequence, :type, :attempt_id, :detail, :operator, :note, :now,
                   (select account_id from job where id = :job_id),
                   (select max(number) from (
                        select coalesce(transaction_number(),
                                        (select max(position) from event where position is not null) + 1,
                                        1) as number
                        union all
                        select position from event where job_id = :job_id and sequence = :sequence - 1
                    ) as earliest))""",
        job_id=job_id,
        sequence=sequence,
        type=type_,
        attempt_id=attempt_id,
        detail=detail,
        operator=None if by is None else by.operator,
        note=None if by is None else by.note,
        now=now_ms,
    )


def owned(tx: Transaction, job_id: str, account_id: str) -> OwnedJob | None:
    return records.one(
        tx,
        OwnedJob,
        "select id, model, state, attempt_id from job where id = :id and account_id = :account_id for update",
        id=job_id,
        account_id=account_id,
    )


def locked(tx: Transaction, job_id: str) -> JobRow | None:
    return records.one(tx, JobRow, f"select {_JOB} from job j where j.id = :id for update", id=job_id)  # noqa: S608 (columns)


def end_queued(
    tx: Transaction,
    job_id: str,
    state: str,
    *,
    error_code: str | None,
    error_message: str | None,
    now_ms: int,
) -> int | None:
    """queued → cancelled | failed, before any worker took it."""
    assert state in END_QUEUED.after
    changed = tx.one(
        f"""update job set state = :state, error_code = :code, error_message = :message,
                          finished_at = :now, event_sequence = event_sequence + 1,
                          cancel_requested_at = case when :state = 'cancelled' then cast(:now as bigint) end
           where id = :id and {END_QUEUED.guard} returning event_sequence""",  # noqa: S608 (states)
        id=job_id,
        state=state,
        code=error_code,
        message=error_message,
        now=now_ms,
    )
    return _sequence(changed)


def note_cancel(tx: Transaction, job_id: str, now_ms: int) -> CancelNoted | None:
    """Record the first request to cancel a running job; None if there already was one."""
    return records.one(
        tx,
        CancelNoted,
        """update job set cancel_requested_at = :now, event_sequence = event_sequence + 1
           where id = :id and state = 'running' and cancel_requested_at is null
           returning event_sequence, attempt_id""",
        id=job_id,
        now=now_ms,
    )


def overdue(tx: Transaction, lane: str, now_ms: int, limit: int, *, after: str) -> list[str]:
    """Queued jobs past their deadline (see `is_overdue`); all get equally long, so only the lane's oldest are
    examined, after this one.
    """
    rows = tx.all(
        """select id from (
               select id, deadline_at from job
               where state = 'queued' and (lane, id) > (:lane, :after) and (lane, id) < (:lane, :after_all)
                 and deadline_at >= :least
               order by lane, id limit :limit) as oldest
           where deadline_at <= :now order by id""",
        lane=lane,
        after=after,
        after_all=AFTER_ALL,
        least=LEAST_DEADLINE_MS,
        now=now_ms,
        limit=limit,
    )
    return [row["id"] for row in rows]


def in_recovery(tx: Transaction) -> list[WaitingJob]:
    return records.all_records(
        tx,
        WaitingJob,
        """select j.id, j.kind, j.model, j.account_id, a.name as account_name, j.created_at, j.started_at,
                  j.attempts, j.hold_micros, j.error_code, j.error_message
           from job j join account a on a.id = j.account_id
           where j.state = 'recovery_required' order by j.id limit 10000""",
    )


def end_recovery(
    tx: Transaction,
    job_id: str,
    state: str,
    *,
    error_code: str | None,
    error_message: str | None,
    now_ms: int,
) -> int | None:
    """recovery_required → failed | cancelled, by an operator."""
    assert state in DECIDE.after
    changed = tx.one(
        f"""update job set state = :state, error_code = :code, error_message = :message,
                          finished_at = :now, event_sequence = event_sequence + 1
           where id = :id and {DECIDE.guard} returning event_sequence""",  # noqa: S608 (states)
        id=job_id,
        state=state,
        code=error_code,
        message=error_message,
        now=now_ms,
    )
    return _sequence(changed)


def requeue_recovery(tx: Transaction, job_id: str) -> int | None:
    """recovery_required → queued, by an operator who accepts that the call may be paid for twice."""
    changed = tx.one(
        f"""update job set state = 'queued', error_code = null, error_message = null,
                          cancel_requested_at = null, event_sequence = event_sequence + 1
           where id = :id and {DECIDE.guard} returning event_sequence""",  # noqa: S608 (states)
        id=job_id,
    )
    return _sequence(changed)


def reopen_attempt(tx: Transaction, attempt_id: str) -> int:
    """Reopen an attempt of unknown outcome that recorded a result, so that it can be settled."""
    return tx.run(
        """update attempt set state = 'recorded', outcome = null, ended_at = null
           where id = :id and state = 'ended' and outcome = 'unknown' and blob_id is not null""",
        id=attempt_id,
    )


# --- erasure --------------------------------------------------------------------------------------


def erase_job(tx: Transaction, job_id: str, now_ms: int) -> None:
    """The request is erased; what was charged, and when, stays."""
    tx.run(
        """update job set body = '', parameters = '{}', title = '', search_text = '',
                          erased_at = coalesce(erased_at, :now)
           where id = :id and state in ('succeeded', 'failed', 'cancelled')""",
        id=job_id,
        now=now_ms,
    )


def recorded_blobs(tx: Transaction, job_id: str) -> list[str]:
    rows = tx.all(
        "select blob_id from attempt where job_id = :job_id and blob_id is not null limit 10000",
        job_id=job_id,
    )
    return [row["blob_id"] for row in rows]


def erase_attempts(tx: Transaction, job_id: str) -> None:
    """Results are erased, and whatever may quote what the engine was given."""
    tx.run(
        """update attempt set blob_id = null, evidence = null, result_metadata = null, progress = null
           where job_id = :job_id""",
        job_id=job_id,
    )


def forget_blob(tx: Transaction, job_id: str, blob_id: str) -> None:
    tx.run(
        "update attempt set blob_id = null where job_id = :job_id and blob_id = :blob_id",
        job_id=job_id,
        blob_id=blob_id,
    )


def segment_blobs(tx: Transaction, job_id: str) -> list[str]:
    rows = tx.all("select blob_id from segment where job_id = :job_id and blob_id is not null", job_id=job_id)
    return [row["blob_id"] for row in rows]


def erase_segments(tx: Transaction, job_id: str) -> None:
    tx.run("update segment set blob_id = null where job_id = :job_id", job_id=job_id)


def remove_chunks(tx: Transaction, job_id: str) -> None:
    tx.run("delete from part where job_id = :job_id", job_id=job_id)


def remove_kept_result(tx: Transaction, job_id: str) -> None:
    tx.run("delete from kept_result where job_id = :job_id", job_id=job_id)


def is_needed(tx: Transaction, account_id: str, artifact_id: str) -> bool:
    """Whether an open job of the account has this input, which is its only one: a look-up in an index.

    One statement, so that it sees one moment: between two, a job could move to where the first has already
    looked.
    """
    row = tx.one(
        """select 1 as one from job
           where account_id = :account_id and input_artifact_ids = :named and finished_at is null
             and input_artifact_ids <> '[]' limit 1""",
        account_id=account_id,
        named=f'["{artifact_id}"]',
    )
    return row is not None


def final_before(tx: Transaction, finished_before: int, limit: int) -> list[str]:
    rows = tx.all(
        """select id from job where finished_at < :before and finished_at is not null and erased_at is null
           order by finished_at limit :limit for update skip locked""",
        before=finished_before,
        limit=limit,
    )
    return [row["id"] for row in rows]


def _sequence(changed: Row | None) -> int | None:
    """The number of the transition's event; None: another transaction was first."""
    return None if changed is None else int(changed["event_sequence"])
