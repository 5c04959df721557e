"""What every thread of a worker needs, built once at its start, and what its slots wait for."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct, field

from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.file.blob import BlobStore
from tenuto.ids import Clock, Ids
from tenuto.kind.model import Model

FIRST_SETBACK_MS = 1_000
LONGEST_SETBACK_MS = 60_000
REMEMBERED_JOBS = 10_000


class Setbacks:
    """How long a job waits that this machine, through no fault of the job, could not run: longer each time.

    In memory only: another machine may have what this one lacks, and so may this one after a restart.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: OrderedDict[str, int] = OrderedDict()

    def pause_ms(self, job_id: str) -> int:
        """Count one more setback; returns the pause before the next try, from a second to a minute."""
        with self._lock:
            times = self._times.pop(job_id, 0)
            self._times[job_id] = times + 1
            if len(self._times) > REMEMBERED_JOBS:
                self._times.popitem(last=False)
        return min(LONGEST_SETBACK_MS, FIRST_SETBACK_MS << min(times, 16))

    def forget(self, job_id: str) -> None:
        """The job succeeded."""
        with self._lock:
            self._times.pop(job_id, None)


class WorkerContext(Struct, frozen=True):
    """What a worker process consists of. Made at its start, unchanged until its end."""

    settings: Settings
    database: Database
    blobs: BlobStore
    models: dict[str, Model]
    ids: Ids
    clock: Clock
    worker_id: str
    locks: Path
    """The folder of lock files, which show this machine's workers which of them are alive."""
    setbacks: Setbacks = field(default_factory=Setbacks)
    database_clock: Callable[[], int] | None = None
    """Reads the wall clock of the database's server, in ms; None: the database is on this machine."""


IN_VAIN_S = 0.5
"""How long one fruitless check of a lane counts for all its slots; less than the time between two polls."""


class WorkCondition:
    """Wakes the slots that wait in a lane or are about to, and remembers where that was last in vain."""

    def __init__(self, lanes: Iterable[str]) -> None:
        self._conditions = {lane: threading.Condition() for lane in lanes}
        self._announced = dict.fromkeys(self._conditions, 0)
        # By lane: how often work was announced before a check that found none, and when that was.
        self._in_vain: dict[str, tuple[int, float]] = {}
        # By lane: how often it was announced when a slot last answered.
        self._answered: dict[str, int] = {}

    def count(self, lane: str) -> int:
        """How often work was announced in the lane; read this before checking for it."""
        return self._announced[lane]

    def announce(self, *lanes: str) -> None:
        """Wake every waiter in these lanes; in all lanes if none is given."""
        for lane in lanes or self._conditions:
            with self._conditions[lane]:
                self._announced[lane] += 1
                self._conditions[lane].notify_all()

    def wait(self, lane: str, since: int, timeout_s: float | None = None) -> bool:
        """Wait until work was announced in the lane more often than `since`; False if the time runs out."""
        with self._conditions[lane]:
            return self._conditions[lane].wait_for(lambda: self._announced[lane] != since, timeout_s)

    def is_first(self, lane: str, since: int) -> bool:
        """Whether no slot has answered this announcement yet: there may be work for only one."""
        is_first = self._answered.get(lane) != since
        self._answered[lane] = since
        return is_first

    def found_nothing(self, lane: str, since: int) -> None:
        """Note that a check of the lane that began after this many announcements found nothing."""
        self._in_vain[lane] = (since, time.monotonic())

    def was_in_vain(self, lane: str, since: int) -> bool:
        """Whether another slot of the lane has just checked, after the same announcement, and found nothing.
        All of them are woken, and a check by each would cost as much as the job that was announced.
        """
        announced, at_s = self._in_vain.get(lane, (-1, 0.0))
        return announced == since and time.monotonic() - at_s < IN_VAIN_S
