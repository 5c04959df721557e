"""Requests that are being carried out, for every call that waits for them. They know no files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mcp_types import CallToolResult

from tenuto_client.records import Operation

UPLOADED, QUEUED, SAVING, COMPLETE = 10.0, 15.0, 97.0, 100.0
"""Progress of a hundred at the end of each phase; in between a running job reports its own."""


class Work:
    """One request. It outlives the call that began it, which may have given up waiting."""

    def __init__(self) -> None:
        self.operation: Operation | None = None
        """The job as it was last read; None before the service has accepted it."""
        self.is_resumed = False
        """Whether the request was sent before, by another call or an earlier process."""
        self.progress = 0.0
        self.message = "submitting"
        self._changed = asyncio.Event()
        self._task: asyncio.Task[CallToolResult] | None = None

    def start(self, result: Awaitable[CallToolResult]) -> Work:
        """Carry it out in a task."""
        self._task = asyncio.ensure_future(result)
        self._task.add_done_callback(self._finish)
        return self

    def _finish(self, task: asyncio.Task[CallToolResult]) -> None:
        if not task.cancelled():
            task.exception()  # Whoever waits gets it; nobody may.
        self._changed.set()

    @property
    def is_done(self) -> bool:
        """Whether there is a result, or an error in its place."""
        return self._task is not None and self._task.done()

    def result(self) -> CallToolResult:
        """The result of one that is done. Raises what carrying it out raised."""
        assert self._task is not None
        return self._task.result()

    def cancel(self) -> None:
        """Stop carrying it out; the job continues."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """The same, and wait until it has ended."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    def note(self, progress: float, message: str) -> None:
        """Take down how far it is; progress never falls."""
        self.progress = max(self.progress, progress)
        self.message = message
        self._changed.set()

    def note_bytes(self, done: int, total: int) -> None:
        """How much of the recording has been uploaded."""
        self.note(UPLOADED * done / max(total, 1), "uploading")

    def note_operation(self, operation: Operation) -> None:
        """The job as it was just read."""
        self.operation = operation
        at, message = QUEUED if operation.state == "running" else UPLOADED, operation.state
        if operation.state == "queued" and operation.queue_position:
            message = f"queued, {operation.queue_position} before it"
        elif operation.progress is not None and operation.progress.total:
            progress = operation.progress
            at += (SAVING - QUEUED) * min(1.0, progress.completed / progress.total)
            message = f"{progress.stage}: {progress.completed} of {progress.total} {progress.unit}"
        self.note(at, message)

    async def changed(self, seconds: float) -> None:
        """Wait until something has changed since the last call, but no longer than this."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return
        self._changed.clear()

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition of this work; False if the time is over."""
        end = asyncio.get_running_loop().time() + seconds
        while not condition():
            left_s = end - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            await self.changed(left_s)
        return True
