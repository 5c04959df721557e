"""An operation handed to another thread, and the way its answer comes back. Knows no database."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tenuto.db.database import Transaction


class Pending:
    """One operation and its answer: `result`, or `error` when that is set. A future or a thread waits."""

    __slots__ = ("error", "finished", "future", "loop", "operation", "result")

    def __init__(
        self, operation: Callable[[Transaction], Any], loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.operation = operation
        self.result: Any = None
        self.error: BaseException | None = None
        self.loop = loop
        self.future: asyncio.Future[Any] | None = loop.create_future() if loop else None
        # Held until the answer is there; cheaper than an Event.
        self.finished: threading.Lock | None = None
        if loop is None:
            self.finished = threading.Lock()
            self.finished.acquire()

    def wait(self) -> Any:
        """Blocks this thread until the answer is there."""
        assert self.finished is not None
        self.finished.acquire()
        if self.error is not None:
            raise self.error
        return self.result


def answer(group: Iterable[Pending]) -> None:
    """Gives every operation of a group its answer, waking each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[Pending]] = {}
    for pending in group:
        if pending.finished is not None:
            pending.finished.release()
        elif pending.loop is not None:
            loops.setdefault(pending.loop, []).append(pending)
    for loop, waiting in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, waiting)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            continue


def refuse(group: Iterable[Pending], error: Callable[[], BaseException]) -> None:
    """Answers every operation of a group with an error of its own."""
    refused = list(group)
    for pending in refused:
        pending.error = error()
    answer(refused)


def _resolve(waiting: list[Pending]) -> None:
    for pending in waiting:
        future = pending.future
        if future is None or future.done():
            continue
        if pending.error is not None:
            future.set_exception(pending.error)
        else:
            future.set_result(pending.result)
