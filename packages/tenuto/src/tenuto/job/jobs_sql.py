"""The rows of jobs and their events. Takes a transaction, never commits.

Every change of a job's state is an update that names the states (`states.Move`) and the attempt it starts
from; None or 0 rows means that another transaction was first, and nothing more may then be written.

Queries that need an index of two columns compare both columns as a row: with an equality on the first, the
planner could choose another index that has the same order and covers every job ever made. 'joc' is greater
than any id of a job.

Written by `scripts/sql_calls.py` from `jobs.sql`: change that.
"""

import msgspec

from tenuto.db import records
from tenuto.db.database import Deferred, Transaction


class BoundKey(msgspec.Struct, frozen=True):
    """What `bound` returns."""

    body_sha256: str
    job_id: str


class NewestKey(msgspec.Struct, frozen=True):
    """What `newest_key` returns."""

    idempotency_key: str
    job_id: str


class NewJob(msgspec.Struct, frozen=True):
    """What `insert_job` writes."""

    job_id: str
    account_id: str
    key_id: str
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
    title: str | None
    search_text: str | None
    voice_id: str | None
    traceparent: str | None


class OwnedJob(msgspec.Struct, frozen=True):
    """What `owned` returns."""

    id: str
    model: str
    state: str
    attempt_id: str | None
    """The newest attempt; set by claim, kept when the job ends."""


class LockedJob(msgspec.Struct, frozen=True):
    """What `locked` returns."""

    id: str
    account_id: str
    kind: str
    state: str
    parameters: str
    deadline_at: int
    attempt_id: str | None
    """The newest attempt; set by claim, kept when the job ends."""
    error_code: str | None


class CancelNoted(msgspec.Struct, frozen=True):
    """What `note_cancel` returns."""

    event_sequence: int
    """The sequence of the newest event; rises with every transition."""
    attempt_id: str | None
    """The newest attempt; set by claim, kept when the job ends."""


class WaitingJob(msgspec.Struct, frozen=True):
    """What `in_recovery` returns."""

    id: str
    kind: str
    model: str
    account_id: str
    account_name: str
    created_at: int
    started_at: int | None
    attempts: int
    """Attempts made so far, and how many of them ended with the host or the worker lost."""
    hold_micros: int
    error_code: str | None
    error_message: str | None


def ask_bind_key(
    tx: Transaction, key_id: str, idempotency_key: str, *, body_sha256: str, job_id: str, now_ms: int
) -> Deferred:
    """Bind the idempotency key to the job; no row is changed if it is already bound."""
    return tx.ask(
        """
        insert into idempotency (key_id, idempotency_key, body_sha256, job_id, created_at)
        values (:key_id, :idempotency_key, :body_sha256, :job_id, :now_ms)
        on conflict (key_id, idempotency_key) do nothing
        """,
        key_id=key_id,
        idempotency_key=idempotency_key,
        body_sha256=body_sha256,
        job_id=job_id,
        now_ms=now_ms,
    )


def bound(tx: Transaction, key_id: str, idempotency_key: str) -> BoundKey | None:
    return records.one(
        tx,
        BoundKey,
        """
        select body_sha256, job_id from idempotency where key_id = :key_id and idempotency_key = :idempotency_key
        """,
        key_id=key_id,
        idempotency_key=idempotency_key,
    )


def traceparent(tx: Transaction, job_id: str) -> str | None:
    """The trace of the request that made the job; None: it named none."""
    row = tx.one(
        """
        select traceparent from job where id = :job_id
        """,
        job_id=job_id,
    )
    return None if row is None or row["traceparent"] is None else str(row["traceparent"])


def set_waiter(tx: Transaction, job_id: str, waiter: str) -> int:
    """Record the API process whose client waits for the queued job; no effect if it is not queued."""
    return tx.run(
        """
        update job set waited_by = :waiter where id = :job_id and state = 'queued'
        """,
        job_id=job_id,
        waiter=waiter,
    )


def waiter(tx: Transaction, job_id: str) -> str | None:
    """The API process that took the job over; None: the one that accepted it still has it."""
    row = tx.one(
        """
        select waited_by from job where id = :job_id
        """,
        job_id=job_id,
    )
    return None if row is None or row["waited_by"] is None else str(row["waited_by"])


def newest_key(tx: Transaction, key_id: str, since: str, until: str) -> NewestKey | None:
    """The last of this API key's idempotency keys from `since` to `until`, of letters and digits."""
    return records.one(
        tx,
        NewestKey,
        """
        select idempotency_key, job_id from idempotency
        where key_id = :key_id and idempotency_key >= :since and idempotency_key <= :until
        order by idempotency_key desc limit 1
        """,
        key_id=key_id,
        since=since,
        until=until,
    )


