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


_START = """\
update job set state = 'running', attempt_id = :attempt_id, attempts = attempts + 1,
       started_at = coalesce(started_at, :now_ms), event_sequence = event_sequence + 1
where id = :job_id and state in ('queued')
returning event_sequence, attempts"""


def start(tx: Transaction, job_id: str, attempt_id: str | None, now_ms: int) -> DeferredRecord[Started]:
    return records.ask(tx, Started, _START, job_id=job_id, attempt_id=attempt_id, now_ms=now_ms)


_WORK = """\
select kind, model, parameters, input_artifact_ids, rerunnable, deadline_at, losses_shared, traceparent
from job where id = :job_id"""


def work(tx: Transaction, job_id: str) -> DeferredRecord[JobWork]:
    """What a worker needs to know about a job that it claims; not yet checked."""
    return records.ask(tx, JobWork, _WORK, job_id=job_id)


_UNFINISHED = """\
select id from job where id > :after and state not in ('succeeded', 'failed', 'cancelled')
    order by id limit :limit"""


def unfinished(tx: Transaction, after: str, limit: int) -> list[str]:
    """The ids of jobs that may still run, in order."""
    return [str(row["id"]) for row in tx.all(_UNFINISHED, after=after, limit=limit)]


_ADD_ATTEMPT = """\
insert into attempt (id, job_id, number, worker_id, state, started_at, heard_at, machine, pid)
values (:attempt_id, :job_id, :number, :worker_id, 'running', :now_ms, :now_ms,
        (select w.machine from worker w where w.id = :worker_id), (select w.pid from worker w
        where w.id = :worker_id))"""


def add_attempt(
    tx: Transaction, attempt_id: str, *, job_id: str, number: int, worker_id: str, now_ms: int
) -> None:
    tx.do(
        _ADD_ATTEMPT, attempt_id=attempt_id, job_id=job_id, number=number, worker_id=worker_id, now_ms=now_ms
    )


_ASK_TAKE_SLOT = """\
update slot set job_id = :job_id, attempt_id = :attempt_id
where lane = :lane and number = :number and job_id is null"""


def ask_take_slot(
    tx: Transaction, lane: str, number: int, job_id: str | None, attempt_id: str | None
) -> Deferred:
    return tx.ask(_ASK_TAKE_SLOT, lane=lane, number=number, job_id=job_id, attempt_id=attempt_id)


_ADD_TURN = """\
insert into turn (lane, account_id, served) values (:lane, :account_id, 0) on conflict (lane,
    account_id) do nothing"""


def add_turn(tx: Transaction, lane: str, account_id: str) -> None:
    tx.do(_ADD_TURN, lane=lane, account_id=account_id)


_SERVE_TURN = """\
update turn set served = (select coalesce(max(served), 0) + 1 from turn where lane = :lane)
where lane = :lane and account_id = (
    select account_id from turn where lane = :lane and account_id = :account_id and served = :seen
    for update skip locked)"""


def serve_turn(tx: Transaction, lane: str, account_id: str, seen: int) -> int:
    """Give the account its turn and the last place; 0 if another worker is doing so, or has since `seen`."""
    return tx.run(_SERVE_TURN, lane=lane, account_id=account_id, seen=seen)


_SERVE_TURN_AGAIN = """\
update turn set served = (select coalesce(max(served), 0) + 1 from turn where lane = :lane)
where lane = :lane and account_id = :account_id"""


def serve_turn_again(tx: Transaction, lane: str, account_id: str) -> int:
    """Give the account its turn and the last place, after waiting for any worker that is doing so now."""
    return tx.run(_SERVE_TURN_AGAIN, lane=lane, account_id=account_id)


_SLOTS = """\
select number, job_id from slot where lane = :lane order by number"""


def slots(tx: Transaction, lane: str) -> list[SlotRow]:
    return records.all_records(tx, SlotRow, _SLOTS, lane=lane)


_ADD_SLOT = """\
insert into slot (lane, number) values (:lane, :number) on conflict (lane, number) do nothing"""


def add_slot(tx: Transaction, lane: str, number: int) -> int:
    return tx.run(_ADD_SLOT, lane=lane, number=number)


_REMOVE_FREE_SLOTS = """\
delete from slot where lane = :lane and number > :above and job_id is null"""


