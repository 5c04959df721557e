"""Reading jobs: one as its caller sees it, lists, and positions in the queue.

Read only; knows neither HTTP nor the queue's rules. The structs here are the API's records.
"""

import msgspec

from tenuto.account.caller import Caller
from tenuto.db.damaged_text import sound_json, text_of
from tenuto.db.database import Transaction
from tenuto.db.records import DeferredRecord
from tenuto.errors import Erased, NotFound
from tenuto.job import read_store
from tenuto.job.jobs_sql import NewJob
from tenuto.job.rows import AFTER_ALL, CallerJobRow, Counted
from tenuto.job.states import FAILED, FINAL, QUEUED, RECOVERY_REQUIRED, RUNNING
from tenuto.money.rules import cny

MAX_COUNTED_AHEAD = 100
"""Jobs ahead are counted up to here; beyond, `queue_position` is null: unknown."""


class Artifact(msgspec.Struct, frozen=True):
    """A result file: what it is, and how a download is verified."""

    id: str
    media_type: str
    size_bytes: int
    sha256: str
    metadata: msgspec.Raw


class JobError(msgspec.Struct, frozen=True):
    """Why a job ended badly."""

    code: str
    message: str


class Billing(msgspec.Struct, frozen=True):
    """What is held while the job is open and what was charged, in CNY with six places."""

    held: str
    charged: str
    currency: str = "CNY"


class Job(msgspec.Struct, frozen=True):
    """A job as its caller sees it."""

    id: str
    kind: str
    model: str
    state: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    attempt: int
    queue_position: int | None
    progress: msgspec.Raw | None
    input_artifact_ids: msgspec.Raw
    artifacts: list[Artifact]
    result: msgspec.Raw | None
    error: JobError | None
    billing: Billing
    metadata: msgspec.Raw
    cancel_requested: bool
    title: str | None
    erased_at: int | None
    object: str = "job"

    def is_final(self) -> bool:
        """Whether polling stops: final, or waiting for an operator."""
        return self.state in FINAL or self.state == RECOVERY_REQUIRED


class Event(msgspec.Struct, frozen=True):
    """An event of a job: every transition, and every request to cancel, writes one."""

    sequence: int
    at: int
    type: str
    attempt_id: str | None
    detail: str | None
    object: str = "event"


def for_caller(tx: Transaction, caller: Caller, job_id: str) -> Job:
    """The job, which every key of its account may read, as its result and its segments. NotFound."""
    return get(tx, account_id=caller.account_id, job_id=job_id)


def get(tx: Transaction, *, account_id: str, job_id: str) -> Job:
    """The job. NotFound for foreign ids exactly as for missing ones."""
    row = read_store.job(tx, job_id, account_id)
    if row is None:
        raise NotFound
    ahead = None
    if row.state == QUEUED:
        ahead = position(ask_position(tx, row.lane, job_id))
    return _job(row, ahead)


def ask_position(tx: Transaction, lane: str, job_id: str) -> DeferredRecord[Counted]:
    """Asks for a queued job's place in its lane; `position` reads the answer."""
    return read_store.ahead(tx, lane, job_id, MAX_COUNTED_AHEAD)


def position(count: DeferredRecord[Counted]) -> int | None:
    """How many jobs are ahead of it; None: too many to count."""
    ahead = count.one()
    assert ahead is not None, "a count is always one row"
    return ahead.number if ahead.number < MAX_COUNTED_AHEAD else None


def accepted(new: NewJob, ahead: int | None) -> Job:
    """The job that the same transaction has just made, without reading its row back."""
    return Job(
        id=new.job_id,
        kind=new.kind,
        model=new.model,
        state=QUEUED,
        created_at=new.created_at // 1000,
        started_at=None,
        finished_at=None,
        attempt=0,
        queue_position=ahead,
        progress=None,
        input_artifact_ids=_raw(new.input_artifact_ids),
        artifacts=[],
        result=None,
        error=None,
        billing=Billing(held=cny(new.hold_micros), charged=cny(0)),
        metadata=_raw(new.metadata),
        cancel_requested=False,
        title=new.title or None,
        erased_at=None,
    )


def sequence(tx: Transaction, job_id: str) -> int:
    """The number of the job's newest event: it rises with every change of its state. -1: no such job."""
    number = read_store.sequence(tx, job_id)
    return -1 if number is None else number


