"""One worker process, seen from outside: whether it is alive, whether it takes jobs, what runs there."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tenuto.config import Settings

if TYPE_CHECKING:
    from tenuto.worker.supervisor import Worker

STUCK_S = 60.0
"""A heartbeat older than this, whether or not the database answers, will not come back."""


class Watch:
    """For probes and metrics, from the process's start to its end."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.worker: Worker | None = None
        """Set when it has registered; until then it waits for the database."""
        self.stopping = False

    def live(self) -> str | None:
        """What only a restart would fix; None while all is well."""
        if self.worker is None or self.stopping:
            return None
        silent_s = time.monotonic() - self.worker.heartbeat_at()
        if silent_s > STUCK_S:
            return f"no heartbeat for {silent_s:.0f} s"
        dead = self.worker.dead_slots()
        return f"{dead} slots have ended" if dead else None

    def ready(self) -> str | None:
        """Why this worker claims no jobs; None if it does."""
        if self.stopping:
            return "the worker is stopping"
        return "the worker has not registered yet" if self.worker is None else None

    def running(self) -> int:
        """How many attempts run here."""
        return 0 if self.worker is None else self.worker.running()

    def engines(self) -> Mapping[str, int]:
        """The engines loaded here, and the MiB that each took when last measured."""
        return {} if self.worker is None else self.worker.engines()
