"""Requests that wait for a job to change: one thread serves all of them, and their number is bounded.

The thread (`live_events` has one of the same kind) sleeps while nobody waits. It reads the database after
every change of a job, and at least once a second, and wakes the event loop. It knows neither what a
job looks like nor who may see it.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress

from msgspec import Struct, field

from tenuto.db.database import Database, Listener, Transaction
from tenuto.errors import Unavailable
from tenuto.job import read
from tenuto.logs import get_logger, log_failure

TOPIC = "changes"
"""Woken by every change of a job's state."""

MAX_WAITERS = 400
MAX_WAITERS_OF_ACCOUNT = 100
POLL_S = 1.0
PAUSE_S = 0.02
"""Between two reads: under load, every commit would otherwise wake us."""

_log = get_logger("tenuto.api")


class LongPoll(Struct, eq=False):
    """A request that waits until the newest event of its job is no longer `sequence`."""

    account_id: str
    job_id: str
    sequence: int
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def wake(self) -> None:
        """Wake the request: its job has changed, or the process is stopping. Thread-safe."""
        with suppress(RuntimeError):  # The loop has ended, and its requests with it.
            self.loop.call_soon_threadsafe(self.changed.set)


class Watch:
    """A thread that calls `check` after every change of a job, and at least once a second, while wanted."""

    def __init__(self, database: Database, name: str, check: Callable[[], None]) -> None:
        self._database, self._name, self._check = database, name, check
        self._is_wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def begin(self) -> None:
        """Start checking, for somebody who will wait. Call it from one thread at a time.

        RuntimeError: no thread can be started.
        """
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self._is_wanted.set()

    def rest(self) -> None:
        """Stop checking until the next `begin`: nobody is waiting."""
        self._is_wanted.clear()

    def stop(self) -> None:
        """End the thread. Thread-safe."""
        self._stopping.set()
        self._is_wanted.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with closing(self._database.listen(TOPIC)) as listener:
                    self._serve(listener)
            except (Unavailable, OSError):  # No database, or no descriptor left for listening.
                self._stopping.wait(POLL_S)
            except Exception as error:
                log_failure(_log, "changes.failed", error, watch=self._name)
                self._stopping.wait(POLL_S)

    def _serve(self, listener: Listener) -> None:
        while self._is_wanted.wait() and not self._stopping.is_set():
            listener.wait(POLL_S)
            self._check()
            self._stopping.wait(PAUSE_S)


class LongPolls:
    """The waiting requests of this process. Call `enter` and `leave` in the event loop's thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Needs no lock: other threads copy it in one atomic step.
        self._waiters: dict[int, LongPoll] = {}
        self._of_account: Counter[str] = Counter()
        self._watch = Watch(database, "long-polls", self._check)

    def enter(self, account_id: str, job_id: str, sequence: int) -> LongPoll | None:
        """A new waiter; None if the account or the process is at its limit, if we are stopping, or if no
        thread can be started."""
        full = len(self._waiters) >= MAX_WAITERS or self._of_account[account_id] >= MAX_WAITERS_OF_ACCOUNT
        if full or self._watch.is_stopping:
            return None
        try:
            self._watch.begin()
        except RuntimeError:
            return None
        waiter = LongPoll(account_id, job_id, sequence)
        self._waiters[id(waiter)] = waiter
        self._of_account[account_id] += 1
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
        """Answer all waiters now. Thread-safe."""
        self._watch.stop()
        for waiter in list(self._waiters.values()):
            waiter.wake()

    def _check(self) -> None:
        waiters = list(self._waiters.values())

        def sequences(tx: Transaction) -> dict[str, int]:
            return {job_id: read.sequence(tx, job_id) for job_id in {waiter.job_id for waiter in waiters}}

        newest = self._database.read(sequences)
        for waiter in waiters:
            if newest[waiter.job_id] != waiter.sequence:
                waiter.wake()