def list_jobs(
    tx: Transaction,
    caller: Caller,
    *,
    state: str | None,
    kind: str | None,
    model: str | None,
    after: str | None,
    limit: int,
    since: str = "",
) -> tuple[list[Job], str | None]:
    """Newest first, with the cursor of the next page; positions in the queue are not counted here.

    Only jobs of models that the key may use are listed. ModelNotAllowed when `model` is another. Their ids
    are between `since` and `after`.
    """
    if model is not None:
        caller.check_job(model)
    models = caller.key_models if model is None else frozenset({model})
    rows = read_store.jobs(
        tx,
        caller.account_id,
        state=state,
        kind=kind,
        models=models,
        since=since,
        before=after or AFTER_ALL,
        limit=limit + 1,
    )
    cursor = rows[limit - 1].id if len(rows) > limit else None
    return [_job(row, None) for row in rows[:limit]], cursor


def by_ids(tx: Transaction, ids: list[str]) -> list[Job]:
    """These jobs, newest first; at most a page of them. Positions in the queue are not counted here."""
    return [_job(row, None) for row in read_store.by_ids(tx, ids)]


def used_models(
    tx: Transaction, account_id: str, kind: str | None, models: frozenset[str] | None
) -> list[str]:
    """The models that the account has used, of this kind and among these."""
    return read_store.used_models(tx, account_id, kind, models)


def check(tx: Transaction, caller: Caller, job_id: str) -> None:
    """Whether the caller may see what happens to a job. NotFound for foreign ids exactly as for missing ones;
    ModelNotAllowed.
    """
    model = read_store.model(tx, job_id, caller.account_id)
    if model is None:
        raise NotFound
    caller.check_job(model)


def events(tx: Transaction, caller: Caller, job_id: str) -> list[Event]:
    """Oldest first. Raises what `check` raises."""
    check(tx, caller, job_id)
    return [
        Event(row.sequence, row.at // 1000, row.type, row.attempt_id, text_of(row.detail))
        for row in read_store.events(tx, job_id)
    ]


def request_body(tx: Transaction, caller: Caller, job_id: str) -> str:
    """The accepted body, byte for byte as it arrived. Erased: its owner, or the retention, had it removed.

    NotFound for foreign ids exactly as for missing ones; ModelNotAllowed.
    """
    row = read_store.body(tx, job_id, caller.account_id)
    if row is None:
        raise NotFound
    caller.check_job(row.model)
    if row.erased_at is not None:
        raise Erased
    return row.body


def _job(row: CallerJobRow, ahead: int | None) -> Job:
    artifacts = _artifacts(row)
    held = 0 if row.state in FINAL else row.hold_micros
    return Job(
        id=row.id,
        kind=text_of(row.kind),
        model=text_of(row.model),
        state=row.state,
        created_at=row.created_at // 1000,
        started_at=_seconds(row.started_at),
        finished_at=_seconds(row.finished_at),
        attempt=row.attempts,
        queue_position=ahead,
        progress=_progress(row),
        input_artifact_ids=_json(row, "input_artifact_ids", "[]"),
        artifacts=artifacts,
        result=artifacts[0].metadata if artifacts else None,
        error=_error(row),
        billing=Billing(held=cny(held), charged=cny(row.charged_micros or 0)),
        metadata=_json(row, "metadata", "{}"),
        cancel_requested=row.cancel_requested_at is not None,
        title=text_of(row.title) or None,
        erased_at=_seconds(row.erased_at),
    )


def _artifacts(row: CallerJobRow) -> list[Artifact]:
    """The result, if the job has one."""
    if row.artifact_id is None or row.media_type is None or row.size_bytes is None or row.sha256 is None:
        return []
    metadata = _json(row, "artifact_metadata", "{}")
    return [Artifact(row.artifact_id, row.media_type, row.size_bytes, row.sha256, metadata)]


def _progress(row: CallerJobRow) -> msgspec.Raw | None:
    """Progress belongs to the attempt that runs; a job that waits or has ended has none."""
    return None if row.state != RUNNING or row.progress is None else _json(row, "progress", "null")


def _error(row: CallerJobRow) -> JobError | None:
    if row.state != FAILED or row.error_code is None:
        return None
    return JobError(text_of(row.error_code), text_of(row.error_message) or "")


def _json(row: CallerJobRow, column: str, otherwise: str) -> msgspec.Raw:
    """The column's JSON as it is stored, if it is valid; damaged JSON does not break a list of jobs."""
    return sound_json(getattr(row, column), otherwise, of=row.id, column=column)


def _seconds(at_ms: int | None) -> int | None:
    return None if at_ms is None else at_ms // 1000


def _raw(text: str) -> msgspec.Raw:
    """JSON that we wrote is passed on as it is."""
    return msgspec.Raw(text.encode())
