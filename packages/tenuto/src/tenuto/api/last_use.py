"""When keys and sessions were last used, collected until somebody writes it down.

Requests are admitted in the event loop on SQLite and in the database's threads on PostgreSQL, and another
thread takes what was collected, so everything here may be called from any thread. What is not written down
is lost with the process, which nobody minds.
"""

import threading


class LastUse:
    """Milliseconds by the id of a key, or the digest of a session."""

    def __init__(self) -> None:
        self._at_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def note(self, used: str, at_ms: int) -> None:
        """It was used just now."""
        with self._lock:
            self._at_ms[used] = at_ms

    def get(self, used: str) -> int | None:
        """What is not written down yet."""
        with self._lock:
            return self._at_ms.get(used)

    def forget(self, used: str) -> None:
        """It has ended; there is nothing to write down."""
        with self._lock:
            self._at_ms.pop(used, None)

    def take(self) -> dict[str, int]:
        """All of it, to be written down; nobody else sees or changes it any more."""
        with self._lock:
            taken, self._at_ms = self._at_ms, {}
        return taken

    def put_back(self, taken: dict[str, int]) -> None:
        """It could not be written down; what was noted since is newer."""
        with self._lock:
            self._at_ms = taken | self._at_ms
