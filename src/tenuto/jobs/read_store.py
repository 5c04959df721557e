"""The queries behind reading jobs. Takes a transaction, changes nothing."""

from functools import cache

from tenuto.db.database import Asked, Row, Transaction
from tenuto.jobs.days import Days
from tenuto.jobs.states import ALL, SUCCEEDED
from tenuto.jobs.store import AFTER_ALL

# What an operation shows, and no more: a body may be long, and columns cost time even when they are short.
_OPERATION = """
    select j.id, j.kind, j.model, j.lane, j.state, j.created_at, j.started_at, j.finished_at, j.attempts,
           j.artifact_id, j.hold_micros, j.charged_micros, j.metadata, j.input_artifact_ids,
           j.error_code, j.error_message, j.cancel_requested_at, t.progress,
           a.media_type, a.size_bytes, a.sha256, a.metadata as artifact_metadata
    from job j
    left join attempt t on t.id = j.attempt_id
    left join artifact a on a.id = j.artifact_id
"""
_JOB = _OPERATION + "where j.id = :id and j.account_id = :account_id"
# Both columns of the index are compared, so that no other one can be taken: by the job's id alone, a page of
# an account with few jobs would be looked for among everybody's. PostgreSQL may plan neither by the account
# nor by the number of rows, so its plan is as good for the next caller and is kept: to plan every time took
# longer than all else, the longer the more jobs there were.
_ACCOUNT = "(select cast(:account_id as text))"
_OF_ACCOUNT = f"(j.account_id, j.id) > ({_ACCOUNT}, '') and (j.account_id, j.id) < ({_ACCOUNT}, :before)"
# States that are few have an index of their own; the planner must see that it covers this one.
_BUT_SUCCEEDED = "j.account_id = :account_id and j.id < :before and j.state <> 'succeeded'"
_PAGES = (21, 51, 101)
"""So many rows are read at most: the next of these, so that the statements that are kept are few."""


def job(tx: Transaction, job_id: str, account_id: str) -> Row | None:
    """The job with its newest attempt's progress and its artifact: one look-up for a poll."""
    return tx.one(_JOB, id=job_id, account_id=account_id)


def jobs(
    tx: Transaction,
    account_id: str,
    *,
    state: str | None,
    kind: str | None,
    model: str | None,
    after: str | None,
    limit: int,
) -> list[Row]:
    """Newest first; `after` is the id that the last page ended with. At most the last of `_PAGES`."""
    rows = next(page for page in _PAGES if page >= limit)
    asked = {"account_id": account_id, "before": after or AFTER_ALL, "kind": kind, "model": model}
    given = {name: value for name, value in asked.items() if value is not None}
    return tx.all(_jobs(state, "kind" in given, "model" in given, rows), **given)[:limit]


@cache
def _jobs(state: str | None, is_of_kind: bool, is_of_model: bool, rows: int) -> str:
    """The statement for a page."""
    is_few = state not in (None, SUCCEEDED)
    conditions = [_BUT_SUCCEEDED if is_few else _OF_ACCOUNT]
    if state is not None:
        assert state in ALL, state
        conditions.append(f"j.state = '{state}'")
    if is_of_kind:
        conditions.append("j.kind = :kind")
    if is_of_model:
        conditions.append("j.model = :model")
    return f"""{_OPERATION} where {" and ".join(conditions)}
               order by j.account_id desc, j.id desc limit {rows}"""


def ahead(tx: Transaction, lane: str, job_id: str, limit: int) -> Asked:
    """Queued jobs of the lane that were accepted earlier, counted up to `limit`: `ahead`.

    The limit stands in the text: PostgreSQL keeps a plan that knows it, where the queue is long too.
    """
    return tx.ask(
        f"""select count(*) as ahead from (
               select 1 as one from job
               where state = 'queued' and (lane, id) > (:lane, '') and (lane, id) < (:lane, :id)
               order by lane, id limit {limit:d}) as earlier""",  # noqa: S608 (a number)
        lane=lane,
        id=job_id,
    )


def sequence(tx: Transaction, job_id: str) -> Row | None:
    return tx.one("select event_sequence from job where id = :id", id=job_id)


def is_of_account(tx: Transaction, job_id: str, account_id: str) -> bool:
    row = tx.one(
        "select 1 as one from job where id = :id and account_id = :account_id",
        id=job_id,
        account_id=account_id,
    )
    return row is not None


def events(tx: Transaction, job_id: str) -> list[Row]:
    return tx.all(
        """select sequence, at, type, attempt_id, detail from event
           where job_id = :id order by sequence limit 10000""",
        id=job_id,
    )


def body(tx: Transaction, job_id: str, account_id: str) -> Row | None:
    return tx.one(
        "select body, erased_at from job where id = :id and account_id = :account_id",
        id=job_id,
        account_id=account_id,
    )


def attempts(tx: Transaction, job_id: str) -> list[Row]:
    return tx.all(
        """select id, number, worker_id, state, outcome, beat, fenced_at, blob_id, evidence, started_at,
                  ended_at
           from attempt where job_id = :id order by number limit 10000""",
        id=job_id,
    )


def usage(tx: Transaction, account_id: str, days: Days, *, limit: int) -> list[Row]:
    """Succeeded jobs by day (since 1970), model and key; found by their ids, which tell the time."""
    return tx.all(
        """select j.created_at / 86400000 as day, j.model, j.kind, j.key_id, count(*) as jobs,
                  cast(sum(j.characters) as bigint) as characters,
                  cast(sum(coalesce(t.duration_ms, 0)) as bigint) as audio_ms,
                  cast(sum(coalesce(j.charged_micros, 0)) as bigint) as charged_micros
           from job j join attempt t on t.id = j.attempt_id
           where j.account_id = :account_id and j.id >= :low and j.id < :high
             and j.created_at >= :since and j.created_at < :until and j.state = 'succeeded'
           group by 1, 2, 3, 4 order by 1 desc, 2, 4 limit :limit""",
        account_id=account_id,
        low=days.low,
        high=days.high,
        since=days.since_ms,
        until=days.until_ms,
        limit=limit,
    )
