"""Lock files beside a SQLite database, for all its processes: whose turn it is to write.

SQLite's own write lock is polled with sleeps, so a process that writes without pause starves the others.
Here the next in line holds `<database>.turn` while it waits for `<database>.lock`: who has just written
must queue behind it. The kernel frees them when a process dies. Knows nothing of what is written.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tenuto.errors import Unavailable

# A process that holds the lock this long is stopped or its disk hangs; its peers then answer 503 instead of
# waiting.
TURN_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 0.00005
_LONGEST_PAUSE_S = 0.0003


class Turn:
    """The right to write, for one writer of this process."""

    def __init__(self, database: Path) -> None:
        self._turn = os.open(f"{database}.turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = os.open(f"{database}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Holds the lock; raises Unavailable when another process does not let go of it."""
        deadline = time.monotonic() + TURN_TIMEOUT_S
        _take(self._turn, deadline)
        try:
            _take(self._lock, deadline)
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._turn)
        os.close(self._lock)


def _take(descriptor: int, deadline: float) -> None:
    pause_s = _FIRST_PAUSE_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > deadline:
            raise Unavailable(
                "Another process holds the database's write lock; nothing was stored, try again."
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
