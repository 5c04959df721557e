"""The rows behind the queues: which accounts wait in a lane for an engine of this worker and which job is
next, slots and turns, and how many jobs an account has queued. Takes a transaction, never commits.

Statements that look for work do so once for each model that the worker offers, so that jobs for other engines
cost nothing: their workers may be away for days.
"""

from collections.abc import Sequence
from functools import lru_cache

from tenuto.db import records
from tenuto.db.database import Deferred, Transaction
from tenuto.db.records import DeferredRecord
from tenuto.job.rows import Counted, FreeSlot, JobWork, OpenAttempt, SlotRow, Started, WaitingAccount
from tenuto.job.states import MAX_PAUSE_MS, START
from tenuto.job.store import AFTER_ALL

CANDIDATES = 4
"""How many of an account's jobs of each model are considered, to find one that is not locked."""

# In this form it matches the predicate of one index only (see its migration), so that a queue which
# PostgreSQL's statistics do not reflect is never read from end to end.
_QUEUED = "state || '' = 'queued'"
# In this form it matches no index, so the few candidates are looked up by their ids: the planner estimates a
# queue at 1/200 of the table, whatever its length, and would read all of it instead.
_STILL_QUEUED = "j.state || '' || '' = 'queued'"
# A pause that ends later than any pause can was set before the clock was set back: it is ignored.
# The index's columns are compared as rows, and all are in the `order by`: with equalities, the planner could
# use another index that has the same order and covers every job ever made.
_WAITING = f"""{_QUEUED} and (lane, model) >= (:lane, :{{model}}) and (lane, model) <= (:lane, :{{model}})
              and (not_before_at <= :now or not_before_at > :latest)"""
# After the account's last possible id: by the account alone, SQLite would step over each of its jobs.
_BEHIND = f"""{_QUEUED} and (lane, model, account_id, id) > (:lane, :{{model}}, w.account_id, '{AFTER_ALL}')
             and (lane, model) <= (:lane, :{{model}})
             and (not_before_at <= :now or not_before_at > :latest)"""
_OF_ACCOUNT = f"""{_QUEUED} and (lane, model, account_id) >= (:lane, :{{model}}, :account_id)
                 and (lane, model, account_id) <= (:lane, :{{model}}, :account_id)
                 and (not_before_at <= :now or not_before_at > :latest)"""
_FIRST = "order by lane, model, account_id, id"


def next_accounts(
    tx: Transaction, lane: str, models: Sequence[str], now_ms: int, limit: int
) -> list[WaitingAccount]:
    """The accounts with work in the lane, the one served longest ago first; `served` is null for a new one.

    The recursion steps from one waiting account to the next with one index lookup for each model, so that an
    account's twenty thousand jobs cost no more than one.
    """
    return records.all_records(
        tx, WaitingAccount, _next_accounts(len(models)), **_parameters(lane, models, now_ms), limit=limit
    )


def oldest_queued(
    tx: Transaction, lane: str, account_id: str, models: Sequence[str], now_ms: int
) -> str | None:
    """The id of the account's oldest job that this worker can run, locked; nothing else of it is read."""
    row = tx.one(_oldest_queued(len(models)), **_parameters(lane, models, now_ms), account_id=account_id)
    return None if row is None else str(row["id"])


def ask_work(tx: Transaction, lane: str, models: Sequence[str], now_ms: int) -> Deferred:
    """A row if there is something to claim in the lane."""
    return tx.ask(_has_work(len(models)), **_parameters(lane, models, now_ms))


def ask_free_slot(
    tx: Transaction, lane: str, models: Sequence[str], now_ms: int, slots: int
) -> DeferredRecord[FreeSlot]:
    """A free slot among the first `slots`; it is locked, which is a write, only if there is work."""
    return records.ask(
        tx,
        FreeSlot,
        f"""select number from slot
            where lane = :lane and job_id is null and number <= :slots and exists ({_has_work(len(models))})
            order by number limit 1 for update skip locked""",  # noqa: S608 (texts of this file)
        **_parameters(lane, models, now_ms),
        slots=slots,
    )


def start(tx: Transaction, job_id: str, attempt_id: str, now_ms: int) -> DeferredRecord[Started]:
    return records.ask(
        tx,
        Started,
        f"""update job set state = 'running', attempt_id = :attempt_id, attempts = attempts + 1,
                           started_at = coalesce(started_at, :now), event_sequence = event_sequence + 1
            where id = :id and {START.guard} returning event_sequence, attempts""",  # noqa: S608 (states)
        id=job_id,
        attempt_id=attempt_id,
        now=now_ms,
    )