def insert_job(tx: Transaction, new: NewJob) -> None:
    """All that is frozen when a job is accepted."""
    tx.do(
        """
        insert into job (id, account_id, key_id, kind, model, lane, state,
               body, parameters, metadata, input_artifact_ids,
                         characters, rerunnable, hold_micros, price_micros, price_unit, created_at, deadline_at,
                         title,
                         search_text, voice_id, traceparent, event_sequence)
        values (:job_id, :account_id, :key_id, :kind, :model, :lane, 'queued', :body, :parameters, :metadata,
                :input_artifact_ids, :characters, :rerunnable, :hold_micros, :price_micros, :price_unit, :created_at,
                :deadline_at, :title, :search_text, :voice_id, :traceparent, 0)
        """,
        **msgspec.structs.asdict(new),
    )


def add_recording(tx: Transaction, job_id: str, blob_id: str) -> None:
    tx.do(
        """
        insert into job_recording (job_id, blob_id) values (:job_id, :blob_id)
        """,
        job_id=job_id,
        blob_id=blob_id,
    )


def insert_event(
    tx: Transaction,
    job_id: str,
    sequence: int,
    type_: str,
    *,
    now_ms: int,
    attempt_id: str | None,
    detail: str | None,
    operator: str | None,
    note: str | None,
) -> None:
    """An event of the job; `operator` decided, which callers do not see.

    Its position is never below that of the job's previous event, nor below the transaction's own number, so
    a reader that follows the positions misses nothing and sees each job's events in order (`feed`).
    """
    tx.do(
        """
        insert into event (job_id, sequence, type, attempt_id, detail, operator, note, at, account_id, position)
        values (:job_id, :sequence, :type_, :attempt_id, :detail, :operator, :note, :now_ms,
                (select account_id from job where id = :job_id),
                (select max(number) from (
                     select coalesce(transaction_number(),
                                     (select max(position) from event where position is not null) + 1, 1) as number
                     union all
                     select position from event where job_id = :job_id and sequence = :sequence - 1) as earliest))
        """,
        job_id=job_id,
        sequence=sequence,
        type_=type_,
        now_ms=now_ms,
        attempt_id=attempt_id,
        detail=detail,
        operator=operator,
        note=note,
    )


def owned(tx: Transaction, job_id: str, account_id: str) -> OwnedJob | None:
    """A job of the caller's, locked: enough to decide whether it can be cancelled or erased."""
    return records.one(
        tx,
        OwnedJob,
        """
        select id, model, state, attempt_id from job where id = :job_id and account_id = :account_id for update
        """,
        job_id=job_id,
        account_id=account_id,
    )


def locked(tx: Transaction, job_id: str) -> LockedJob | None:
    return records.one(
        tx,
        LockedJob,
        """
        select id, account_id, kind, state, parameters, deadline_at, attempt_id, error_code
        from job where id = :job_id for update
        """,
        job_id=job_id,
    )


def end_queued(
    tx: Transaction,
    job_id: str,
    state: str,
    *,
    error_code: str | None,
    error_message: str | None,
    now_ms: int,
) -> int | None:
    """queued → cancelled | failed, before any worker took it. Returns the number of the event, as do all
    below.
    """
    row = tx.one(
        """
        update job set state = :state, error_code = :error_code,
               error_message = :error_message, finished_at = :now_ms,
               event_sequence = event_sequence + 1,
               cancel_requested_at = case when :state = 'cancelled' then cast(:now_ms as bigint) end
        where id = :job_id and state in ('queued')
        returning event_sequence
        """,
        job_id=job_id,
        state=state,
        error_code=error_code,
        error_message=error_message,
        now_ms=now_ms,
    )
    return None if row is None or row["event_sequence"] is None else int(row["event_sequence"])


def note_cancel(tx: Transaction, job_id: str, now_ms: int) -> CancelNoted | None:
    """Record the first request to cancel a running job; None if there already was one."""
    return records.one(
        tx,
        CancelNoted,
        """
        update job set cancel_requested_at = :now_ms, event_sequence = event_sequence + 1
        where id = :job_id and state = 'running' and cancel_requested_at is null
        returning event_sequence, attempt_id
        """,
        job_id=job_id,
        now_ms=now_ms,
    )


def overdue(tx: Transaction, lane: str, now_ms: int, *, limit: int, after: str, least: int) -> list[str]:
    """Queued jobs past their deadline (see `is_overdue`); all get equally long, so only the lane's oldest are
    examined, after this one.
    """
    return [
        str(row["id"])
        for row in tx.all(
            """
        select id from (
            select id, deadline_at from job
            where state = 'queued' and (lane, id) > (:lane, :after) and (lane, id) < (:lane, 'joc')
              and deadline_at >= :least
            order by lane, id limit :limit) as oldest
        where deadline_at <= :now_ms order by id
        """,
            lane=lane,
            now_ms=now_ms,
            limit=limit,
            after=after,
            least=least,
        )
    ]


