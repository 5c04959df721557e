"""The statements of searches, usage and statistics, and chats' usage. Takes a transaction, never commits."""

from functools import cache

from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.features.history.rows import (
    AccountLedgerLine,
    ChargeRow,
    ChatUsageRow,
    FinishedJobs,
    JobUsage,
    QueuedPrefix,
    QueuePassage,
    Use,
    Used,
)
from tenuto.job.states import ALL, FINAL

_AFTER_ALL = "joc"
"""Greater than the id of any job."""
# As in `job.read_store`, and for the same reasons: one plan for all accounts, and one index.
_ACCOUNT = "(select cast(:account_id as text))"
_OF_ACCOUNT = f"(j.account_id, j.id) > ({_ACCOUNT}, :since) and (j.account_id, j.id) < ({_ACCOUNT}, :before)"
_BUT_SUCCEEDED = "j.account_id = :account_id and j.id > :since and j.id < :before and j.state <> 'succeeded'"
FOUND_AT_ONCE = 101
"""The most jobs that one step of a search returns."""
LOOKED_AT = 100_000
"""The most ended jobs that one search statement examines, in an index."""
LOOKED_AT_OPEN = 10_000
"""The most jobs of each open state that it examines besides, in their rows."""
_OPEN = [state for state in ALL if state not in FINAL]
_NEWEST = "order by j.account_id desc, j.id desc"
# The condition of its index, so that this one and no other is used.
_ENDED = f"{_OF_ACCOUNT} and j.finished_at is not null"
_LAST_LOOKED_AT = f"select j.id from job j where {_ENDED} {_NEWEST} limit 1 offset {LOOKED_AT - 1}"  # noqa: S608


def search(
    tx: Transaction,
    account_id: str,
    *,
    models: list[str] | None,
    voice_id: str | None,
    pattern: str | None,
    since: str,
    before: str | None,
) -> tuple[list[str], str | None]:
    """The ids of up to `FOUND_AT_ONCE` matching jobs, newest first, and the id to continue from.

    None: there are no more. One call examines at most `LOOKED_AT` ended jobs, so it may find none although
    more are left. `pattern`: from `search.pattern_of`.
    """
    numbered = {f"model_{number}": model for number, model in enumerate(models or ())}
    bounds = {"account_id": account_id, "since": since, "before": before or _AFTER_ALL}
    looked_for = {"voice_id": voice_id, "pattern": pattern}
    chosen = {name: value for name, value in looked_for.items() if value is not None} | numbered
    statement = _found(None if models is None else len(models), voice_id is not None, pattern is not None)
    found = [(int(row["part"]), str(row["id"])) for row in tx.all(statement, **bounds, **chosen)]
    edges = [job_id for part, job_id in found if part < 0]
    ids = sorted((job_id for part, job_id in found if part >= 0), reverse=True)
    if len(ids) < FOUND_AT_ONCE:
        # Only now, because it takes as long as the search: jobs that ended since only make it newer.
        edges += [str(row["id"]) for row in tx.all(_LAST_LOOKED_AT, **bounds)]
    # Not all jobs older than the edge were examined.
    edge = max(edges, default="")
    ids = [job_id for job_id in ids if job_id >= edge][:FOUND_AT_ONCE]
    return ids, ids[-1] if len(ids) == FOUND_AT_ONCE else edge or None


@cache
def _found(models: int | None, has_voice: bool, has_pattern: bool) -> str:
    """The statement of a search: its jobs, newest first in each part; as part -1, for each open state with
    more of them, the last job examined. For ended jobs only the index is read, because job rows are long.
    """
    conditions = []
    if models is not None:
        conditions.append(f"model in ({', '.join(f':model_{number}' for number in range(models))})")
    if has_voice:
        conditions.append("voice_id = :voice_id")
    if has_pattern:
        conditions.append(r"search_text like :pattern escape '\'")
    where = f"where {' and '.join(conditions)}" if conditions else ""
    columns = "select j.id, j.model, j.voice_id, j.search_text from job j"
    selects = [f"{columns} where {_ENDED} {_NEWEST} limit {LOOKED_AT}"]
    opens = [f"{_BUT_SUCCEEDED} and j.state = '{state}' {_NEWEST}" for state in _OPEN]
    selects += [f"{columns} where {each} limit {LOOKED_AT_OPEN}" for each in opens]
    edges = [f"select j.id from job j where {each} limit 1 offset {LOOKED_AT_OPEN - 1}" for each in opens]  # noqa: S608
    # Without an order of their own, for which all matches would be sorted: an index is read backwards.
    parts = [
        f"select * from (select id, {number} as part from ({select}) as looked_at_{number} {where}"  # noqa: S608
        f" limit {FOUND_AT_ONCE}) as found_{number}"
        for number, select in enumerate(selects)
    ]
    parts += [f"select id, -1 as part from ({edge}) as edge_{number}" for number, edge in enumerate(edges)]  # noqa: S608
    return " union all ".join(parts)


