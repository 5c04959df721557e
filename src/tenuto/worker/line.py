"""A line: who waits for something that one at a time may have, in the order in which they came.

Knows neither engines nor jobs.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tenuto.hosts.host import Cancellation, Cancelled

LOOK_S = 5.0
"""How often who waits says that it does."""


class Line:
    """First come, first served; a lock would let anybody in next."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    @contextmanager
    def turn(self, stop: Cancellation, on_wait: Callable[[], None]) -> Iterator[None]:
        """Have it while the block lasts. Raises Cancelled when `stop` is set before it is one's turn."""
        me = object()
        with self._changed:
            self._waiting.append(me)
        try:
            with stop.calling(self._wake), self._changed:
                while self._waiting[0] is not me and not stop.is_set():
                    on_wait()
                    self._changed.wait(LOOK_S)
            if stop.is_set():
                raise Cancelled(lost=False)
            on_wait()
            yield
        finally:
            with self._changed:
                self._waiting.remove(me)
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
