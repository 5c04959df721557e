"""The queries behind reading jobs. Takes a transaction, changes nothing."""

from functools import cache

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.db.records import DeferredRecord
from tenuto.job.rows import (
    BodyRow,
    CallerJobRow,
    Counted,
    EventRow,
)
from tenuto.job.states import ALL, SUCCEEDED

# Only what a job shows: a body may be long, and even short columns cost time.
_SELECT = """
    select j.id, j.kind, j.model, j.lane, j.state, j.created_at, j.started_at, j.finished_at, j.attempts,
           j.artifact_id, j.hold_micros, j.charged_micros, j.metadata, j.input_artifact_ids,
           j.error_code, j.error_message, j.cancel_requested_at, j.erased_at, j.title, t.progress,
           a.media_type, a.size_bytes, a.sha256, a.metadata as artifact_metadata
    from job j
    left join attempt t on t.id = j.attempt_id
    left join artifact a on a.id = j.artifact_id
"""
_JOB = _SELECT + "where j.id = :id and j.account_id = :account_id"
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


def job(tx: Transaction, job_id: str, account_id: str) -> CallerJobRow | None:
    """The job with its newest attempt's progress and its artifact: one look-up for a poll."""
    return records.one(tx, CallerJobRow, _JOB, id=job_id, account_id=account_id)


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
) -> list[CallerJobRow]:
    """Newest first, with ids between `since` and `before`; at most the last of `_PAGES`.

    `models`: only jobs of these; None: of all.
    """
    size = next(page for page in _PAGES if page >= limit)
    if kind is None and models is None and state != SUCCEEDED:
        page = _page(state, size)
        return records.all_records(tx, CallerJobRow, page, account_id=account_id, since=since, before=before)[
            :limit
        ]
    ids: list[str] = []
    for model in used_models(tx, account_id, kind, models):
        rows = tx.all(_ids(state, size), account_id=account_id, model=model, since=since, before=before)
        ids = sorted((*ids, *(row["id"] for row in rows)), reverse=True)[:limit]
    return by_ids(tx, ids)


def by_ids(tx: Transaction, ids: list[str]) -> list[CallerJobRow]:
    """These jobs, newest first; at most a page of them."""
    if not ids:
        return []
    names = {f"id_{number}": job_id for number, job_id in enumerate(ids)}
    return records.all_records(
        tx, CallerJobRow, f"{_SELECT} where j.id in ({_list(len(ids))}) order by j.id desc", **names
    )


@cache
def _page(state: str | None, size: int) -> str:
    """The statement for a page of all jobs, or of those in one of the rare states."""
    condition = _OF_ACCOUNT if state is None else f"{_BUT_SUCCEEDED} and j.state = '{state}'"
    return f"{_SELECT} where {condition} order by j.account_id desc, j.id desc limit {size}"


@cache
def _ids(state: str | None, size: int) -> str:
    """The statement for the newest jobs of one model: one index lookup for each state."""
    assert state is None or state in ALL, state
    selects = [
        f"""select id from (
               select id from job
               where account_id = :account_id and model = :model
                 and (state, id) > ('{each}', :since) and (state, id) < ('{each}', :before)
               order by state desc, id desc limit {size}) as {each}"""  # noqa: S608
        for each in (sorted(ALL) if state is None else [state])
    ]
    return " union all ".join(selects)


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
