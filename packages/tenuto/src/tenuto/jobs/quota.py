"""How many jobs an account may have queued in a lane: exact, over all API processes.

A submission locks the account's row before it looks, and holds it until its job is stored, so no two decide
at the same time. Counting takes as long as the queue is. So whoever counts notes a part of the room that was
left in `queue_room`: so many submissions are accepted without a count. The part gets smaller as the queue
fills, and each of the last places is counted. A job that leaves the queue only makes more room than is noted.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tenuto.db.database import Deferred, Transaction
from tenuto.errors import RateLimited
from tenuto.jobs import store

LONG = 500
"""Up to such a limit a count is so cheap that every submission may have one."""

PARTS = 64
"""One of so many parts of the room that is left needs no count. Jobs that come back to the queue from a lost
worker are in no note: there is room for them as long as they are fewer than the other parts."""


FULL_S = 0.25
"""A long queue that was full is taken to be full for so long."""

MAX_KNOWN = 20_000
"""Full queues that a process remembers at most."""


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
    """Which queues a process found full a moment ago, so that a flood of refusals does not count them.

    Used from any thread: it is a hint, and nothing but a count is lost where two threads meet.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._full_until: dict[tuple[str, str], float] = {}

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Remembers the queue of a QueueFull that passes through."""
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


@dataclass(frozen=True, slots=True)
class Quota:
    """What was asked about an account's queue; `take` judges."""

    tx: Transaction
    account_id: str
    lane: str
    limit: int
    noted: Deferred | None
    """A place of the noted room, if there was one; None: the queue was full a moment ago."""

    def take(self) -> None:
        """Room for one job. Raises QueueFull."""
        if self.noted is None:
            raise QueueFull(self.account_id, self.lane, self.limit)
        if self.noted.changed():
            return
        counted = store.queued_of_account(self.tx, self.account_id, self.lane, self.limit).one()
        assert counted is not None, "a count is always one row"
        left = self.limit - counted.number
        if left <= 0:
            raise QueueFull(self.account_id, self.lane, self.limit)
        if left >= PARTS:
            store.note_free_quota(self.tx, self.account_id, self.lane, left // PARTS)


def ask(tx: Transaction, account_id: str, lane: str, *, limit: int, was_full: bool = False) -> Quota:
    """Asks whether the account may queue one more job in the lane.

    `was_full`: a moment ago the queue was full, which is believed of a long queue alone.
    """
    if was_full and limit > LONG:
        return Quota(tx, account_id, lane, limit, None)
    # Who submits at the same time waits here until the other's job can be counted.
    store.lock_account(tx, account_id)
    return Quota(tx, account_id, lane, limit, store.take_noted_quota(tx, account_id, lane))