# --- what chats used ---------------------------------------------------------------------------------


def add_chat_usage(tx: Transaction, usage_id: str, use: Use, used: Used) -> None:
    tx.do(
        """insert into chat_usage
               (id, account_id, key_id, model, day, calls, prompt_tokens, completion_tokens, estimated,
                charged_micros)
           values (:id, :account_id, :key_id, :model, :day, :calls, :prompt_tokens, :completion_tokens,
                   :estimated_calls, :charged_micros)
           on conflict (id) do nothing""",
        id=usage_id,
        **asdict(use),
        **asdict(used),
    )


def chat_usage_by_day(
    tx: Transaction, account_id: str, *, since_day: str, until_day: str
) -> list[ChatUsageRow]:
    return records.all_records(
        tx,
        ChatUsageRow,
        """select model, key_id, day, cast(sum(calls) as bigint) as calls,
                  cast(sum(prompt_tokens) as bigint) as prompt_tokens,
                  cast(sum(completion_tokens) as bigint) as completion_tokens,
                  cast(sum(estimated) as bigint) as estimated,
                  cast(sum(charged_micros) as bigint) as charged_micros
           from chat_usage where account_id = :account_id and day >= :since_day and day <= :until_day
           group by day, model, key_id order by day desc, model, key_id""",
        account_id=account_id,
        since_day=since_day,
        until_day=until_day,
    )


# --- what an account was charged -------------------------------------------------------------------

_WHERE = """
    from entry e left join job j on j.id = e.job_id left join model_call c on c.id = e.call_id
      left join api_key k on k.id = coalesce(j.key_id, c.key_id)
    where e.account_id = :account_id and e.type = 'settle' and e.id >= :low_id and e.id < :high_id
      and e.created_at >= :since and e.created_at < :until
"""
_SUMS = "count(*) as jobs, cast(sum(e.revenue_micros) as bigint) as charged_micros"
_CHARGES = {
    "model": "select coalesce(j.model, c.model) as grouping, coalesce(j.model, c.model) as label, "
    + _SUMS
    + _WHERE
    + "group by 1, 2",
    "key": "select coalesce(j.key_id, c.key_id) as grouping, k.name as label, "
    + _SUMS
    + _WHERE
    + "group by 1, 2",
    "day": "select e.created_at / 86400000 as grouping, '' as label, " + _SUMS + _WHERE + "group by 1, 2",
}


def charges(
    tx: Transaction,
    grouping: str,
    account_id: str,
    *,
    since_ms: int,
    until_ms: int,
    low_id: str,
    high_id: str,
) -> list[ChargeRow]:
    """Settled jobs and calls; looked up by the ids of their lines, which contain the time."""
    return records.all_records(
        tx,
        ChargeRow,
        _CHARGES[grouping],
        account_id=account_id,
        low_id=low_id,
        high_id=high_id,
        since=since_ms,
        until=until_ms,
    )


def ledger_lines(tx: Transaction, account_id: str, *, after: str, limit: int) -> list[AccountLedgerLine]:
    """The account's lines, oldest first, each with the model and key of its job or call."""
    return records.all_records(
        tx,
        AccountLedgerLine,
        """select e.id, e.type, e.job_id, e.call_id, e.available_micros, e.held_micros, e.revenue_micros,
                  e.note as operator_note, e.created_at, coalesce(j.model, c.model) as model,
                  k.name as key_name
           from entry e left join job j on j.id = e.job_id left join model_call c on c.id = e.call_id
             left join api_key k on k.id = coalesce(j.key_id, c.key_id)
           where e.account_id = :account_id and e.id > :after order by e.id limit :limit""",
        account_id=account_id,
        after=after,
        limit=limit,
    )


