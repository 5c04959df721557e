"""The rows behind the queues: slots and turns, attempts that begin, and how many jobs an account has queued.
Takes a transaction, never commits. `queue_store` has the statements that depend on how many models a
worker offers.

Written by `scripts/sql_calls.py` from `queue.sql`: change that.
"""

import msgspec

from tenuto.db import records
from tenuto.db.database import Deferred, Transaction
from tenuto.db.records import DeferredRecord


class Started(msgspec.Struct, frozen=True):
    """What `start` returns."""

    event_sequence: int
    """The sequence of the newest event; rises with every transition."""
    attempts: int
    """Attempts made so far, and how many of them ended with the host or the worker lost."""


class JobWork(msgspec.Struct, frozen=True):
    """What `work` returns."""

    kind: str
    model: str
    parameters: str
    input_artifact_ids: str
    rerunnable: int
    """Whether the engine may run again after a lost outcome (0: it charges us by the call)."""
    deadline_at: int
    losses_shared: int
    """How often the job's process was lost while other runs were in it: never counted against the job, but
    from the second time on it runs alone. Set with the job's return to the queue.
    """
    traceparent: str | None
    """The caller's `traceparent`, checked, as it came with the request that was accepted; null: none came,
    and the trace's id follows from the job's.
    """


class SlotRow(msgspec.Struct, frozen=True):
    """What `slots` returns."""

    number: int
    job_id: str | None


class OpenAttempt(msgspec.Struct, frozen=True):
    """What `open_attempts` returns."""

    attempt_id: str
    job_id: str
    worker_id: str
    beat: int
    """Raised by the heartbeat; a rescuer compares it with what it saw before."""
    machine: str | None
    lock_name: str | None


class Counted(msgspec.Struct, frozen=True):
    """What `queued_of_account` returns."""

    number: int


def start(tx: Transaction, job_id: str, attempt_id: str | None, now_ms: int) -> DeferredRecord[Started]:
    return records.ask(
        tx,
        Started,
        """
        update job set state = 'running', attempt_id = :attempt_id, attempts = attempts + 1,
               started_at = coalesce(started_at, :now_ms), event_sequence = event_sequence + 1
        where id = :job_id and state in ('queued')
        returning event_sequence, attempts
        """,
        job_id=job_id,
        attempt_id=attempt_id,
        now_ms=now_ms,
    )


def work(tx: Transaction, job_id: str) -> DeferredRecord[JobWork]:
    """What a worker needs to know about a job that it claims; not yet checked."""
    return records.ask(
        tx,
        JobWork,
        """
        select kind, model, parameters, input_artifact_ids, rerunnable, deadline_at, losses_shared, traceparent
        from job where id = :job_id
        """,
        job_id=job_id,
    )


def unfinished(tx: Transaction, after: str, limit: int) -> list[str]:
    """The ids of jobs that may still run, in order."""
    return [
        str(row["id"])
        for row in tx.all(
            """
        select id from job where id > :after and state not in ('succeeded', 'failed', 'cancelled')
        order by id limit :limit
        """,
            after=after,
            limit=limit,
        )
    ]


def add_attempt(
    tx: Transaction, attempt_id: str, *, job_id: str, number: int, worker_id: str, now_ms: int
) -> None:
    tx.do(
        """
        insert into attempt (id, job_id, number, worker_id, state, started_at, heard_at, machine, pid)
        values (:attempt_id, :job_id, :number, :worker_id, 'running', :now_ms, :now_ms,
                (select w.machine from worker w where w.id = :worker_id), (select w.pid from worker w
                where w.id = :worker_id))
        """,
        attempt_id=attempt_id,
        job_id=job_id,
        number=number,
        worker_id=worker_id,
        now_ms=now_ms,
    )


def ask_take_slot(
    tx: Transaction, lane: str, number: int, job_id: str | None, attempt_id: str | None
) -> Deferred:
    return tx.ask(
        """
        update slot set job_id = :job_id, attempt_id = :attempt_id
        where lane = :lane and number = :number and job_id is null
        """,
        lane=lane,
        number=number,
        job_id=job_id,
        attempt_id=attempt_id,
    )


def add_turn(tx: Transaction, lane: str, account_id: str) -> None:
    tx.do(
        """
        insert into turn (lane, account_id, served) values (:lane, :account_id, 0)
        on conflict (lane, account_id) do nothing
        """,
        lane=lane,
        account_id=account_id,
    )


def serve_turn(tx: Transaction, lane: str, account_id: str, seen: int) -> int:
    """Give the account its turn and the last place; 0 if another worker is doing so, or has since `seen`."""
    return tx.run(
        """
        update turn set served = (select coalesce(max(served), 0) + 1 from turn where lane = :lane)
        where lane = :lane and account_id = (
            select account_id from turn where lane = :lane and account_id = :account_id and served = :seen
            for update skip locked)
        """,
        lane=lane,
        account_id=account_id,
        seen=seen,
    )


