"""Tenuto's records in PostgreSQL: a few threads with a connection each, which take operations from one queue.

An event loop's writes are grouped first (`Groups`), its look-ups need no thread (`lookups.py`); reads, and
the writes of threads, each run alone. Knows no tables.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeVar
from zlib import crc32

import psycopg

from tenuto.db.connection import (
    ANSWER_TIMEOUT_MS,
    LOCK_TIMEOUT_MS,
    LONG_ANSWER_TIMEOUT_MS,
    SNAPSHOT_ANSWER_TIMEOUT_MS,
    Collision,
    Connection,
    ConnectionLost,
)
from tenuto.db.database import Asking, Collided, Transaction
from tenuto.db.database_copy import Outdated
from tenuto.db.lookups import Lookups
from tenuto.db.notices import Notices, PostgresListener
from tenuto.db.pending import Pending, answer, refuse
from tenuto.db.servers import Servers
from tenuto.errors import CommitUnknown, Unavailable

T = TypeVar("T")

# Threads compete for the interpreter: with four, a poll costs two thirds of what it does with eight.
CONNECTIONS = 4
# A queue this long is not a momentary peak: long statements block others, and more connections are opened.
BACKLOG = 16
MOST_CONNECTIONS = 12
WAITING_LIMIT = 10_000
# How many times an operation is tried if there are deadlocks, serialization failures or lost connections.
ATTEMPTS = 6
COLLISION_PAUSE_S = 0.005
FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 2.0
CLOSE_S = 15.0

# Each commits the writes of some of the accounts; while one waits for the server, another can send.
GROUPS = 4
GROUP_OPERATIONS = 64
GROUP_S = 0.005
# An operation that waits longer for a row is rolled back with its group, and all are run one by one.
GROUP_LOCK_TIMEOUT_MS = 25
# Savepoints cost an eighth of the rate, and few operations fail: none are set until an operation fails, which
# rolls back its whole group, and then for this long.
CAREFUL_S = 1.0
# How long to wait before trying to group again, after finding that another process does.
ELSEWHERE_S = 1.0
# The first of GROUPS numbers that nothing else uses.
_ADVISORY_LOCK = 7_364_680_118

AWAY = "The database is away; nothing was stored, send the same request again."
COLLIDING = "Too many writes conflict with each other; nothing was stored, send the same request again."


class PostgresDatabase:
    """A Database on a server."""

    dialect: Final = "postgresql"

    def __init__(self, url: str) -> None:
        self.servers = Servers(url)
        self._waiting: queue.SimpleQueue[tuple[Pending, bool] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Those of them that have a connection.
        self._connected: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False
        # Guards the four fields above and the three below.
        self._changing = threading.Lock()
        # Nobody tries to connect before this time of the monotonic clock.
        self._away_until = 0.0
        self._away_because: Exception | None = None
        self._backoff_s = FIRST_BACKOFF_S
        run_alone = partial(self._submit, is_write=True)
        self._groups = [Groups(self._connect, run_alone, _ADVISORY_LOCK + n) for n in range(GROUPS)]
        self._lookups = Lookups(
            partial(self._connect, GROUP_LOCK_TIMEOUT_MS),
            lambda pending: self._submit(pending, is_write=False),
        )
        self._notices = Notices(self.servers)

    def read(self, operation: Callable[[Transaction], T]) -> T:
        pending = Pending(operation)
        self._submit(pending, is_write=False)
        result: T = pending.wait()
        return result

    def snapshot(self, operation: Callable[[Transaction], T]) -> T:
        with self._own_connection(SNAPSHOT_ANSWER_TIMEOUT_MS) as connection:
            return connection.snapshot(operation)

    def write(self, operation: Callable[[Transaction], T]) -> T:
        pending = Pending(operation)
        self._submit(pending, is_write=True)
        result: T = pending.wait()
        return result

    def write_long(self, operation: Callable[[Transaction], T]) -> T:
        with self._own_connection(LONG_ANSWER_TIMEOUT_MS) as connection:
            return connection.write_long(operation)

    async def read_async(self, operation: Callable[[Transaction], T]) -> T:
        pending = Pending(operation, asyncio.get_running_loop())
        self._submit(pending, is_write=False)
        assert pending.future is not None
        result: T = await pending.future
        return result

    async def look_up(self, ask: Callable[[Asking], Callable[[], T]]) -> T:
        pending = Pending(lambda tx: ask(tx)(), asyncio.get_running_loop())
        if not self._lookups.take(pending, ask):
            self._submit(pending, is_write=False)
        assert pending.future is not None
        result: T = await pending.future
        return result

    async def write_async(self, operation: Callable[[Transaction], T], *, account_id: str = "") -> T:
        pending = Pending(operation, asyncio.get_running_loop())
        if not self._groups_of(account_id).take(pending):
            self._submit(pending, is_write=True)
        assert pending.future is not None
        result: T = await pending.future
        return result

    def wake(self, topic: str) -> None:
        self._notices.wake(topic)

    def listen(self, *topics: str, once: bool = False) -> PostgresListener:
        return self._notices.listen(*topics, once=once)

    def check_location(self) -> None:
        """A server does not move; only a query shows whether it answers."""

    def close(self) -> None:
        self._lookups.close()
        for groups in self._groups:
            groups.close()
        with self._changing:
            if self._closed:
                return
            self._closed = True
            for _ in self._threads:
                self._waiting.put(None)
        for thread in self._threads:
            thread.join(CLOSE_S)
        self._notices.close()

    @contextmanager
    def _own_connection(self, answer_timeout_ms: int) -> Iterator[Connection]:
        """A connection for one long operation."""
        if self._closed:
            raise Unavailable("The database is closed.")
        connection = self._connect(answer_timeout_ms=answer_timeout_ms)
        try:
            yield connection
        except Collision as error:
            raise Collided(COLLIDING) from error
        except ConnectionLost as error:
            raise _unavailable(AWAY, error) from error
        finally:
            connection.close()

    def _groups_of(self, account_id: str) -> "Groups":
        return self._groups[crc32(account_id.encode()) % GROUPS]

    def _submit(self, pending: Pending, *, is_write: bool) -> None:
        with self._changing:
            if self._closed:
                raise Unavailable("The database is closed.")
            if self._waiting.qsize() >= WAITING_LIMIT:
                raise Unavailable("Too many operations wait for the database; nothing was stored, try again.")
            waiting = self._waiting.qsize() + 1
            most = CONNECTIONS if waiting < BACKLOG else MOST_CONNECTIONS
            if self._connected and time.monotonic() < self._away_until:
                most = 0  # The server admits no more of us: those that have a connection serve.
            if waiting > self._idle and len(self._threads) < most:
                self._add_thread()
            self._waiting.put((pending, is_write))

    def _add_thread(self) -> None:
        """One more thread, if one can be started; with none at all, nothing would ever be answered."""
        thread = threading.Thread(target=self._work, name="postgres", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                raise _unavailable(
                    "No thread can be started; nothing was stored, try again.", error
                ) from error
        else:
            self._threads.append(thread)

    def _work(self) -> None:
        connection: Connection | None = None
        while True:
            self._idle += 1
            item = self._waiting.get()
            self._idle -= 1
            if item is None:
                break
            pending, is_write = item
            if self._closed:
                refuse([pending], lambda: Unavailable("The database is closed; nothing was stored."))
                continue
            connection = self._serve(connection, pending, is_write)
            if connection is None and self._leave(pending, is_write):
                return
            answer([pending])
        if connection is not None:
            connection.close()

    def _leave(self, pending: Pending, is_write: bool) -> bool:
        """Whether a thread without a connection ends, and leaves its operation to those that have one.

        It would refuse operations faster than they answer them, and so get most of what waits.
        """
        with self._changing:
            self._connected.discard(threading.current_thread())
            is_away = isinstance(pending.error, Unavailable) and pending.error.message == AWAY
            if not is_away or self._closed or not self._connected:
                return False
            self._threads.remove(threading.current_thread())
            pending.error = None
            self._waiting.put((pending, is_write))
        return True

    def _serve(self, connection: Connection | None, pending: Pending, is_write: bool) -> Connection | None:
        """Runs one operation to completion; returns the connection to continue with, if there is one."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                connection = connection or self._connect()
                self._connected.add(threading.current_thread())
                run = connection.write if is_write else connection.read
                pending.result = run(pending.operation)
                return connection
            except Collision as error:
                if attempt == ATTEMPTS:
                    pending.error = Collided(COLLIDING)
                    pending.error.__cause__ = error
                time.sleep(COLLISION_PAUSE_S * attempt)
            except ConnectionLost as error:
                connection = None
                if error.is_unknown:
                    pending.error = CommitUnknown()
                    pending.error.__cause__ = error
                    return None
                if attempt == ATTEMPTS:
                    pending.error = _unavailable(AWAY, error)
            except BaseException as error:
                pending.error = error
                break
        return connection if connection is not None and connection.is_open else None

    def _connect(
        self, lock_timeout_ms: int = LOCK_TIMEOUT_MS, answer_timeout_ms: int = ANSWER_TIMEOUT_MS
    ) -> Connection:
        """A new connection; after a failure every caller is refused at once until the backoff has passed."""
        with self._changing:
            is_away = time.monotonic() < self._away_until
        if is_away:
            raise Unavailable(AWAY) from self._away_because
        began = time.monotonic()
        try:
            session = self.servers.connect("tenuto")
            connection = Connection(session, lock_timeout_ms, answer_timeout_ms)
        except (psycopg.Error, Outdated, OSError) as error:  # OSError: no descriptor is left to wait with
            with self._changing:
                # If nothing answers, a try takes seconds: for as long again, nobody has to wait for one.
                now = time.monotonic()
                self._away_until = now + max(self._backoff_s, now - began)
                self._away_because = error
                self._backoff_s = min(self._backoff_s * 2, LONGEST_BACKOFF_S)
            raise Unavailable(AWAY) from error
        with self._changing:
            self._backoff_s = FIRST_BACKOFF_S
        return connection


