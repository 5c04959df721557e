"""The queries behind reading jobs, usage and charges. Takes a transaction, changes nothing."""

from functools import cache

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.db.records import DeferredRecord
from tenuto.job.rows import (
    AccountLedgerLine,
    BodyRow,
    ChargeRow,
    Counted,
    EventRow,
    FinishedJobs,
    JobUsage,
    OperationRow,
    QueuedPrefix,
    QueuePassage,
)
from tenuto.job.states import ALL, FINAL, SUCCEEDED

# Only what an operation shows: a body may be long, and even short columns cost time.
_OPERATION = """
    select j.id, j.kind, j.model, j.lane, j.state, j.created_at, j.started_at, j.finished_at, j.attempts,
           j.artifact_id, j.hold_micros, j.charged_micros, j.metadata, j.input_artifact_ids,
           j.error_code, j.error_message, j.cancel_requested_at, j.erased_at, j.title, t.progress,
           a.media_type, a.size_bytes, a.sha256, a.metadata as artifact_metadata
    from job j
    left join attempt t on t.id = j.attempt_id
    left join artifact a on a.id = j.artifact_id
"""
_JOB = _OPERATION + "where j.id = :id and j.account_id = :account_id"
# Both columns of the index are compared, so that no other index can be used: by the job's id alone, a page of
# an account with few jobs would be searched for among all accounts' jobs. PostgreSQL cannot see the account
# or the number of rows when planning, so one plan serves every caller and is cached: planning each time took
# longer than everything else, and longer the more jobs there were.
_ACCOUNT = "(select cast(:account_id as text))"
_OF_ACCOUNT = f"(j.account_id, j.id) > ({_ACCOUNT}, :since) and (j.account_id, j.id) < ({_ACCOUNT}, :before)"
# The rare states have an index of their own; the condition shows the planner that it covers this one.
_BUT_SUCCEEDED = "j.account_id = :account_id and j.id > :since and j.id < :before and j.state <> 'succeeded'"
# One index lookup from each model that the account has used to the next. The index's last columns are
# compared as rows and ordered by, so that no other index can be used.
_USED_MODELS = """
    with recursive used (model) as (
        select (select model from job where account_id = :account_id order by model limit 1)
        union all
        select (select j.model from job j where j.account_id = :account_id and j.model > u.model
                order by j.model limit 1)
        from used u where u.model is not null)
    select u.model, (select j.kind from job j where j.account_id = :account_id and j.model = u.model
                       and (j.state, j.id) > ('', '') order by j.state, j.id limit 1) as kind
    from used u where u.model is not null limit 10000"""
_PAGES = (21, 51, 101)
"""A page reads the smallest sufficient of these numbers of rows, so that few statements are prepared."""
FOUND_AT_ONCE = 101
"""The most jobs that one step of a search returns."""
LOOKED_AT = 100_000
"""The most ended jobs that one search statement examines, in an index."""
LOOKED_AT_OPEN = 10_000
"""The most jobs of each open state that it examines besides, in their rows."""
_OPEN = [state for state in ALL if state not in FINAL]


def job(tx: Transaction, job_id: str, account_id: str) -> OperationRow | None:
    """The job with its newest attempt's progress and its artifact: one look-up for a poll."""
    return records.one(tx, OperationRow, _JOB, id=job_id, account_id=account_id)


def jobs(
    tx: Transaction,
    account_id: str,
    *,
    state: str | None,
    kind: str | None,
    models: frozenset[str] | None,
    since: str,
    before: str,
    limit: int,
) -> list[OperationRow]:
    """Newest first, with ids between `since` and `before`; at most the last of `_PAGES`.

    `models`: only jobs of these; None: of all.
    """
    size = next(page for page in _PAGES if page >= limit)
    if kind is None and models is None and state != SUCCEEDED:
        page = _page(state, size)
        return records.all_records(tx, OperationRow, page, account_id=account_id, since=since, before=before)[
            :limit
        ]
    ids: list[str] = []
    for model in used_models(tx, account_id, kind, models):
        rows = tx.all(_ids(state, size), account_id=account_id, model=model, since=since, before=before)
        ids = sorted((*ids, *(row["id"] for row in rows)), reverse=True)[:limit]
    return operations(tx, ids)


def operations(tx: Transaction, ids: list[str]) -> list[OperationRow]:
    """These jobs, newest first; at most a page of them."""
    if not ids:
        return []
    names = {f"id_{number}": job_id for number, job_id in enumerate(ids)}
    return records.all_records(
        tx, OperationRow, f"{_OPERATION} where j.id in ({_list(len(ids))}) order by j.id desc", **names
    )


