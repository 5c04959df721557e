"""The rows of slots, turns and attempts, and the changes that an attempt makes to its job.

Takes a transaction, never commits. Every change of a job names the state and the attempt it starts
from; None or 0 rows means that another was first, and nothing else may then be written.
"""

from tenuto.db import records
from tenuto.db.database import Row, Transaction
from tenuto.db.records import DeferredRecord
from tenuto.jobs.rows import AttemptKeys, FencedAttempt, JobWork, SlotRow, Started

# --- slots and claiming ---------------------------------------------------------------------------


def free_slot(tx: Transaction, lane: str, slots: int) -> int | None:
    row = tx.one(
        """select number from slot where lane = :lane and job_id is null and number <= :slots
           order by number limit 1 for update skip locked""",
        lane=lane,
        slots=slots,
    )
    return None if row is None else int(row["number"])


def start(tx: Transaction, job_id: str, attempt_id: str, now_ms: int) -> DeferredRecord[Started]:
    return records.ask(
        tx,
        Started,
        """update job set state = 'running', attempt_id = :attempt_id, attempts = attempts + 1,
                          started_at = coalesce(started_at, :now), event_sequence = event_sequence + 1
           where id = :id and state = 'queued' returning event_sequence, attempts""",
        id=job_id,
        attempt_id=attempt_id,
        now=now_ms,
    )


def work(tx: Transaction, job_id: str) -> DeferredRecord[JobWork]:
    """What a worker needs to know of a job."""
    return records.ask(
        tx,
        JobWork,
        """select kind, model, parameters, input_artifact_ids, rerunnable, deadline_at, losses_shared
           from job where id = :id""",
        id=job_id,
    )