def work(tx: Transaction, job_id: str) -> DeferredRecord[JobWork]:
    """What a worker needs to know about a job."""
    return records.ask(
        tx,
        JobWork,
        """select kind, model, parameters, input_artifact_ids, rerunnable, deadline_at, losses_shared,
                  traceparent
           from job where id = :id""",
        id=job_id,
    )


def unfinished(tx: Transaction, after: str, limit: int) -> list[str]:
    """The ids of jobs that may still run, in order."""
    rows = tx.all(
        """select id from job where id > :after and state not in ('succeeded', 'failed', 'cancelled')
           order by id limit :limit""",
        after=after,
        limit=limit,
    )
    return [row["id"] for row in rows]


def add_attempt(
    tx: Transaction, attempt_id: str, *, job_id: str, number: int, worker_id: str, now_ms: int
) -> None:
    tx.do(
        """insert into attempt (id, job_id, number, worker_id, state, started_at, heard_at, machine, pid)
           values (:id, :job_id, :number, :worker_id, 'running', :now, :now,
                   (select w.machine from worker w where w.id = :worker_id),
                   (select w.pid from worker w where w.id = :worker_id))""",
        id=attempt_id,
        job_id=job_id,
        number=number,
        worker_id=worker_id,
        now=now_ms,
    )


def ask_take_slot(tx: Transaction, lane: str, number: int, job_id: str, attempt_id: str) -> Deferred:
    return tx.ask(
        """update slot set job_id = :job_id, attempt_id = :attempt_id
           where lane = :lane and number = :number and job_id is null""",
        lane=lane,
        number=number,
        job_id=job_id,
        attempt_id=attempt_id,
    )


def add_turn(tx: Transaction, lane: str, account_id: str) -> None:
    tx.do(
        """insert into turn (lane, account_id, served) values (:lane, :account_id, 0)
           on conflict (lane, account_id) do nothing""",
        lane=lane,
        account_id=account_id,
    )


def serve_turn(tx: Transaction, lane: str, account_id: str, *, seen: int) -> int:
    """Give the account its turn and the last place; 0 if another worker is doing so, or has since `seen`."""
    return tx.run(
        """update turn set served = (select coalesce(max(served), 0) + 1 from turn where lane = :lane)
           where lane = :lane and account_id = (
               select account_id from turn
               where lane = :lane and account_id = :account_id and served = :seen for update skip locked)""",
        lane=lane,
        account_id=account_id,
        seen=seen,
    )


def serve_turn_again(tx: Transaction, lane: str, account_id: str) -> None:
    """Give the account its turn and the last place, after waiting for any worker that is doing so now."""
    tx.run(
        """update turn set served = (select coalesce(max(served), 0) + 1 from turn where lane = :lane)
           where lane = :lane and account_id = :account_id""",
        lane=lane,
        account_id=account_id,
    )


# --- lanes -------------------------------------------------------------------------------------------


def slots(tx: Transaction, lane: str) -> list[SlotRow]:
    return records.all_records(
        tx, SlotRow, "select number, job_id from slot where lane = :lane order by number", lane=lane
    )


def add_slot(tx: Transaction, lane: str, number: int) -> None:
    tx.run(
        """insert into slot (lane, number) values (:lane, :number)
           on conflict (lane, number) do nothing""",
        lane=lane,
        number=number,
    )


def remove_free_slots(tx: Transaction, lane: str, above: int) -> None:
    tx.run(
        "delete from slot where lane = :lane and number > :above and job_id is null", lane=lane, above=above
    )


def queued(tx: Transaction, lane: str) -> int:
    row = tx.one("select count(*) as queued from job where state = 'queued' and lane = :lane", lane=lane)
    assert row is not None
    return int(row["queued"])


def oldest_queued_at(tx: Transaction, lane: str) -> int | None:
    row = tx.one(
        """select created_at from job where state = 'queued' and (lane, id) > (:lane, '')
           and (lane, id) < (:lane, :after_all) order by lane, id limit 1""",
        lane=lane,
        after_all=AFTER_ALL,
    )
    return None if row is None else int(row["created_at"])


def recovering(tx: Transaction, lane: str) -> int:
    row = tx.one(
        "select count(*) as waiting from job where state = 'recovery_required' and lane = :lane", lane=lane
    )
    assert row is not None
    return int(row["waiting"])


def open_attempts(tx: Transaction) -> list[OpenAttempt]:
    """Attempts that a worker should be running, with the lock that shows whether it is alive."""
    return records.all_records(
        tx,
        OpenAttempt,
        """select t.id as attempt_id, t.job_id, t.worker_id, t.beat, w.machine, w.lock_name
           from attempt t left join worker w on w.id = t.worker_id
           where t.state <> 'ended' order by t.id limit 10000""",
    )