def usage(tx: Transaction, account_id: str, *, since_ms: int, until_ms: int, limit: int) -> list[JobUsage]:
    """Succeeded jobs by day, model and key, from the index that covers all the sums."""
    return records.all_records(
        tx,
        JobUsage,
        """select created_at / 86400000 as day_number, model, kind, key_id, count(*) as jobs,
                  cast(sum(characters) as bigint) as characters,
                  cast(sum(audio_ms) as bigint) as audio_ms,
                  cast(sum(coalesce(charged_micros, 0)) as bigint) as charged_micros
           from job
           where account_id = :account_id and created_at >= :since and created_at < :until
             and audio_ms is not null
           group by 1, 2, 3, 4 order by 1 desc, 2, 4 limit :limit""",
        account_id=account_id,
        since=since_ms,
        until=until_ms,
        limit=limit,
    )


# --- what an operator's charts add up ----------------------------------------------------------------

CLASS_BOUNDS_MS = (
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000,
    3_600_000, 10_800_000,
)  # fmt: skip
"""Times are counted in classes between these bounds: the two databases share no percentile function."""


def _class_of(time: str, bounds: tuple[int, ...] = CLASS_BOUNDS_MS, first: int = 0) -> str:
    """SQL for how many bounds a time has reached, by bisection: four comparisons, not sixteen."""
    if not bounds:
        return str(first)
    half = len(bounds) // 2
    below, above = (
        _class_of(time, bounds[:half], first),
        _class_of(time, bounds[half + 1 :], first + half + 1),
    )
    return f"case when {time} < {bounds[half]} then {below} else {above} end"


_WAIT_CLASS, _RUN_CLASS = _class_of("(started_at - created_at)"), _class_of("(finished_at - started_at)")
# All from the index `job_finished`, newest first, so that a limit leaves out the oldest.
_FINISHED = """(select finished_at, created_at, started_at, model, state, charged_micros from job
                where finished_at is not null and finished_at >= :since
                order by finished_at desc limit :most) as finished"""
_FINISHED_BY_SLOT = f"""
    select finished_at / :width as slot, created_at / :width as entered,
           coalesce(started_at, finished_at) / :width as left_slot, model, state,
           case when started_at is null then -1 else {_WAIT_CLASS} end as wait_class,
           case when started_at is null then -1 else {_RUN_CLASS} end as run_class,
           count(*) as jobs, cast(sum(coalesce(charged_micros, 0)) as bigint) as charged_micros,
           coalesce(max(started_at - created_at), 0) as longest_wait_ms,
           coalesce(max(finished_at - started_at), 0) as longest_run_ms
    from {_FINISHED} group by 1, 2, 3, 4, 5, 6, 7
"""  # noqa: S608 (texts of this file)


def finished_by_slot(tx: Transaction, *, since_ms: int, width_ms: int, most: int) -> list[FinishedJobs]:
    """The newest `most` jobs that ended since then, by slot, model, state and class of duration."""
    return records.all_records(tx, FinishedJobs, _FINISHED_BY_SLOT, since=since_ms, width=width_ms, most=most)


def passages_of_running(tx: Transaction, *, width_ms: int) -> list[QueuePassage]:
    """When the running jobs, at most as many as there are slots, entered the queue and left it."""
    return records.all_records(
        tx,
        QueuePassage,
        """select j.created_at / :width as entered, j.started_at / :width as left_slot, count(*) as jobs
           from slot s join job j on j.id = s.job_id where j.state = 'running' group by 1, 2""",
        width=width_ms,
    )


def queued_by_id(tx: Transaction, from_id: str, characters: int) -> list[QueuedPrefix]:
    """How many jobs are queued, by the prefix of their ids' time; an empty one for those before `from_id`."""
    return records.all_records(
        tx,
        QueuedPrefix,
        """select case when id < :from_id then '' else substr(id, 5, cast(:characters as integer)) end
                    as prefix, count(*) as jobs
           from job where state = 'queued' group by 1 order by 1 desc limit 5000""",
        from_id=from_id,
        characters=characters,
    )
