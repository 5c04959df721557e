"""The rows of jobs, attempts, slots, turns and events. Takes a transaction, never commits.

Every change of a job's state is an update that names the state (and attempt) it starts from; None
or 0 rows means that another was first, and nothing else may then be written.
"""

from dataclasses import dataclass

from tenuto.db import records
from tenuto.db.database import Deferred, Row, Transaction
from tenuto.db.records import DeferredRecord
from tenuto.jobs.decision import Decision
from tenuto.jobs.rows import (
    BoundKey,
    CancelNoted,
    Counted,
    JobRow,
    OpenAttempt,
    OwnedJob,
    WaitingJob,
)

AFTER_ALL = "joc"
"""Greater than any id of a job.

Where rows are looked for by an index of two columns, both are compared: were the first said to be equal to
something, the planner would know that the order of another index, of all jobs that ever were, serves as well.
"""


_JOB = records.columns(JobRow, "j")


@dataclass(frozen=True, slots=True)
class NewJob:
    """All that is frozen when a job is accepted."""

    job_id: str
    account_id: str
    key_id: str
    idempotency_key: str
    body_sha256: str
    kind: str
    model: str
    lane: str
    body: str
    parameters: str
    metadata: str
    input_artifact_ids: str
    characters: int
    rerunnable: bool
    hold_micros: int
    price_micros: int
    price_unit: str
    created_at: int
    deadline_at: int


def bind_key(tx: Transaction, new: NewJob) -> bool:
    """Bind the idempotency key to the job; False when it is bound already."""
    return (
        tx.run(
            """insert into idempotency (key_id, idempotency_key, body_sha256, job_id, created_at)
               values (:key_id, :idempotency_key, :body_sha256, :job_id, :now)
               on conflict (key_id, idempotency_key) do nothing""",
            key_id=new.key_id,
            idempotency_key=new.idempotency_key,
            body_sha256=new.body_sha256,
            job_id=new.job_id,
            now=new.created_at,
        )
        == 1
    )


def bound(tx: Transaction, key_id: str, idempotency_key: str) -> BoundKey | None:
    return records.one(
        tx,
        BoundKey,
        """select body_sha256, job_id from idempotency
           where key_id = :key_id and idempotency_key = :idempotency_key""",
        key_id=key_id,
        idempotency_key=idempotency_key,
    )


def insert_job(tx: Transaction, new: NewJob) -> None:
    tx.do(
        """insert into job (id, account_id, key_id, kind, model, lane, state, body, parameters, metadata,
                            input_artifact_ids, characters, rerunnable, hold_micros, price_micros,
                            price_unit, created_at, deadline_at, event_sequence)
           values (:id, :account_id, :key_id, :kind, :model, :lane, 'queued', :body, :parameters, :metadata,
                   :inputs, :characters, :rerunnable, :hold, :price, :unit, :created_at, :deadline_at, 0)""",
        id=new.job_id,
        account_id=new.account_id,
        key_id=new.key_id,
        kind=new.kind,
        model=new.model,
        lane=new.lane,
        body=new.body,
        parameters=new.parameters,
        metadata=new.metadata,
        inputs=new.input_artifact_ids,
        characters=new.characters,
        rerunnable=int(new.rerunnable),
        hold=new.hold_micros,
        price=new.price_micros,
        unit=new.price_unit,
        created_at=new.created_at,
        deadline_at=new.deadline_at,
    )


def add_recording(tx: Transaction, job_id: str, blob_id: str) -> None:
    tx.do(
        "insert into job_recording (job_id, blob_id) values (:job_id, :blob_id)",
        job_id=job_id,
        blob_id=blob_id,
    )


