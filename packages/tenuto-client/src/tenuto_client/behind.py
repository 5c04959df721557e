"""Work that stays a few blocks behind what brings it: a thread hashes and writes while the next bytes arrive.

Hashing and writing leave the interpreter to other threads, so both really go on at once. Knows nothing of
what the work is.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

MAX_WAITING = 4
"""So many blocks may wait; whoever brings more waits, too."""


class Behind:
    """One thread that works on blocks in their order. All calls come from one thread at a time."""

    def __init__(self, work: Callable[[bytes], None]) -> None:
        self._work = work
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)
        self._error: BaseException | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, block: bytes) -> None:
        """Hand on a block. Raises what the work on an earlier one raised."""
        self._tell()
        self._waiting.put(block)

    def settle(self) -> None:
        """Wait until everything is done. Raises what the work raised."""
        self._waiting.join()
        self._tell()

    def close(self) -> None:
        """End the thread; what is still waiting is dropped."""
        self._is_over = True
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (block := self._waiting.get()) is not None:
            try:
                if not self._is_over and self._error is None:
                    self._work(block)
            except BaseException as error:
                self._error = error
            finally:
                self._waiting.task_done()

    def _tell(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
