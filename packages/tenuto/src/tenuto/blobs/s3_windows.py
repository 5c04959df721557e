"""Reading ahead: the next few blocks of a blob are fetched while the last ones are sent, within a bound.

Knows no store: whoever reads gives a function that fetches blocks. All readers of a process together hold
at most `WINDOWS_AHEAD` windows; whoever finds no room goes on block by block, for some are slow.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import BoundedSemaphore

WINDOW_BLOCKS = 4
WINDOWS_AHEAD = 16
THREADS = 8

Fetch = Callable[[int, int], memoryview]
"""Gives that many blocks from an index on (the last may be shorter); raises what a reader is to see."""


class Windows:
    """The threads that fetch ahead, and the room for what they fetch; shared by all readers of a store."""

    def __init__(self) -> None:
        self._room = BoundedSemaphore(WINDOWS_AHEAD)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="s3-ahead")

    def read(self, fetch: Fetch, first: int, end: int) -> Iterator[tuple[int, memoryview]]:
        """Blocks from `first` up to `end` in turn, each window with the index of its first block.

        The first window is one block, so that it comes soon; the others end where a part does, or a share
        of one: stores keep parts together.
        """
        at, size = first, 1
        current: Future[memoryview] | None = None
        coming: Future[memoryview] | None = None
        try:
            while at < end:
                # A window that no thread has begun to fetch is fetched here: the threads may all be stuck.
                is_here = current is not None and not current.cancel()
                window = current.result() if is_here and current is not None else fetch(at, size)
                next_size = min(WINDOW_BLOCKS - (at + size) % WINDOW_BLOCKS, end - at - size)
                if next_size > 0 and self._room.acquire(blocking=False):
                    coming = self._threads.submit(fetch, at + size, next_size)
                yield at, window
                self._leave(current)
                at, size = at + size, next_size if coming is not None else 1
                current, coming = coming, None
        finally:
            self._leave(current)
            self._leave(coming)

    def _leave(self, window: "Future[memoryview] | None") -> None:
        """Its room is free, or will be when it is fetched: a call that has begun can't be called back."""
        if window is not None:
            window.cancel()
            window.add_done_callback(lambda _: self._room.release())