def remove_free_slots(tx: Transaction, lane: str, above: int) -> int:
    return tx.run(_REMOVE_FREE_SLOTS, lane=lane, above=above)


_QUEUED = """\
select count(*) as queued from job where state = 'queued' and lane = :lane"""


def queued(tx: Transaction, lane: str) -> int:
    row = tx.one(_QUEUED, lane=lane)
    assert row is not None
    return int(row["queued"])


_OLDEST_QUEUED_AT = """\
select created_at from job where state = 'queued' and (lane, id) > (:lane, '') and (lane, id) < (:lane, 'joc')
order by lane, id limit 1"""


def oldest_queued_at(tx: Transaction, lane: str) -> int | None:
    row = tx.one(_OLDEST_QUEUED_AT, lane=lane)
    return None if row is None or row["created_at"] is None else int(row["created_at"])


_RECOVERING = """\
select count(*) as waiting from job where state = 'recovery_required' and lane = :lane"""


def recovering(tx: Transaction, lane: str) -> int:
    row = tx.one(_RECOVERING, lane=lane)
    assert row is not None
    return int(row["waiting"])


_OPEN_ATTEMPTS = """\
select t.id as attempt_id, t.job_id, t.worker_id, t.beat, w.machine, w.lock_name
from attempt t left join worker w on w.id = t.worker_id
where t.state <> 'ended' order by t.id limit 10000"""


def open_attempts(tx: Transaction) -> list[OpenAttempt]:
    """Attempts that a worker should be running, with the lock that shows whether it is alive."""
    return records.all_records(tx, OpenAttempt, _OPEN_ATTEMPTS)


_ATTEMPTS_OF_WORKER = """\
select count(*) as open from attempt where worker_id = :worker_id and state <> 'ended'"""


def attempts_of_worker(tx: Transaction, worker_id: str) -> int:
    row = tx.one(_ATTEMPTS_OF_WORKER, worker_id=worker_id)
    assert row is not None
    return int(row["open"])


_CANCEL_REQUESTS = """\
select t.id from attempt t join job j on j.id = t.job_id
where t.worker_id = :worker_id and t.state <> 'ended' and j.cancel_requested_at is not null"""


def cancel_requests(tx: Transaction, worker_id: str) -> list[str]:
    """The worker's attempts whose jobs have been cancelled by their callers."""
    return [str(row["id"]) for row in tx.all(_CANCEL_REQUESTS, worker_id=worker_id)]


_LOCK_ACCOUNT = """\
select id from account where id = :account_id for no key update"""


def lock_account(tx: Transaction, account_id: str) -> Deferred:
    """Until the transaction ends, no other submission counts what the account has queued. The same lock as
    the hold's update: inserts that only refer to the account do not wait for it.
    """
    return tx.ask(_LOCK_ACCOUNT, account_id=account_id)


_TAKE_NOTED_QUOTA = """\
update queue_room set room = room - 1
where account_id = :account_id and lane = :lane and room > 0 and noted_limit = :limit"""


def take_noted_quota(tx: Transaction, account_id: str, lane: str, limit: int) -> Deferred:
    """Take one place that was noted under this limit; no row is changed when none is left."""
    return tx.ask(_TAKE_NOTED_QUOTA, account_id=account_id, lane=lane, limit=limit)


_NOTE_FREE_QUOTA = """\
insert into queue_room (account_id, lane, room, noted_limit) values (:account_id, :lane, :room, :limit)
on conflict (account_id, lane) do update set room = :room, noted_limit = :limit"""


def note_free_quota(tx: Transaction, account_id: str, lane: str, limit: int, room: int) -> None:
    tx.do(_NOTE_FREE_QUOTA, account_id=account_id, lane=lane, limit=limit, room=room)


_QUEUED_OF_ACCOUNT = """\
select count(*) as number from (
    select 1 as one from job where state = 'queued' and lane = :lane and account_id = :account_id
    limit :limit) as waiting"""


def queued_of_account(tx: Transaction, account_id: str, lane: str, limit: int) -> DeferredRecord[Counted]:
    """How many jobs of the account wait in this lane, counted up to `limit`."""
    return records.ask(tx, Counted, _QUEUED_OF_ACCOUNT, account_id=account_id, lane=lane, limit=limit)