def _unavailable(message: str, cause: BaseException) -> Unavailable:
    error = Unavailable(message)
    error.__cause__ = cause
    return error


class Groups:
    """One thread that commits the waiting writes of some accounts from an event loop as one transaction.

    Compared with a connection for each write, this takes a third of the processor time and doubles the rate,
    and an account that all of them write to is locked once. Two processes that group would each hold rows
    that the other needs, so only the holder of the advisory lock groups; the others' writes, and a group that
    fails, run one by one.
    """

    def __init__(
        self, connect: Callable[[int], Connection], run_alone: Callable[[Pending], None], lock: int
    ) -> None:
        """`lock`: the number of its advisory lock."""
        self._lock = lock
        self._connect = connect
        self._run_alone = run_alone
        self._waiting: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._connection: Connection | None = None
        self._elsewhere_until = self._careful_until = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._changing = threading.Lock()

    def take(self, pending: Pending) -> bool:
        """False if the operation should run alone: a whole group waits already, another process groups, or
        no thread can be started."""
        with self._changing:
            if (
                self._closed
                or self._waiting.qsize() >= GROUP_OPERATIONS
                or time.monotonic() < self._elsewhere_until
            ):
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="postgres-groups", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # The machine has no thread left; the next write tries again.
                    return False
                self._thread = thread
            self._waiting.put(pending)
        return True

    def close(self) -> None:
        """Finishes the group that is being written; what waits runs alone, as long as the pool is open."""
        with self._changing:
            self._closed = True
            self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            group = [first]
            try:
                self._commit(group)
            except ConnectionLost as lost:
                self._connection = None
                self._finish(group, is_unknown=lost.is_unknown)
            except BaseException as error:
                self._fail(group, error)
            else:
                answer(group)
        if self._connection is not None:
            self._connection.close()

    def _fail(self, group: list[Pending], error: BaseException) -> None:
        """The group is rolled back; run alone, each operation gets its own error, if it caused one."""
        connection = self._connection
        if connection is not None and not connection.is_open:
            self._connection = None
        if connection is not None and not connection.has_failed and len(group) == 1:
            # Its own exception, not the database's.
            group[0].error = error
            answer(group)
        else:
            self._finish(group, is_unknown=False)

    def _finish(self, group: list[Pending], *, is_unknown: bool) -> None:
        if is_unknown:
            refuse(group, CommitUnknown)
            return
        for pending in group:
            pending.error = None
            try:
                self._run_alone(pending)
            except Unavailable as error:
                refuse([pending], lambda cause=error: Unavailable(cause.message))  # type: ignore[misc]

    def _commit(self, group: list[Pending]) -> None:
        """Runs the first of the group as a transaction; what waits behind it joins if the lock is free."""
        connection = self._connection = self._connection or self._connect(GROUP_LOCK_TIMEOUT_MS)
        with connection.transaction() as tx:
            first = group[0]
            first.result = first.operation(tx)
            if self._waiting.qsize() and self._may_group(connection):
                now = time.monotonic()
                deadline, is_careful = now + GROUP_S, now < self._careful_until
                while len(group) < GROUP_OPERATIONS and time.monotonic() < deadline:
                    following = self._next()
                    if following is None:
                        break
                    group.append(following)
                    self._run(connection, following, is_careful=is_careful)

    def _run(self, connection: Connection, pending: Pending, *, is_careful: bool) -> None:
        """Runs one more operation in the group's transaction. If it fails, only its writes are rolled back
        if it has a savepoint, and the whole group otherwise."""
        if is_careful:
            connection.send("savepoint operation", {})
        try:
            pending.result = pending.operation(connection.operations)
        except BaseException as error:
            # The database's error may be an earlier operation's: it arrives with the next response.
            if connection.has_failed:
                raise
            self._careful_until = time.monotonic() + CAREFUL_S
            if not is_careful:
                raise
            pending.error = error
            connection.send("rollback to operation", {})
        if is_careful:
            connection.send("release operation", {})

    def _may_group(self, connection: Connection) -> bool:
        connection.send("select pg_try_advisory_xact_lock(:number) as mine", {"number": self._lock})
        is_mine: bool = connection.rows(connection.fetch())[0]["mine"]
        if not is_mine:
            self._elsewhere_until = time.monotonic() + ELSEWHERE_S
        return is_mine

    def _next(self) -> Pending | None:
        with suppress(queue.Empty):
            following = self._waiting.get_nowait()
            if following is None:
                # The end mark is for the thread's own loop.
                self._waiting.put(None)
            return following
        return None
