"""Which accounts wait in a lane for an engine of this worker, and which job is next. Takes a transaction,
never commits.

Statements that look for work do so once for each model that the worker offers, so that jobs for other engines
cost nothing: their workers may be away for days.
"""

from collections.abc import Sequence
from functools import lru_cache

from tenuto.db import records
from tenuto.db.database import Deferred, Transaction
from tenuto.db.records import DeferredRecord
from tenuto.job.rows import AFTER_ALL, FreeSlot, WaitingAccount
from tenuto.job.states import MAX_PAUSE_MS

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
