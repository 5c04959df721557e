"""The queue of each lane: taking work from it, its slots, and how many jobs an account may have in it.

A claim takes a slot, the account whose turn it is, its oldest job, and opens an attempt, in one transaction;
what becomes of the attempt afterwards is in `finish`. A job whose row cannot be read is handed to the
operator here and the next one is taken, so that it does not affect any other job.
"""

import json
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from tenuto.db.database import Database, Deferred, Transaction
from tenuto.db.records import DeferredRecord
from tenuto.errors import RateLimited, causes
from tenuto.ids import Ids
from tenuto.job import attempts_sql, finish, queue_sql, queue_store
from tenuto.job.events import add_event
from tenuto.job.queue_sql import JobWork, OpenAttempt, Started
from tenuto.job.rows import WaitingAccount
from tenuto.job.states import MAX_LOSSES_SHARED
from tenuto.kind.kinds import kinds

ACCOUNTS_LOOKED_AT = 16
"""How many accounts a claim considers, to find one that no other worker is serving at the same moment."""

UNREADABLE_AT_ONCE = 20
"""How many jobs that cannot be read one claim hands to the operator; the next claim continues."""


def topic(lane: str) -> str:
    """The topic that is woken when a job has been queued in the lane."""
    return f"jobs-{lane}"


def wake(database: Database, lane: str | None = None) -> None:
    """Wake the workers with a free slot for what was queued in the lane; None: possibly in any lane."""
    for each in kinds() if lane is None or lane not in kinds() else (lane,):
        database.wake(topic(each))


class Unreadable(Exception):
    """The job's row cannot be understood. The message names the column, not its content."""


class Claim(Struct, frozen=True):
    """What a worker needs to run one attempt of a job."""

    job_id: str
    attempt_id: str
    number: int
    account_id: str
    kind: str
    model: str
    lane: str
    parameters: dict[str, Any]
    input_artifact_ids: list[str]
    rerunnable: bool
    deadline_at: int
    is_suspect: bool = False
    """Its process was lost too often with other runs in it: it runs alone, so that a loss is its own."""
    traceparent: str | None = None


def claim(
    tx: Transaction,
    ids: Ids,
    *,
    worker_id: str,
    lane: str,
    slots: int,
    models: frozenset[str],
    now_ms: int,
) -> Claim | None:
    """Take one of the lane's first `slots` slots and the oldest job of the account whose turn it is.

    Jobs that cannot be read are in `recovery_required` afterwards, even if None is returned.
    """
    offered = sorted(models)
    if not offered:
        return None
    slot = queue_store.ask_free_slot(tx, lane, offered, now_ms, slots)
    for _ in range(UNREADABLE_AT_ONCE):
        attempt_id = ids.new("attempt")
        accounts = queue_store.next_accounts(tx, lane, offered, now_ms, ACCOUNTS_LOOKED_AT)
        free = slot.one()
        if free is None:
            return None
        account_id = _take_turn(tx, lane, accounts, draw=attempt_id)
        job_id = account_id and queue_store.oldest_queued(tx, lane, account_id, offered, now_ms)
        if not account_id or not job_id:
            return None
        started = queue_sql.start(tx, job_id, attempt_id, now_ms)
        work = queue_sql.work(tx, job_id)
        taken = queue_sql.ask_take_slot(tx, lane, free.number, job_id, attempt_id)
        attempts = _begin(tx, job_id, attempt_id, started.one(), worker_id=worker_id, now_ms=now_ms)
        assert taken.changed() == 1, "the slot row was locked"
        try:
            claimed = _claim_of(work, job_id, account_id, lane, attempt_id=attempt_id, number=attempts)
        except Unreadable as error:
            _hand_over(tx, attempt_id, error, now_ms)  # It frees the slot.
            continue
        return claimed
    return None


def _hand_over(tx: Transaction, attempt_id: str, error: Unreadable, now_ms: int) -> None:
    finish.hand_over(
        tx, attempt_id, code="unreadable", message=str(error), evidence=causes(error), now_ms=now_ms
    )


def _begin(
    tx: Transaction, job_id: str, attempt_id: str, started: Started | None, *, worker_id: str, now_ms: int
) -> int:
    """Write the attempt's row and its event; returns its number."""
    assert started is not None, "the job's row was locked"
    number = started.attempts
    queue_sql.add_attempt(tx, attempt_id, job_id=job_id, number=number, worker_id=worker_id, now_ms=now_ms)
    add_event(tx, job_id, started.event_sequence, "running", now_ms=now_ms, attempt_id=attempt_id)
    return number


def _take_turn(tx: Transaction, lane: str, accounts: list[WaitingAccount], *, draw: str) -> str | None:
    """The account to serve: the first that no other worker serves at this moment, else the first."""
    accounts.sort(key=lambda account: _turn(account, draw))
    for account in accounts:
        if account.served is None:
            queue_sql.add_turn(tx, lane, account.account_id)
        if queue_sql.serve_turn(tx, lane, account.account_id, seen=account.served or 0):
            return account.account_id
    if not accounts:
        return None
    queue_sql.serve_turn_again(tx, lane, accounts[0].account_id)
    return accounts[0].account_id


