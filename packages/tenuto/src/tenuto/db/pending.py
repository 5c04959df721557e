"""An operation handed to another thread, and the way its answer comes back. Knows no database."""

import asyncio
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
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
    """Gives every operation of a group its answer, waking each event loop once for all that wait."""
    loops: dict[asyncio.AbstractEventLoop, list[Pending]] = {}
    for pending in group:
        if pending.finished is not None:
            pending.finished.release()
        elif pending.loop is not None:
            loops.setdefault(pending.loop, []).append(pending)
    for loop, answered in loops.items():
        with _posting:
            waiting = _answered.setdefault(loop, [])
            is_woken = bool(waiting)
            waiting.extend(answered)
        if not is_woken:
            # Nobody waits in a closed loop.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, loop)


def refuse(group: Iterable[Pending], error: Callable[[], BaseException]) -> None:
    """Answers every operation of a group with an error of its own."""
    refused = list(group)
    for pending in refused:
        pending.error = error()
    answer(refused)


def _resolve(loop: asyncio.AbstractEventLoop) -> None:
    with _posting:
        waiting, _answered[loop] = _answered[loop], []
    for pending in waiting:
        future = pending.future
        if future is None or future.done():
            continue
        if pending.error is not None:
            future.set_exception(pending.error)
        else:
            future.set_result(pending.result)


# What each event loop has not yet taken. A non-empty list means that its `_resolve` is scheduled.
_answered: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Pending]] = weakref.WeakKeyDictionary()
_posting = threading.Lock()
