"""A queue, in order of arrival, for a resource that one holds at a time, or several that share it.

Accounts take turns, however many jobs each has waiting. Knows neither engines nor jobs.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

from msgspec import Struct

from tenuto.host.host import Cancellation, Cancelled


class _Waiter(Struct, frozen=True, eq=False):
    account_id: str
    is_shared: bool


class FairLock:
    """First come, first served, and accounts in turn; a plain lock would admit any waiter next."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Waiter] = deque()

    @contextmanager
    def turn(
        self,
        stop: Cancellation,
        *,
        account_id: str = "",
        is_shared: bool = False,
    ) -> Iterator[None]:
        """Hold it while the block lasts: alone, or with the others that share it at the head of the queue.

        Raises Cancelled if `stop` is set before the turn comes.
        """
        me = _Waiter(account_id, is_shared)
        with self._changed:
            self._join(me)
        try:
            with stop.calling(self._wake), self._changed:
                while not self._is_due(me) and not stop.is_set():
                    self._changed.wait()
            if stop.is_set():
                raise Cancelled(lost=False)
            yield
        finally:
            with self._changed:
                self._waiting.remove(me)
                self._changed.notify_all()

    def _join(self, me: _Waiter) -> None:
        """Queue behind all with no more of their own account ahead than `me`; never ahead of the first."""
        before = Counter[str]()
        position = len(self._waiting)
        own = sum(waiter.account_id == me.account_id for waiter in self._waiting)
        for index, waiter in enumerate(self._waiting):
            if index and before[waiter.account_id] > own:
                position = index
                break
            before[waiter.account_id] += 1
        self._waiting.insert(position, me)

    def _is_due(self, me: _Waiter) -> bool:
        ahead = takewhile(lambda waiter: waiter is not me, self._waiting)
        return all(me.is_shared and waiter.is_shared for waiter in ahead)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
