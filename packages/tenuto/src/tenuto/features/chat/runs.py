"""Runs of models, each in a task of its own, so that one can go on after its caller has left.

Knows neither models nor money.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tenuto.errors import TenutoError
from tenuto.features.chat.answers import Piece
from tenuto.logs import get_logger

FINISH_S = 5.0
"""How long a service that stops reads on for callers who have left."""
BACKLOG = 16_384
"""The weight of the pieces that may wait for their caller; a piece of one token weighs 1."""
LOGPROBS_WEIGHT = 16
T = TypeVar("T")

_log = get_logger("tenuto.chat")


class Run:
    """One run: how far it is, and its pieces on their way to the caller. Used in the event loop only."""

    def __init__(self, *, goes_on: bool) -> None:
        self.goes_on = goes_on
        """Whether the answer is read to its end without its caller, once the model was asked."""
        self.is_asked = False
        self.is_left = False
        self.was_full = False
        """Whether the caller has held up the model by reading slowly."""
        self._pieces: deque[Piece] = deque()
        self._weight = 0
        self._is_ended = False
        self._changed = asyncio.Event()

    @property
    def is_by_caller(self) -> bool:
        """Whether the caller may have brought about an early end."""
        return self.is_left or self.was_full

    async def give(self, piece: Piece) -> None:
        """Pass on a piece; waits while too many are unread. If the caller has left, nobody gets it."""
        if self.is_left:
            return
        self._pieces.append(piece)
        self._weight += _weight(piece)
        self._changed.set()
        self.was_full |= self._weight > BACKLOG
        await self._until(lambda: self._weight <= BACKLOG or self.is_left)

    async def take(self) -> Piece | None:
        """The next piece. None: the run has ended."""
        await self._until(lambda: bool(self._pieces) or self._is_ended)
        if not self._pieces:
            return None
        piece = self._pieces.popleft()
        self._weight -= _weight(piece)
        self._changed.set()
        return piece

    async def all_taken(self) -> None:
        """Wait until the caller has everything, or has left."""
        await self._until(lambda: not self._pieces or self.is_left)

    def leave(self) -> None:
        """The caller has left."""
        self.is_left = True
        self._pieces.clear()
        self._changed.set()

    def end(self) -> None:
        """No further piece comes."""
        self._is_ended = True
        self._changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class Runs:
    """The runs of one process. Used in the event loop only, but for `is_stopping`."""

    def __init__(self) -> None:
        self.is_stopping = False
        """Whether the service stops: whoever is cut off from now on has not left."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, run: Run, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a run; `leave` has to be called for a caller who does not wait for its end."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: run.end())
        return task

    async def result(self, run: Run, work: Coroutine[Any, Any, T]) -> T:
        """The result of a run; it is left if whoever waits for it is cancelled."""
        task = self.begin(run, work)
        try:
            return await asyncio.shield(task)
        finally:
            self.leave(run, task)

    def leave(self, run: Run, task: "asyncio.Task[Any]") -> None:
        """Nobody waits for the end of the run any more: it goes on alone, or is stopped."""
        if task.done():
            return
        task.add_done_callback(_note_failure)
        if run.is_asked and not self.is_stopping:
            run.leave()
        if not (run.is_left and run.goes_on):
            task.cancel()

    async def close(self) -> None:
        """End all runs; those that go on alone have `FINISH_S` for it."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FINISH_S)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _weight(piece: Piece) -> int:
    return 1 + len(piece.all_text) // 256 + (LOGPROBS_WEIGHT if piece.logprobs else 0)


def _note_failure(task: "asyncio.Task[Any]") -> None:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, Exception) and not isinstance(error, TenutoError):
        _log.error("chat.failed", exc_info=error)
