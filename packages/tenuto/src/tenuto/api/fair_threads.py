"""A few threads for work that would hold up the event loop, shared among accounts: each gets its turn.

An account has at most so many threads at once, and accounts that wait are served one after the other, so
that nobody's thousand reads stand in front of somebody else's first. Used by the event loop alone.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class FairThreads:
    """Threads of one process."""

    def __init__(self, threads: int, per_account: int, name: str) -> None:
        self._threads, self._per_account = threads, per_account
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._busy: Counter[str] = Counter()
        # By account, in the order of their turns; each account's own work in the order in which it came.
        self._waiting: OrderedDict[str, deque[tuple[asyncio.Future[Any], Callable[[], Any]]]] = OrderedDict()

    def run(self, account_id: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        """What the work gives, once its turn has come and it is done. Cancelled before, it is not begun."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account_id, deque()).append((future, work))
        self._begin()
        return future

    def waiting(self, account_id: str) -> int:
        """How much work of an account has not begun."""
        return len(self._waiting.get(account_id, ()))

    def close(self) -> None:
        """Nothing more is begun; what runs is not waited for."""
        self._waiting.clear()
        self._pool.shutdown(wait=False)

    def _begin(self) -> None:
        while self._busy.total() < self._threads and (turn := self._next_turn()) is not None:
            account_id, future, work = turn
            self._busy[account_id] += 1
            task = asyncio.get_running_loop().run_in_executor(self._pool, work)
            task.add_done_callback(partial(self._end, account_id, future))

    def _next_turn(self) -> tuple[str, "asyncio.Future[Any]", Callable[[], Any]] | None:
        for account_id, waiting in list(self._waiting.items()):
            while waiting and waiting[0][0].cancelled():
                waiting.popleft()
            if waiting and self._busy[account_id] >= self._per_account:
                continue
            found = waiting.popleft() if waiting else None
            if waiting:
                self._waiting.move_to_end(account_id)
            else:
                del self._waiting[account_id]
            if found is not None:
                return account_id, *found
        return None

    def _end(self, account_id: str, future: "asyncio.Future[Any]", task: "asyncio.Future[Any]") -> None:
        self._busy[account_id] -= 1
        if not self._busy[account_id]:
            del self._busy[account_id]
        error = None if task.cancelled() else task.exception()
        if not future.done():
            if task.cancelled():
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(task.result())
        self._begin()