def attempts_of_worker(tx: Transaction, worker_id: str) -> int:
    row = tx.one(
        "select count(*) as open from attempt where worker_id = :id and state <> 'ended'", id=worker_id
    )
    assert row is not None
    return int(row["open"])


def cancel_requests(tx: Transaction, worker_id: str) -> list[str]:
    """The worker's attempts whose jobs have been cancelled by their callers."""
    rows = tx.all(
        """select t.id from attempt t join job j on j.id = t.job_id
           where t.worker_id = :worker_id and t.state <> 'ended' and j.cancel_requested_at is not null""",
        worker_id=worker_id,
    )
    return [row["id"] for row in rows]


# --- quota -------------------------------------------------------------------------------------------


def lock_account(tx: Transaction, account_id: str) -> None:
    """Until the transaction ends, no other submission counts what the account has queued."""
    # The same lock as the hold's update: inserts that only refer to the account do not wait for it.
    tx.ask("select id from account where id = :id for no key update", id=account_id)


def take_noted_quota(tx: Transaction, account_id: str, lane: str, limit: int) -> Deferred:
    """Take one place that was noted under this limit; no row is changed when none is left."""
    return tx.ask(
        """update queue_room set room = room - 1
           where account_id = :account_id and lane = :lane and room > 0 and noted_limit = :limit""",
        account_id=account_id,
        lane=lane,
        limit=limit,
    )


def note_free_quota(tx: Transaction, account_id: str, lane: str, limit: int, room: int) -> None:
    tx.do(
        """insert into queue_room (account_id, lane, room, noted_limit)
           values (:account_id, :lane, :room, :limit)
           on conflict (account_id, lane) do update set room = :room, noted_limit = :limit""",
        account_id=account_id,
        lane=lane,
        room=room,
        limit=limit,
    )


def queued_of_account(tx: Transaction, account_id: str, lane: str, limit: int) -> DeferredRecord[Counted]:
    """How many jobs of the account wait in this lane, counted up to `limit`."""
    return records.ask(
        tx,
        Counted,
        """select count(*) as number from (
               select 1 as one from job where state = 'queued' and lane = :lane and account_id = :account_id
               limit :limit) as waiting""",
        account_id=account_id,
        lane=lane,
        limit=limit,
    )


# --- statements by the number of models -----------------------------------------------------------------


@lru_cache
def _next_accounts(models: int) -> str:
    first = _for_each(models, _WAITING, "account_id", f"{_FIRST} limit 1")
    following = _for_each(models, _BEHIND, "account_id", f"{_FIRST} limit 1")
    return f"""
        with recursive waiting (account_id) as (
            select min(account_id) from ({first}) as firsts
            union all
            select (select min(account_id) from ({following}) as followers)
            from waiting w where w.account_id is not null)
        select w.account_id, t.served from waiting w
        left join turn t on t.lane = :lane and t.account_id = w.account_id
        where w.account_id is not null
        order by coalesce(t.served, 0), w.account_id limit :limit"""  # noqa: S608 (texts of this file)


@lru_cache
def _oldest_queued(models: int) -> str:
    if models == 1:
        return f"""
            select id from job where {_OF_ACCOUNT.format(model="model_0")}
            {_FIRST} limit 1 for update skip locked"""  # noqa: S608 (texts of this file)
    candidates = _for_each(models, _OF_ACCOUNT, "id", f"{_FIRST} limit {CANDIDATES}")
    return f"""
        select j.id from ({candidates}) as candidate join job j on j.id = candidate.id
        where {_STILL_QUEUED} order by j.id limit 1 for update of j skip locked"""  # noqa: S608


@lru_cache
def _has_work(models: int) -> str:
    return f"{_for_each(models, _WAITING, 'id', f'{_FIRST} limit 1')} limit 1"


def _for_each(models: int, condition: str, column: str, first: str) -> str:
    """One index lookup for each model, combined."""
    selects = [
        f"""select {column} from (
                select {column} from job where {condition.format(model=name)} {first}) as of_{name}"""  # noqa: S608
        for name in (f"model_{number}" for number in range(models))
    ]
    return " union all ".join(selects)


def _parameters(lane: str, models: Sequence[str], now_ms: int) -> dict[str, str | int]:
    named = {f"model_{number}": model for number, model in enumerate(models)}
    return {**named, "lane": lane, "now": now_ms, "latest": now_ms + MAX_PAUSE_MS}