def serve_turn_again(tx: Transaction, lane: str, account_id: str) -> int:
    """Give the account its turn and the last place, after waiting for any worker that is doing so now."""
    return tx.run(
        """
        update turn set served = (select coalesce(max(served), 0) + 1 from turn where lane = :lane)
        where lane = :lane and account_id = :account_id
        """,
        lane=lane,
        account_id=account_id,
    )


def slots(tx: Transaction, lane: str) -> list[SlotRow]:
    return records.all_records(
        tx,
        SlotRow,
        """
        select number, job_id from slot where lane = :lane order by number
        """,
        lane=lane,
    )


def add_slot(tx: Transaction, lane: str, number: int) -> int:
    return tx.run(
        """
        insert into slot (lane, number) values (:lane, :number) on conflict (lane, number) do nothing
        """,
        lane=lane,
        number=number,
    )


def remove_free_slots(tx: Transaction, lane: str, above: int) -> int:
    return tx.run(
        """
        delete from slot where lane = :lane and number > :above and job_id is null
        """,
        lane=lane,
        above=above,
    )


def queued(tx: Transaction, lane: str) -> int:
    row = tx.one(
        """
        select count(*) as queued from job where state = 'queued' and lane = :lane
        """,
        lane=lane,
    )
    assert row is not None
    return int(row["queued"])


def oldest_queued_at(tx: Transaction, lane: str) -> int | None:
    row = tx.one(
        """
        select created_at from job where state = 'queued' and (lane, id) > (:lane, '') and (lane, id) < (:lane, 'joc')
        order by lane, id limit 1
        """,
        lane=lane,
    )
    return None if row is None or row["created_at"] is None else int(row["created_at"])


def recovering(tx: Transaction, lane: str) -> int:
    row = tx.one(
        """
        select count(*) as waiting from job where state = 'recovery_required' and lane = :lane
        """,
        lane=lane,
    )
    assert row is not None
    return int(row["waiting"])


def open_attempts(tx: Transaction) -> list[OpenAttempt]:
    """Attempts that a worker should be running, with the lock that shows whether it is alive."""
    return records.all_records(
        tx,
        OpenAttempt,
        """
        select t.id as attempt_id, t.job_id, t.worker_id, t.beat, w.machine, w.lock_name
        from attempt t left join worker w on w.id = t.worker_id
        where t.state <> 'ended' order by t.id limit 10000
        """,
    )


def attempts_of_worker(tx: Transaction, worker_id: str) -> int:
    row = tx.one(
        """
        select count(*) as open from attempt where worker_id = :worker_id and state <> 'ended'
        """,
        worker_id=worker_id,
    )
    assert row is not None
    return int(row["open"])


def cancel_requests(tx: Transaction, worker_id: str) -> list[str]:
    """The worker's attempts whose jobs have been cancelled by their callers."""
    return [
        str(row["id"])
        for row in tx.all(
            """
        select t.id from attempt t join job j on j.id = t.job_id
        where t.worker_id = :worker_id and t.state <> 'ended' and j.cancel_requested_at is not null
        """,
            worker_id=worker_id,
        )
    ]


def lock_account(tx: Transaction, account_id: str) -> Deferred:
    """Until the transaction ends, no other submission counts what the account has queued. The same lock as
    the hold's update: inserts that only refer to the account do not wait for it.
    """
    return tx.ask(
        """
        select id from account where id = :account_id for no key update
        """,
        account_id=account_id,
    )


def take_noted_quota(tx: Transaction, account_id: str, lane: str, limit: int) -> Deferred:
    """Take one place that was noted under this limit; no row is changed when none is left."""
    return tx.ask(
        """
        update queue_room set room = room - 1
        where account_id = :account_id and lane = :lane and room > 0 and noted_limit = :limit
        """,
        account_id=account_id,
        lane=lane,
        limit=limit,
    )


def note_free_quota(tx: Transaction, account_id: str, lane: str, limit: int, room: int) -> None:
    tx.do(
        """
        insert into queue_room (account_id, lane, room, noted_limit) values (:account_id, :lane, :room, :limit)
        on conflict (account_id, lane) do update set room = :room, noted_limit = :limit
        """,
        account_id=account_id,
        lane=lane,
        limit=limit,
        room=room,
    )


def queued_of_account(tx: Transaction, account_id: str, lane: str, limit: int) -> DeferredRecord[Counted]:
    """How many jobs of the account wait in this lane, counted up to `limit`."""
    return records.ask(
        tx,
        Counted,
        """
        select count(*) as number from (
            select 1 as one from job where state = 'queued' and lane = :lane and account_id = :account_id
            limit :limit) as waiting
        """,
        account_id=account_id,
        lane=lane,
        limit=limit,
    )
