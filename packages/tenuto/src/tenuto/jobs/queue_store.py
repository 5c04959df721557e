"""The rows behind taking work: who waits in a lane for an engine that this worker has, and whose job is next.

Each statement looks once for each model that the worker offers, so that jobs for other engines cost nothing:
their workers may be away for days. Takes a transaction, changes nothing.
"""

from collections.abc import Sequence
from functools import lru_cache

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.jobs.rows import WaitingAccount
from tenuto.jobs.states import MAX_PAUSE_MS

CANDIDATES = 4
"""So many of an account's jobs of each model are looked at for one that nobody has locked just now."""

# Written so, it is the predicate of one index alone (see its migration): a queue of which the statistics of
# PostgreSQL know nothing yet, or no more, is not read from end to end.
_QUEUED = "state || '' = 'queued'"
# A pause that ends later than any pause can was set by a clock that has gone back since: it is none.
# The columns of the index are compared as rows, and ordered by from its first on: were they said to be equal
# to something, the planner would know that another index, of all jobs that ever were, has the same order.
_WAITING = f"""{_QUEUED} and (lane, model) >= (:lane, :{{model}}) and (lane, model) <= (:lane, :{{model}})
              and (not_before_at <= :now or not_before_at > :latest)"""
_BEHIND = f"""{_QUEUED} and (lane, model, account_id) > (:lane, :{{model}}, w.account_id)
             and (lane, model) <= (:lane, :{{model}})
             and (not_before_at <= :now or not_before_at > :latest)"""
_OF_ACCOUNT = f"""{_QUEUED} and (lane, model, account_id) >= (:lane, :{{model}}, :account_id)
                 and (lane, model, account_id) <= (:lane, :{{model}}, :account_id)
                 and (not_before_at <= :now or not_before_at > :latest)"""
_FIRST = "order by lane, model, account_id, id"


def next_accounts(
    tx: Transaction, lane: str, models: Sequence[str], now_ms: int, limit: int
) -> list[WaitingAccount]:
    """The accounts with work in the lane, who was served longest ago first; `served` is null for a new one.

    The recursion steps from one waiting account to the next, one index look-up for each model, so that an
    account's twenty thousand jobs cost as much as one.
    """
    return records.all_records(
        tx, WaitingAccount, _next_accounts(len(models)), **_parameters(lane, models, now_ms), limit=limit
    )


def oldest_queued(
    tx: Transaction, lane: str, account_id: str, models: Sequence[str], now_ms: int
) -> str | None:
    """The id of the account's oldest job that this worker can run, which is all that is looked at, locked."""
    row = tx.one(_oldest_queued(len(models)), **_parameters(lane, models, now_ms), account_id=account_id)
    return None if row is None else str(row["id"])


def has_work(tx: Transaction, lane: str, models: Sequence[str], now_ms: int) -> bool:
    row = tx.one(_has_work(len(models)), **_parameters(lane, models, now_ms))
    return row is not None


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
        where j.{_QUEUED} order by j.id limit 1 for update of j skip locked"""  # noqa: S608


@lru_cache
def _has_work(models: int) -> str:
    return f"{_for_each(models, _WAITING, 'id', f'{_FIRST} limit 1')} limit 1"


def _for_each(models: int, condition: str, column: str, first: str) -> str:
    """A look by the index for every model, one behind the other."""
    looks = [
        f"""select {column} from (
                select {column} from job where {condition.format(model=name)} {first}) as of_{name}"""  # noqa: S608
        for name in (f"model_{number}" for number in range(models))
    ]
    return " union all ".join(looks)


def _parameters(lane: str, models: Sequence[str], now_ms: int) -> dict[str, str | int]:
    named = {f"model_{number}": model for number, model in enumerate(models)}
    return {**named, "lane": lane, "now": now_ms, "latest": now_ms + MAX_PAUSE_MS}
