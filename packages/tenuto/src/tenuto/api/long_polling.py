"""Requests that wait for a job to change: one thread serves all of them, and their number is bounded.

The thread, of which `live_events` has another, sleeps while nobody waits. It is woken by whoever changes a
job, looks at least once a second as well, and wakes the event loop; it knows neither what an operation looks
like nor who may see it.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress

from msgspec import Struct, field

from tenuto.db.database import Database, Listener, Transaction
from tenuto.errors import Unavailable
from tenuto.jobs import read
from tenuto.logs import get_logger, log_failure

TOPIC = "changes"
"""Woken by whoever has changed a job's state."""

MAX_WAITERS = 400
MAX_WAITERS_OF_ACCOUNT = 100
POLL_S = 1.0
PAUSE_S = 0.02
"""Between two looks: under load every commit would wake us."""

_log = get_logger("tenuto.api")


class LongPoll(Struct, eq=False):
    """A request that waits until the newest event of its job is another than `sequence`."""

    account_id: str
    job_id: str
    sequence: int
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def wake(self) -> None:
        """The job has changed, or nobody may wait any longer; from any thread."""
        with suppress(RuntimeError):  # The loop has ended, and its requests with it.
            self.loop.call_soon_threadsafe(self.changed.set)


class Watch:
    """A thread that looks at the database when somebody has changed a job, and at least once a second, while
    it is wanted."""

    def __init__(self, database: Database, name: str, look: Callable[[], None]) -> None:
        self._database, self._name, self._look = database, name, look
        self._is_wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def begin(self) -> None:
        """Somebody waits. Call it in one thread at a time."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._is_wanted.set()

    def rest(self) -> None:
        """Nobody waits any more."""
        self._is_wanted.clear()

    def stop(self) -> None:
        """Look no more; from any thread."""
        self._stopping.set()
        self._is_wanted.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with closing(self._database.listen(TOPIC)) as listener:
                    self._serve(listener)
            except (Unavailable, OSError):  # No database, or no descriptor to listen with.
                self._stopping.wait(POLL_S)
            except Exception as error:
                log_failure(_log, "changes.failed", error, watch=self._name)
                self._stopping.wait(POLL_S)

    def _serve(self, listener: Listener) -> None:
        while self._is_wanted.wait() and not self._stopping.is_set():
            listener.wait(POLL_S)
            self._look()
            self._stopping.wait(PAUSE_S)


class LongPolls:
    """Who waits in this process. `enter` and `leave` belong to the event loop's thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Never locked: other threads read it in one step.
        self._waiters: dict[int, LongPoll] = {}
        self._of_account: Counter[str] = Counter()
        self._watch = Watch(database, "long-polls", self._look)

    def enter(self, account_id: str, job_id: str, sequence: int) -> LongPoll | None:
        """A new waiter; None if this account or this process has as many as it may, or if we are stopping."""
        full = len(self._waiters) >= MAX_WAITERS or self._of_account[account_id] >= MAX_WAITERS_OF_ACCOUNT
        if full or self._watch.is_stopping:
            return None
        waiter = LongPoll(account_id, job_id, sequence)
        self._waiters[id(waiter)] = waiter
        self._of_account[account_id] += 1
        self._watch.begin()
        return waiter

    def leave(self, waiter: LongPoll) -> None:
        """The waiter was answered."""
        del self._waiters[id(waiter)]
        self._of_account[waiter.account_id] -= 1
        if not self._of_account[waiter.account_id]:
            del self._of_account[waiter.account_id]
        if not self._waiters:
            self._watch.rest()

    def stop(self) -> None:
        """Everybody who waits is answered now; from any thread."""
        self._watch.stop()
        for waiter in list(self._waiters.values()):
            waiter.wake()

    def _look(self) -> None:
        waiters = list(self._waiters.values())

        def sequences(tx: Transaction) -> dict[str, int]:
            return {job_id: read.sequence(tx, job_id) for job_id in {waiter.job_id for waiter in waiters}}

        newest = self._database.read(sequences)
        for waiter in waiters:
            if newest[waiter.job_id] != waiter.sequence:
                waiter.wake()
