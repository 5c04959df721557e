"""What every part of a worker needs, built once by `bootstrap`, and its bell."""

import threading
from dataclasses import dataclass
from pathlib import Path

from tenuto.blobs.blob import BlobStore
from tenuto.catalog.rules import Model
from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.ids import Clock, Ids


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a worker process. Made at start, the same until it ends."""

    settings: Settings
    database: Database
    blobs: BlobStore
    models: dict[str, Model]
    ids: Ids
    clock: Clock
    worker_id: str
    locks: Path
    """The folder of lock files that tell this machine's workers which of them live."""


class Bell:
    """Rings for whoever waits, and remembers for whoever was about to."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rung = 0

    @property
    def rung(self) -> int:
        """How often it has rung; take it before looking for work."""
        return self._rung

    def ring(self) -> None:
        """Wake everybody."""
        with self._condition:
            self._rung += 1
            self._condition.notify_all()

    def wait(self, since: int, timeout_s: float) -> bool:
        """True as soon as it has rung more often than `since`."""
        with self._condition:
            return self._condition.wait_for(lambda: self._rung != since, timeout_s)