def _turn(account: WaitingAccount, draw: str) -> tuple[int, int]:
    """When its turn is. Workers that claim at the same moment give accounts the same number: among these,
    each claim draws the order, or the account with the lowest id would get the most turns."""
    served = account.served or 0
    return served, zlib.crc32(f"{draw}{account.account_id}".encode()) if served else 0


def _claim_of(
    work: DeferredRecord[JobWork], job_id: str, account_id: str, lane: str, *, attempt_id: str, number: int
) -> Claim:
    """The claim from the job's row, every value checked for its type. Raises Unreadable."""
    row = work.one()
    assert row is not None, "the row was found in this transaction"
    if row.kind not in kinds():
        raise Unreadable("the job's record cannot be read: its kind does not exist")
    numbers = (row.deadline_at, row.rerunnable, row.losses_shared)
    if any(type(number) is not int for number in numbers):
        raise Unreadable("the job's record cannot be read: a number in it is not one")
    return Claim(
        job_id=job_id,
        attempt_id=attempt_id,
        number=number,
        account_id=account_id,
        kind=row.kind,
        model=row.model,
        lane=lane,
        parameters=_parsed(row.parameters, "parameters", dict),
        input_artifact_ids=_parsed(row.input_artifact_ids, "input_artifact_ids", list),
        rerunnable=bool(row.rerunnable),
        deadline_at=row.deadline_at,
        is_suspect=row.losses_shared >= MAX_LOSSES_SHARED,
        traceparent=row.traceparent,
    )


def unreadable(tx: Transaction, after: str, limit: int) -> tuple[list[str], dict[str, str]]:
    """A page of the jobs that may still run, and why some of them could not be claimed."""
    ids, faults = queue_sql.unfinished(tx, after, limit), {}
    for job_id in ids:
        try:
            _claim_of(queue_sql.work(tx, job_id), job_id, "", "", attempt_id="", number=0)
        except Unreadable as error:
            faults[job_id] = str(error)
    return ids, faults


def _parsed(text: str, name: str, kind: type[dict[str, Any]] | type[list[str]]) -> Any:
    try:
        value = json.loads(text)
        text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Unreadable(f"the job's record cannot be read: its {name} are not JSON") from error
    if type(value) is not kind:
        raise Unreadable(f"the job's record cannot be read: its {name} are not a JSON {kind.__name__}")
    return value


# --- lanes: how much of a kind runs at once -----------------------------------------------------------


def set_slots(tx: Transaction, lane: str, count: int) -> None:
    """Set the number of the lane's slots. Busy slots above it are removed once they are free."""
    there = {slot.number for slot in queue_sql.slots(tx, lane)}
    for number in range(1, count + 1):
        if number not in there:
            queue_sql.add_slot(tx, lane, number)
    if any(number > count for number in there):
        queue_sql.remove_free_slots(tx, lane, above=count)


def busy(tx: Transaction, lane: str) -> int:
    """How many slots of the lane are occupied."""
    return sum(slot.job_id is not None for slot in queue_sql.slots(tx, lane))


def slots(tx: Transaction, lane: str) -> int:
    """How many jobs of the lane may run at once."""
    return len(queue_sql.slots(tx, lane))


def oldest_queued_at(tx: Transaction, lanes: list[str]) -> int | None:
    """When the job that has waited longest was accepted; None when the lanes are empty."""
    return min(filter(None, [queue_sql.oldest_queued_at(tx, lane) for lane in lanes]), default=None)


def open_attempts(tx: Transaction) -> list[OpenAttempt]:
    """Every attempt that is not over."""
    return queue_sql.open_attempts(tx)


def has_open_attempts(tx: Transaction, worker_id: str) -> bool:
    """Whether an attempt of this worker still has to be rescued."""
    return queue_sql.attempts_of_worker(tx, worker_id) > 0


def has_work(tx: Transaction, lane: str, *, models: frozenset[str], now_ms: int) -> bool:
    """Whether a claim for these models could succeed; cheap enough to ask every second."""
    return bool(lanes_with_work(tx, {lane: models}, now_ms=now_ms))


def lanes_with_work(tx: Transaction, offered: dict[str, frozenset[str]], *, now_ms: int) -> list[str]:
    """The lanes in which a claim for the models that are offered there could succeed."""
    asked = [
        (lane, queue_store.ask_work(tx, lane, sorted(models), now_ms))
        for lane, models in offered.items()
        if models
    ]
    return [lane for lane, work in asked if work.one() is not None]


def heartbeat(tx: Transaction, progress: dict[str, dict[str, Any] | None]) -> dict[str, bool | None]:
    """Raise the counter of each attempt; True: its job was cancelled, None: the attempt is over."""
    heard = {
        attempt_id: attempts_sql.heartbeat(tx, attempt_id, None if made is None else json.dumps(made))
        for attempt_id, made in progress.items()
    }
    return {
        attempt_id: None if row is None else row.cancelled_at is not None for attempt_id, row in heard.items()
    }