def in_recovery(tx: Transaction) -> list[WaitingJob]:
    """Jobs in `recovery_required`, as operators see them in a list."""
    return records.all_records(
        tx,
        WaitingJob,
        """
        select j.id, j.kind, j.model, j.account_id, a.name as account_name, j.created_at, j.started_at, j.attempts,
               j.hold_micros, j.error_code, j.error_message
        from job j join account a on a.id = j.account_id
        where j.state = 'recovery_required' order by j.id limit 10000
        """,
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
    row = tx.one(
        """
        update job set state = :state, error_code = :error_code,
               error_message = :error_message, finished_at = :now_ms,
               event_sequence = event_sequence + 1
        where id = :job_id and state in ('recovery_required')
        returning event_sequence
        """,
        job_id=job_id,
        state=state,
        error_code=error_code,
        error_message=error_message,
        now_ms=now_ms,
    )
    return None if row is None or row["event_sequence"] is None else int(row["event_sequence"])


def requeue_recovery(tx: Transaction, job_id: str) -> int | None:
    """recovery_required → queued, by an operator who accepts that the call may be paid for twice."""
    row = tx.one(
        """
        update job set state = 'queued', error_code = null, error_message = null, cancel_requested_at = null,
               event_sequence = event_sequence + 1
        where id = :job_id and state in ('recovery_required')
        returning event_sequence
        """,
        job_id=job_id,
    )
    return None if row is None or row["event_sequence"] is None else int(row["event_sequence"])


def reopen_attempt(tx: Transaction, attempt_id: str) -> int:
    """Reopen an attempt of unknown outcome that recorded a result, so that it can be settled."""
    return tx.run(
        """
        update attempt set state = 'recorded', outcome = null, ended_at = null
        where id = :attempt_id and state = 'ended' and outcome = 'unknown' and blob_id is not null
        """,
        attempt_id=attempt_id,
    )


def erase_job(tx: Transaction, job_id: str, now_ms: int) -> int:
    """The request is erased; what was charged, and when, stays."""
    return tx.run(
        """
        update job set body = '', parameters = '{}', title = '', search_text = '',
               erased_at = coalesce(erased_at, :now_ms)
        where id = :job_id and state in ('succeeded', 'failed', 'cancelled')
        """,
        job_id=job_id,
        now_ms=now_ms,
    )


def recorded_blobs(tx: Transaction, job_id: str) -> list[str]:
    return [
        str(row["blob_id"])
        for row in tx.all(
            """
        select blob_id from attempt where job_id = :job_id and blob_id is not null limit 10000
        """,
            job_id=job_id,
        )
    ]


def erase_attempts(tx: Transaction, job_id: str) -> int:
    """Results are erased, and whatever may quote what the engine was given."""
    return tx.run(
        """
        update attempt set blob_id = null, evidence = null, result_metadata = null, progress = null
        where job_id = :job_id
        """,
        job_id=job_id,
    )


def forget_blob(tx: Transaction, job_id: str, blob_id: str) -> int:
    return tx.run(
        """
        update attempt set blob_id = null where job_id = :job_id and blob_id = :blob_id
        """,
        job_id=job_id,
        blob_id=blob_id,
    )


def segment_blobs(tx: Transaction, job_id: str) -> list[str]:
    return [
        str(row["blob_id"])
        for row in tx.all(
            """
        select blob_id from segment where job_id = :job_id and blob_id is not null
        """,
            job_id=job_id,
        )
    ]


def erase_segments(tx: Transaction, job_id: str) -> int:
    return tx.run(
        """
        update segment set blob_id = null where job_id = :job_id
        """,
        job_id=job_id,
    )


def remove_chunks(tx: Transaction, job_id: str) -> int:
    return tx.run(
        """
        delete from part where job_id = :job_id
        """,
        job_id=job_id,
    )


def remove_kept_result(tx: Transaction, job_id: str) -> int:
    return tx.run(
        """
        delete from kept_result where job_id = :job_id
        """,
        job_id=job_id,
    )


def is_needed(tx: Transaction, account_id: str, named: str) -> bool:
    """Whether an open job of the account has just these inputs (a JSON array): a look-up in an index.

    One statement, so that it sees one moment: between two, a job could move to where the first has already
    looked.
    """
    return (
        tx.one(
            """
        select 1 as one from job
        where account_id = :account_id and input_artifact_ids = :named and finished_at is null
          and input_artifact_ids <> '[]'
        limit 1
        """,
            account_id=account_id,
            named=named,
        )
        is not None
    )


def final_before(tx: Transaction, finished_before: int, limit: int) -> list[str]:
    return [
        str(row["id"])
        for row in tx.all(
            """
        select id from job where finished_at < :finished_before and finished_at is not null and erased_at is null
        order by finished_at limit :limit for update skip locked
        """,
            finished_before=finished_before,
            limit=limit,
        )
    ]