def add_event(
    tx: Transaction,
    job_id: str,
    sequence: int,
    type_: str,
    *,
    now_ms: int,
    attempt_id: str | None = None,
    detail: str | None = None,
    by: Decision | None = None,
) -> None:
    """One line of the job's life; `by`: the operator who decided, whom callers are not shown."""
    tx.do(
        """insert into event (job_id, sequence, type, attempt_id, detail, operator, note, at)
           values (:job_id, :sequence, :type, :attempt_id, :detail, :operator, :note, :now)""",
        job_id=job_id,
        sequence=sequence,
        type=type_,
        attempt_id=attempt_id,
        detail=detail,
        operator=None if by is None else by.operator,
        note=None if by is None else by.note,
        now=now_ms,
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


def lock_account(tx: Transaction, account_id: str) -> None:
    """Until the transaction ends nobody else's submission looks at what the account has queued."""
    # The same lock as the hold's update: another's insert that only refers to the account does not wait.
    tx.ask("select id from account where id = :id for no key update", id=account_id)


def take_noted_quota(tx: Transaction, account_id: str, lane: str) -> Deferred:
    """One place of the noted room: no row is changed when there is none."""
    return tx.ask(
        """update queue_room set room = room - 1
           where account_id = :account_id and lane = :lane and room > 0""",
        account_id=account_id,
        lane=lane,
    )


def note_free_quota(tx: Transaction, account_id: str, lane: str, room: int) -> None:
    tx.do(
        """insert into queue_room (account_id, lane, room) values (:account_id, :lane, :room)
           on conflict (account_id, lane) do update set room = :room""",
        account_id=account_id,
        lane=lane,
        room=room,
    )


def owned(tx: Transaction, job_id: str, account_id: str) -> OwnedJob | None:
    return records.one(
        tx,
        OwnedJob,
        "select id, model, state, attempt_id from job where id = :id and account_id = :account_id for update",
        id=job_id,
        account_id=account_id,
    )


def locked(tx: Transaction, job_id: str) -> JobRow | None:
    return records.one(tx, JobRow, f"select {_JOB} from job j where j.id = :id for update", id=job_id)  # noqa: S608 (columns)


def end_queued(
    tx: Transaction,
    job_id: str,
    state: str,
    *,
    error_code: str | None,
    error_message: str | None,
    now_ms: int,
) -> int | None:
    """queued → cancelled | failed, before any worker took it."""
    changed = tx.one(
        """update job set state = :state, error_code = :code, error_message = :message,
                          finished_at = :now, event_sequence = event_sequence + 1,
                          cancel_requested_at = case when :state = 'cancelled' then cast(:now as bigint) end
           where id = :id and state = 'queued' returning event_sequence""",
        id=job_id,
        state=state,
        code=error_code,
        message=error_message,
        now=now_ms,
    )
    return _sequence(changed)


def cancel_requests(tx: Transaction, worker_id: str) -> list[str]:
    """The worker's attempts whose callers want them to end."""
    found = tx.all(
        """select t.id from attempt t join job j on j.id = t.job_id
           where t.worker_id = :worker_id and t.state <> 'ended' and j.cancel_requested_at is not null""",
        worker_id=worker_id,
    )
    return [row["id"] for row in found]


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


def note_cancel(tx: Transaction, job_id: str, now_ms: int) -> CancelNoted | None:
    """The first request to cancel a running job, or None when there was one."""
    return records.one(
        tx,
        CancelNoted,
        """update job set cancel_requested_at = :now, event_sequence = event_sequence + 1
           where id = :id and state = 'running' and cancel_requested_at is null
           returning event_sequence, attempt_id""",
        id=job_id,
        now=now_ms,
    )


def overdue(tx: Transaction, lane: str, now_ms: int, limit: int) -> list[str]:
    """Queued jobs past their deadline; all jobs have as long, so none is where none of the oldest is."""
    found = tx.all(
        """select id from (
               select id, deadline_at from job
               where state = 'queued' and (lane, id) > (:lane, '') and (lane, id) < (:lane, :after_all)
               order by lane, id limit :limit) as oldest
           where deadline_at <= :now order by id""",
        lane=lane,
        after_all=AFTER_ALL,
        now=now_ms,
        limit=limit,
    )
    return [row["id"] for row in found]


def open_attempts(tx: Transaction) -> list[OpenAttempt]:
    """Attempts that a worker should be at work on, with the lock that says whether it lives."""
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


def in_recovery(tx: Transaction) -> list[WaitingJob]:
    return records.all_records(
        tx,
        WaitingJob,
        """select j.id, j.kind, j.model, j.account_id, a.name as account_name, j.created_at, j.started_at,
                  j.attempts, j.hold_micros, j.error_code, j.error_message
           from job j join account a on a.id = j.account_id
           where j.state = 'recovery_required' order by j.id limit 10000""",
    )


def end_recovery(
    tx: Transaction,
    job_id: str,
    state: str,
    *,
    error_code: str | None,
    error_message: str | None,
    now_ms: int,
) -> int | None:
    """recovery_required → failed | cancelled, by an operator."""
    changed = tx.one(
        """update job set state = :state, error_code = :code, error_message = :message,
                          finished_at = :now, event_sequence = event_sequence + 1
           where id = :id and state = 'recovery_required' returning event_sequence""",
        id=job_id,
        state=state,
        code=error_code,
        message=error_message,
        now=now_ms,
    )
    return _sequence(changed)


def requeue_recovery(tx: Transaction, job_id: str) -> int | None:
    """recovery_required → queued, by an operator who accepts that the call may be paid for twice."""
    changed = tx.one(
        """update job set state = 'queued', error_code = null, error_message = null,
                          cancel_requested_at = null, event_sequence = event_sequence + 1
           where id = :id and state = 'recovery_required' returning event_sequence""",
        id=job_id,
    )
    return _sequence(changed)


def reopen_attempt(tx: Transaction, attempt_id: str) -> int:
    """An operator brings the result of an attempt whose outcome was unknown."""
    return tx.run(
        """update attempt set state = 'recorded', outcome = null, ended_at = null
           where id = :id and state = 'ended' and outcome = 'unknown' and blob_id is not null""",
        id=attempt_id,
    )


def _sequence(changed: Row | None) -> int | None:
    """The number of the transition's event; None: another was first."""
    return None if changed is None else int(changed["event_sequence"])