def cancel_requests(tx: Transaction, worker_id: str) -> list[str]:
    """Attempts of this worker whose jobs have been cancelled by their callers."""
    return queue_sql.cancel_requests(tx, worker_id)


def depths(tx: Transaction, lanes: list[str]) -> dict[str, dict[str, int]]:
    """For metrics: jobs queued, slots busy, jobs in recovery, each by lane."""
    return {
        "queued": {lane: queue_sql.queued(tx, lane) for lane in lanes},
        "running": {lane: busy(tx, lane) for lane in lanes},
        "recovery_required": {lane: queue_sql.recovering(tx, lane) for lane in lanes},
    }


# --- how many jobs an account may have queued in a lane --------------------------------------------------
#
# The limit is exact across all API processes: a submission locks the account's row before it counts, and
# holds it until its job is stored, so no two decide at the same time. The cost of a count grows with the
# queue. So each count notes in `queue_room` a share of the free capacity, and that many submissions are
# accepted without a count, as long as the limit stays the same. The share shrinks as the queue fills, and the
# last submissions are each counted.
# A job that leaves the queue only makes the free capacity larger than noted.

LONG_QUEUE = 500
"""Up to this limit a count is cheap enough for every submission."""

SHARES = 64
"""One of this many shares of the free capacity needs no count. Jobs that return to the queue from a lost
worker are not noted: they fit as long as they need no more than the other shares."""

FULL_S = 0.25
"""How long a long queue that was full is assumed to stay full."""

MAX_KNOWN = 20_000
"""The most full queues that a process remembers."""


class QueueFull(RateLimited):
    """This account has as many jobs queued in this lane as it may."""

    def __init__(self, account_id: str, lane: str, limit: int) -> None:
        super().__init__(
            f"this account has {limit} jobs queued, which is its limit; submit again when some have run",
            retry_after_s=10,
            limit="queued_jobs",
        )
        self.account_id = account_id
        self.lane = lane


class FullQueues:
    """Which queues a process found full a moment ago, so that a flood of refusals does not count each time.

    Used from any thread: it is a hint, and a race costs no more than a count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._full_until: dict[tuple[str, str], float] = {}

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Remembers the queue of a QueueFull that is raised in the block."""
        try:
            yield
        except QueueFull as full:
            self.note_full(full.account_id, full.lane)
            raise

    def note_full(self, account_id: str, lane: str) -> None:
        """The queue was found full just now."""
        if len(self._full_until) >= MAX_KNOWN:
            self._full_until.clear()
        self._full_until[account_id, lane] = self._clock() + FULL_S

    def was_full(self, account_id: str, lane: str) -> bool:
        """Whether the queue was full a moment ago."""
        return self._clock() < self._full_until.get((account_id, lane), 0.0)


class Quota(Struct, frozen=True):
    """A pending query about an account's queue; `take` decides."""

    tx: Transaction
    account_id: str
    lane: str
    limit: int
    noted: Deferred | None
    """Takes one of the noted places, if there is one; None: the queue was full a moment ago."""

    def take(self) -> None:
        """Admit one job. Raises QueueFull."""
        if self.noted is None:
            raise QueueFull(self.account_id, self.lane, self.limit)
        if self.noted.changed():
            return
        left = _free(self.tx, self.account_id, self.lane, self.limit)
        if left >= SHARES:
            queue_sql.note_free_quota(self.tx, self.account_id, self.lane, self.limit, left // SHARES)


def refuse_full(tx: Transaction, account_id: str, lane: str, *, limit: int, was_full: bool) -> None:
    """QueueFull unless the account may queue one more job in the lane now. Takes no place."""
    if was_full and limit > LONG_QUEUE:
        raise QueueFull(account_id, lane, limit)
    _free(tx, account_id, lane, limit)


def _free(tx: Transaction, account_id: str, lane: str, limit: int) -> int:
    """How many more jobs the account may queue in the lane, counted. QueueFull: none."""
    counted = queue_sql.queued_of_account(tx, account_id, lane, limit).one()
    assert counted is not None, "a count is always one row"
    if counted.number >= limit:
        raise QueueFull(account_id, lane, limit)
    return limit - counted.number


def lock_account(tx: Transaction, account_id: str) -> None:
    """Lock the account until the transaction ends; its submissions that do so wait for each other."""
    queue_sql.lock_account(tx, account_id)


def ask_quota(tx: Transaction, account_id: str, lane: str, *, limit: int, was_full: bool = False) -> Quota:
    """Asks whether the account may queue one more job in the lane.

    `was_full`: the queue was full a moment ago; this is relied on for a long queue only.
    """
    if was_full and limit > LONG_QUEUE:
        return Quota(tx, account_id, lane, limit, None)
    # A concurrent submission waits here until the other's job can be counted.
    queue_sql.lock_account(tx, account_id)
    return Quota(tx, account_id, lane, limit, queue_sql.take_noted_quota(tx, account_id, lane, limit))
