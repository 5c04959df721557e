"""Limits on what callers may use of one API process: connections, requests and threads.

Counts are lost on restart and kept per process: these limits protect the service and are not quotas.
Connections per address are in `features/http_guard/shares.py`, uploads in `uploads.py`, waiting reads in
`long_polling.py`. Knows nothing of HTTP messages or the database.
"""

import asyncio
import random
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from tenuto.errors import RateLimited

BURST_SECONDS = 2
MAX_KEYS = 20_000
"""Per set of buckets; beyond that, the least recently updated bucket is dropped."""
PROMPT_REFUSALS_PER_SECOND = 10
PROMPT_REFUSALS = 20
"""This many refusals per key are answered at once, and a few more each second; the rest after a pause."""
PAUSE_S = (0.15, 0.35)
"""Minimum and maximum. Pauses vary, since equal ones would bring a flood's connections back in waves, and any
other request during a wave would wait for all of it."""
LONG_S = 1.0
"""Work that takes a thread for less is short: the order of turns does not depend on it."""
RESERVED_EACH = 4
"""Requests that every account may always have in progress, however many other accounts have."""

T = TypeVar("T")


class HttpLimits(Struct, frozen=True):
    """What one client may use; seconds count only while we are waiting for the client."""

    head_s: float = 10.0
    """From the first byte of a request, or from connecting, to the end of its head; beyond: 408."""
    head_bytes: int = 32 * 1024
    """Request line and header fields together; beyond: 431."""
    head_fields: int = 100
    """Header fields; beyond: 431."""
    target_bytes: int = 8 * 1024
    """Path and query as sent; beyond: 414."""
    body_s: float = 10.0
    """Waiting for a body, however small; beyond: 408."""
    body_bytes_per_s: int = 64 * 1024
    """Each time this many bytes have arrived, one more second is allowed."""
    write_stall_s: float = 30.0
    """A client that reads less than `write_stall_bytes` in this time is cut off, unless it has read all."""
    write_stall_bytes: int = 64 * 1024
    """How much must leave our buffer in `write_stall_s`, if it holds that much."""
    keep_alive_s: float = 75.0
    """An idle connection is kept this long: longer than proxies keep theirs, so that they close first."""
    linger_s: float = 5.0
    """After an answer to a request with an unread body, the client may keep sending for this long in all, and
    may never pause for longer."""
    linger_bytes: int = 8 * 1024 * 1024
    """… and this much, which is discarded. Beyond either limit it needs one of the `discards`."""
    discards: int = 16
    """Connections of callers with a key that may keep sending beyond that, and as many of strangers."""
    discard_s: float = 60.0
    """… for this long, pauses included,"""
    discard_bytes: int = 288 * 1024 * 1024
    """… and this much: more than the largest body that we accept."""
    stranger_discard_bytes: int = 32 * 1024 * 1024
    """The same for a client without a valid key."""
    connections: int = 800
    """Open connections; beyond: idle ones are closed, or 503. Below the usual 1,024 descriptors."""
    connections_per_address: int = 400
    """Open connections per address, except for trusted proxies; beyond: 503 and closed. 0: no limit."""
    pipelined: int = 32
    """Pipelined requests behind the one being answered; beyond: they are answered, then we close."""
    grace_s: float = 10.0
    """After the stop signal, requests in progress have this long to finish."""


