"""Lanes: how much of a kind runs at once, and which attempts their workers have left behind."""

from tenuto.db.database import Transaction
from tenuto.jobs import attempt_store, queue_store, store
from tenuto.jobs.rows import OpenAttempt


def set_slots(tx: Transaction, lane: str, count: int) -> None:
    """Give the lane so many slots. Busy slots above the count go when they are next found free."""
    there = {slot.number for slot in attempt_store.slots(tx, lane)}
    for number in range(1, count + 1):
        if number not in there:
            attempt_store.add_slot(tx, lane, number)
    if any(number > count for number in there):
        attempt_store.remove_free_slots(tx, lane, above=count)


def busy(tx: Transaction, lane: str) -> int:
    """How many slots of the lane have a job."""
    return sum(slot.job_id is not None for slot in attempt_store.slots(tx, lane))


def slots(tx: Transaction, lane: str) -> int:
    """How many jobs of the lane may run at once."""
    return len(attempt_store.slots(tx, lane))


def oldest_queued_at(tx: Transaction, lanes: list[str]) -> int | None:
    """When the job that has waited longest was accepted; None when none waits."""
    return min(filter(None, [store.oldest_queued_at(tx, lane) for lane in lanes]), default=None)


def open_attempts(tx: Transaction) -> list[OpenAttempt]:
    """Every attempt that is not over."""
    return store.open_attempts(tx)


def has_open_attempts(tx: Transaction, worker_id: str) -> bool:
    """Whether something of this worker's is still to be rescued."""
    return store.attempts_of_worker(tx, worker_id) > 0


def has_work(tx: Transaction, lane: str, *, models: frozenset[str], now_ms: int) -> bool:
    """Whether a claim for these models could find something; cheap enough to ask every second."""
    return bool(models) and queue_store.has_work(tx, lane, sorted(models), now_ms)


def cancel_requests(tx: Transaction, worker_id: str) -> list[str]:
    """Attempts of this worker whose callers want them to end."""
    return store.cancel_requests(tx, worker_id)


def depths(tx: Transaction, lanes: list[str]) -> dict[str, dict[str, int]]:
    """For metrics: jobs queued, slots busy, jobs in recovery, each by lane."""
    return {
        "queued": {lane: store.queued(tx, lane) for lane in lanes},
        "running": {lane: busy(tx, lane) for lane in lanes},
        "recovery_required": {lane: store.recovering(tx, lane) for lane in lanes},
    }