def add_attempt(
    tx: Transaction, attempt_id: str, *, job_id: str, number: int, worker_id: str, now_ms: int
) -> None:
    tx.run(
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


def take_slot(tx: Transaction, lane: str, number: int, job_id: str, attempt_id: str) -> int:
    return tx.run(
        """update slot set job_id = :job_id, attempt_id = :attempt_id
           where lane = :lane and number = :number and job_id is null""",
        lane=lane,
        number=number,
        job_id=job_id,
        attempt_id=attempt_id,
    )


def free_slot_of(tx: Transaction, attempt_id: str) -> None:
    """Release names the attempt, so that a second release changes nothing."""
    tx.run("update slot set job_id = null, attempt_id = null where attempt_id = :id", id=attempt_id)


def add_turn(tx: Transaction, lane: str, account_id: str) -> None:
    tx.run(
        """insert into turn (lane, account_id, served) values (:lane, :account_id, 0)
           on conflict (lane, account_id) do nothing""",
        lane=lane,
        account_id=account_id,
    )


def serve_turn(tx: Transaction, lane: str, account_id: str, *, seen: int) -> int:
    """Give the account its turn, and the last place; 0 when another worker did so since it was `seen`."""
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
    """Give the account its turn, and the last place, after whoever does so now."""
    tx.run(
        """update turn set served = (select coalesce(max(served), 0) + 1 from turn where lane = :lane)
           where lane = :lane and account_id = :account_id""",
        lane=lane,
        account_id=account_id,
    )


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


# --- an attempt's writes, each behind the fence ---------------------------------------------------


def locked_attempt(tx: Transaction, attempt_id: str) -> FencedAttempt | None:
    """The attempt together with what its job froze; locks the job against every other writer.

    The attempt's row is locked, too: who waited for the job alone would go on with the attempt as it was
    before the wait, and run a call again whose fence was passed meanwhile.
    """
    return records.one(
        tx,
        FencedAttempt,
        """select a.id, a.job_id, a.state, a.beat, a.fenced_at, a.blob_id, a.media_type, a.result_metadata,
                  a.duration_ms, j.state as job_state, j.attempt_id as job_attempt_id, j.account_id,
                  j.hold_micros, j.price_micros, j.price_unit, j.cancel_requested_at, j.hosts_lost,
                  j.workers_lost
           from attempt a join job j on j.id = a.job_id where a.id = :id for update of j, a""",
        id=attempt_id,
    )


def locked_keys(tx: Transaction, attempt_id: str) -> AttemptKeys | None:
    """The attempt and its job, locked, by what identifies them alone."""
    return records.one(
        tx,
        AttemptKeys,
        """select a.id, a.job_id, j.state as job_state, j.attempt_id as job_attempt_id
           from attempt a join job j on j.id = a.job_id where a.id = :id for update of j, a""",
        id=attempt_id,
    )


def raise_beat(tx: Transaction, attempt_id: str, progress: str | None) -> bool | None:
    """One beat: whether the job's caller wants it to end; None when the attempt is over."""
    row = tx.one(
        """update attempt set beat = beat + 1, progress = coalesce(:progress, progress),
                  heard_at = coalesce((select w.seen_at from worker w where w.id = attempt.worker_id),
                                      heard_at)
           where id = :id and state <> 'ended'
           returning (select j.cancel_requested_at from job j where j.id = attempt.job_id) as cancelled_at""",
        id=attempt_id,
        progress=progress,
    )
    return None if row is None else row["cancelled_at"] is not None


def pass_fence(tx: Transaction, attempt_id: str, now_ms: int) -> int:
    return tx.run(
        """update attempt set fenced_at = :now
           where id = :id and state = 'running' and fenced_at is null""",
        id=attempt_id,
        now=now_ms,
    )


def record(
    tx: Transaction,
    attempt_id: str,
    *,
    blob_id: str,
    media_type: str,
    metadata: str,
    duration_ms: int | None,
) -> int:
    """Only a running attempt, or one whose outcome was unknown until now, records a result."""
    return tx.run(
        """update attempt set state = 'recorded', outcome = null, ended_at = null, blob_id = :blob_id,
                              media_type = :media_type, result_metadata = :metadata,
                              duration_ms = :duration_ms
           where id = :id and (state = 'running' or (state = 'ended' and outcome = 'unknown'))""",
        id=attempt_id,
        blob_id=blob_id,
        media_type=media_type,
        metadata=metadata,
        duration_ms=duration_ms,
    )


def end_attempt(
    tx: Transaction, attempt_id: str, outcome: str, *, now_ms: int, evidence: str | None = None
) -> int:
    return tx.run(
        """update attempt set state = 'ended', outcome = :outcome, ended_at = :now,
                              evidence = coalesce(:evidence, evidence)
           where id = :id and state <> 'ended'""",
        id=attempt_id,
        outcome=outcome,
        evidence=evidence,
        now=now_ms,
    )


def succeed(
    tx: Transaction, job_id: str, attempt_id: str, *, artifact_id: str, charged_micros: int, now_ms: int
) -> int | None:
    changed = tx.one(
        """update job set state = 'succeeded', artifact_id = :artifact_id, charged_micros = :charged,
                          audio_ms = coalesce((select duration_ms from attempt where id = :attempt_id), 0),
                          finished_at = :now, event_sequence = event_sequence + 1
           where id = :id and attempt_id = :attempt_id and state in ('running', 'recovery_required')
           returning event_sequence""",
        id=job_id,
        attempt_id=attempt_id,
        artifact_id=artifact_id,
        charged=charged_micros,
        now=now_ms,
    )
    return _sequence(changed)


def end_running(
    tx: Transaction,
    job_id: str,
    attempt_id: str,
    state: str,
    *,
    error_code: str | None,
    error_message: str | None,
    now_ms: int,
) -> int | None:
    """running → failed | cancelled, by its own attempt."""
    changed = tx.one(
        """update job set state = :state, error_code = :code, error_message = :message,
                          finished_at = :now, event_sequence = event_sequence + 1
           where id = :id and attempt_id = :attempt_id and state = 'running' returning event_sequence""",
        id=job_id,
        attempt_id=attempt_id,
        state=state,
        code=error_code,
        message=error_message,
        now=now_ms,
    )
    return _sequence(changed)


def requeue_running(
    tx: Transaction,
    job_id: str,
    attempt_id: str,
    *,
    hosts_lost: int,
    workers_lost: int,
    not_before_ms: int,
    losses_shared: int = 0,
) -> int | None:
    """running → queued, at its old place (ids order the queue), with the losses counted."""
    changed = tx.one(
        """update job set state = 'queued', hosts_lost = :hosts_lost, workers_lost = :workers_lost,
                          losses_shared = losses_shared + :losses_shared,
                          not_before_at = :not_before, event_sequence = event_sequence + 1
           where id = :id and attempt_id = :attempt_id and state = 'running' returning event_sequence""",
        id=job_id,
        attempt_id=attempt_id,
        hosts_lost=hosts_lost,
        workers_lost=workers_lost,
        losses_shared=losses_shared,
        not_before=not_before_ms,
    )
    return _sequence(changed)


def require_recovery(tx: Transaction, job_id: str, attempt_id: str, *, code: str, message: str) -> int | None:
    changed = tx.one(
        """update job set state = 'recovery_required', error_code = :code, error_message = :message,
                          event_sequence = event_sequence + 1
           where id = :id and attempt_id = :attempt_id and state = 'running' returning event_sequence""",
        id=job_id,
        attempt_id=attempt_id,
        code=code,
        message=message,
    )
    return _sequence(changed)


def _sequence(changed: Row | None) -> int | None:
    """The number of the transition's event; None: another was first."""
    return None if changed is None else int(changed["event_sequence"])