class Buckets:
    """Leaky buckets by key: `size` at once, then one every `leak_s` seconds. Thread-safe."""

    def __init__(self, size: int, leak_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._leak_s = leak_s
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # Keys are admitted in the database's threads on PostgreSQL, in the event loop on SQLite.
        self._lock = threading.Lock()

    def take(self, key: str) -> bool:
        """Add one; False if the bucket is full."""
        with self._lock:
            if self._level(key) + 1 > self._size:
                return False
            self._add(key, 1)
            return True

    def wait_s(self, key: str) -> float:
        """Seconds until the bucket has room for one more."""
        with self._lock:
            return max(0.0, (self._level(key) + 1 - self._size) * self._leak_s)

    def add(self, key: str, count: float) -> None:
        """Add `count`, or take it back if it is negative, whether or not the bucket is full."""
        with self._lock:
            self._add(key, count)

    def _add(self, key: str, count: float) -> None:
        level = max(0.0, self._level(key) + count)
        self._levels.pop(key, None)
        if level:
            self._levels[key] = (level, self._clock())
        if len(self._levels) > MAX_KEYS:
            self._levels.popitem(last=False)

    def _level(self, key: str) -> float:
        level, since = self._levels.get(key, (0.0, 0.0))
        return max(0.0, level - (self._clock() - since) / self._leak_s)


class Rates:
    """Requests per second per key; `per_second` 0 lets everything through.

    If a key keeps sending after refusals, further ones are delayed, so that its connections limit its flood;
    so are those of strangers without a key, who together have the rate of one key.
    """

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        burst, leak_s = per_second * BURST_SECONDS, 1 / max(1, per_second)
        self._requests = Buckets(burst, leak_s, clock)
        self._refusals = Buckets(PROMPT_REFUSALS, 1 / PROMPT_REFUSALS_PER_SECOND, clock)
        self._strangers = Buckets(burst, leak_s, clock)

    def take(self, key_id: str) -> None:
        """Count one request of this key. RateLimited carries how long to delay its answer."""
        if self._per_second == 0 or self._requests.take(key_id):
            return
        # Not bound to a local name: error, traceback and frame would form a reference cycle.
        raise self._refusal(key_id)

    def _refusal(self, key_id: str) -> RateLimited:
        refusal = RateLimited(
            f"this key makes more than {self._per_second} requests a second; wait as Retry-After says",
            limit="requests_per_second",
        )
        refusal.pause_s = 0.0 if self._refusals.take(key_id) else random.uniform(*PAUSE_S)
        return refusal

    def strangers_pause_s(self) -> float:
        """How long to delay the refusal of a request without a valid key."""
        return 0.0 if self._per_second == 0 or self._strangers.take("") else random.uniform(*PAUSE_S)


class Requests:
    """Requests in progress in one process, by account. Thread-safe.

    The second half of the capacity is reserved for accounts with few requests in progress.
    """

    def __init__(self, per_account: int, connections: int) -> None:
        self._per_account = per_account
        self._open = connections // 2
        self._under_way: dict[str, int] = {}
        self._total = 0
        # Entered in the database's threads on PostgreSQL, in the event loop on SQLite.
        self._lock = threading.Lock()

    def enter(self, account_id: str) -> None:
        """Count one more request. RateLimited when the account has its share (0 per account: no limit)."""
        with self._lock:
            count = self._under_way.get(account_id, 0)
            is_full = self._total >= self._open and count >= RESERVED_EACH
            if self._per_account and (is_full or count >= self._per_account):
                raise RateLimited(
                    f"this account already has {count} requests in progress, its limit for now; "
                    "wait for their answers",
                    limit="requests_at_once",
                )
            self._under_way[account_id] = count + 1
            self._total += 1

    def leave(self, account_id: str) -> None:
        """The request was answered, or its client has gone."""
        with self._lock:
            self._total -= 1
            count = self._under_way.pop(account_id) - 1
            if count:
                self._under_way[account_id] = count


class FairThreads:
    """A few threads, shared among accounts, for work that would block the event loop. Used by the loop only.

    An account has at most `per_account` threads at once, and waiting accounts take turns, so that one
    account's thousand reads do not delay another's first. An account whose work took long lets the others go
    first, for as long as it took.
    """

    def __init__(
        self, threads: int, per_account: int, name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._threads, self._per_account = threads, per_account
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._busy: Counter[str] = Counter()
        # By account, in the order of their turns; within an account, in order of arrival.
        self._waiting: OrderedDict[str, deque[tuple[asyncio.Future[Any], Callable[[], Any]]]] = OrderedDict()
        self._clock = clock
        self._long = Buckets(1, 1.0, clock)

    def run(self, account_id: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        """A future with the result of the work. Work that is cancelled before its turn is never started."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account_id, deque()).append((future, work))
        self._begin()
        return future

    def waiting(self, account_id: str) -> int:
        """How much of an account's work has not started yet."""
        return len(self._waiting.get(account_id, ()))

    def close(self) -> None:
        """Start nothing more, without waiting for what is running."""
        self._waiting.clear()
        self._pool.shutdown(wait=False)

    def _begin(self) -> None:
        while self._busy.total() < self._threads and (turn := self._next_turn()) is not None:
            account_id, future, work = turn
            self._busy[account_id] += 1
            began_s = self._clock()
            try:
                task = asyncio.get_running_loop().run_in_executor(self._pool, work)
            except RuntimeError as error:  # The machine has no thread left.
                self._leave(account_id)
                future.set_exception(error)
            else:
                task.add_done_callback(partial(self._end, account_id, future, began_s))

    def _next_turn(self) -> tuple[str, "asyncio.Future[Any]", Callable[[], Any]] | None:
        for account_id in sorted(self._waiting, key=self._long.wait_s):
            waiting = self._waiting[account_id]
            while waiting and waiting[0][0].cancelled():
                waiting.popleft()
            if waiting and self._busy[account_id] >= self._per_account:
                continue
            turn = waiting.popleft() if waiting else None
            if waiting:
                self._waiting.move_to_end(account_id)
            else:
                del self._waiting[account_id]
            if turn is not None:
                return account_id, *turn
        return None

    def _end(
        self, account_id: str, future: "asyncio.Future[Any]", began_s: float, task: "asyncio.Future[Any]"
    ) -> None:
        self._leave(account_id)
        if (took_s := self._clock() - began_s) >= LONG_S:
            self._long.add(account_id, took_s)
        error = None if task.cancelled() else task.exception()
        if not future.done():
            if task.cancelled():
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(task.result())
        self._begin()

    def _leave(self, account_id: str) -> None:
        self._busy[account_id] -= 1
        if not self._busy[account_id]:
            del self._busy[account_id]