def search(
    tx: Transaction,
    account_id: str,
    *,
    models: list[str] | None,
    voice_id: str | None,
    pattern: str | None,
    since: str,
    before: str,
) -> tuple[list[str], str | None]:
    """The ids of up to `FOUND_AT_ONCE` matching jobs, newest first, and the id to continue from.

    None: there are no more. One call examines at most `LOOKED_AT` ended jobs, so it may find none although
    more are left. `pattern`: from `titles.pattern_of`.
    """
    numbered = {f"model_{number}": model for number, model in enumerate(models or ())}
    bounds = {"account_id": account_id, "since": since, "before": before}
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
    looks = [f"{columns} where {_ENDED} {_NEWEST} limit {LOOKED_AT}"]
    opens = [f"{_BUT_SUCCEEDED} and j.state = '{state}' {_NEWEST}" for state in _OPEN]
    looks += [f"{columns} where {each} limit {LOOKED_AT_OPEN}" for each in opens]
    edges = [f"select j.id from job j where {each} limit 1 offset {LOOKED_AT_OPEN - 1}" for each in opens]  # noqa: S608
    # Without an order of their own, for which all matches would be sorted: an index is read backwards.
    parts = [
        f"select * from (select id, {number} as part from ({look}) as looked_at_{number} {where}"  # noqa: S608
        f" limit {FOUND_AT_ONCE}) as found_{number}"
        for number, look in enumerate(looks)
    ]
    parts += [f"select id, -1 as part from ({edge}) as edge_{number}" for number, edge in enumerate(edges)]  # noqa: S608
    return " union all ".join(parts)


_NEWEST = "order by j.account_id desc, j.id desc"
# The condition of its index, so that this one and no other is used.
_ENDED = f"{_OF_ACCOUNT} and j.finished_at is not null"
_LAST_LOOKED_AT = f"select j.id from job j where {_ENDED} {_NEWEST} limit 1 offset {LOOKED_AT - 1}"  # noqa: S608


@cache
def _page(state: str | None, size: int) -> str:
    """The statement for a page of all jobs, or of those in one of the rare states."""
    condition = _OF_ACCOUNT if state is None else f"{_BUT_SUCCEEDED} and j.state = '{state}'"
    return f"{_OPERATION} where {condition} order by j.account_id desc, j.id desc limit {size}"


@cache
def _ids(state: str | None, size: int) -> str:
    """The statement for the newest jobs of one model: one index lookup for each state."""
    assert state is None or state in ALL, state
    looks = [
        f"""select id from (
               select id from job
               where account_id = :account_id and model = :model
                 and (state, id) > ('{each}', :since) and (state, id) < ('{each}', :before)
               order by state desc, id desc limit {size}) as {each}"""  # noqa: S608
        for each in (sorted(ALL) if state is None else [state])
    ]
    return " union all ".join(looks)


@cache
def _list(count: int) -> str:
    return ", ".join(f":id_{number}" for number in range(count))


def used_models(
    tx: Transaction, account_id: str, kind: str | None, models: frozenset[str] | None
) -> list[str]:
    """The models that the account has used, of this kind and among these; a model has one kind."""
    if kind is None and models is not None and len(models) == 1:
        return list(models)
    return [
        row["model"]
        for row in tx.all(_USED_MODELS, account_id=account_id)
        if (kind is None or row["kind"] == kind) and (models is None or row["model"] in models)
    ]


def ahead(tx: Transaction, lane: str, job_id: str, limit: int) -> DeferredRecord[Counted]:
    """Queued jobs of the lane that were accepted earlier, counted up to `limit`.

    The limit is part of the SQL text, so that PostgreSQL's plan knows it even if the queue is long.
    """
    return records.ask(
        tx,
        Counted,
        f"""select count(*) as number from (
               select 1 as one from job
               where state = 'queued' and (lane, id) > (:lane, '') and (lane, id) < (:lane, :id)
               order by lane, id limit {limit:d}) as earlier""",  # noqa: S608 (a number)
        lane=lane,
        id=job_id,
    )


def sequence(tx: Transaction, job_id: str) -> int | None:
    row = tx.one("select event_sequence from job where id = :id", id=job_id)
    return None if row is None else int(row["event_sequence"])


def model(tx: Transaction, job_id: str, account_id: str) -> str | None:
    row = tx.one(
        "select model from job where id = :id and account_id = :account_id",
        id=job_id,
        account_id=account_id,
    )
    return None if row is None else str(row["model"])


def events(tx: Transaction, job_id: str) -> list[EventRow]:
    return records.all_records(
        tx,
        EventRow,
        """select sequence, at, type, attempt_id, detail, operator, note from event
           where job_id = :id order by sequence limit 10000""",
        id=job_id,
    )


def body(tx: Transaction, job_id: str, account_id: str) -> BodyRow | None:
    return records.one(
        tx,
        BodyRow,
        "select body, model, erased_at from job where id = :id and account_id = :account_id",
        id=job_id,
        account_id=account_id,
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
