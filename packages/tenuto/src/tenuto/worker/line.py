"""A line: who waits for something that one at a time may have, or all who share it, in the order they came.

Of several accounts each goes in turn, however many of its jobs wait. Knows neither engines nor jobs.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile

from tenuto.hosts.host import Cancellation, Cancelled


@dataclass(frozen=True, eq=False)
class _Place:
    account_id: str
    is_shared: bool


class Line:
    """First come, first served, and accounts in turn; a lock would let anybody in next."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Place] = deque()

    @contextmanager
    def turn(
        self,
        stop: Cancellation,
        *,
        account_id: str = "",
        is_shared: bool = False,
    ) -> Iterator[None]:
        """Have it while the block lasts, alone or with others that share it and came in a row.

        Raises Cancelled when `stop` is set before it is one's turn.
        """
        me = _Place(account_id, is_shared)
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

    def _join(self, me: _Place) -> None:
        """Behind all who have no more of their own account before them; never before whose turn it is."""
        before = Counter[str]()
        position = len(self._waiting)
        own = sum(place.account_id == me.account_id for place in self._waiting)
        for index, place in enumerate(self._waiting):
            if index and before[place.account_id] > own:
                position = index
                break
            before[place.account_id] += 1
        self._waiting.insert(position, me)

    def _is_due(self, me: _Place) -> bool:
        ahead = takewhile(lambda place: place is not me, self._waiting)
        return all(me.is_shared and place.is_shared for place in ahead)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
