"""Tenuto's records in PostgreSQL: a few threads with a connection each, which take operations from one queue.

An event loop's writes are grouped first (see `grouping`); reads, and the writes of threads, each run alone.
Knows no tables.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tenuto.db.connection import (
    ANSWER_TIMEOUT_MS,
    LOCK_TIMEOUT_MS,
    SNAPSHOT_ANSWER_TIMEOUT_MS,
    Collision,
    Connection,
    ConnectionLost,
)
from tenuto.db.database import Transaction
from tenuto.db.grouping import Groups
from tenuto.db.notices import Notices, PostgresListener
from tenuto.db.pending import Pending, answer, refuse
from tenuto.errors import CommitUnknown, OperatorError, Unavailable

T = TypeVar("T")

# Threads take the interpreter from each other: with four a poll costs two thirds of what it does with eight.
CONNECTIONS = 4
# So long a queue is not the moment's: long statements hold the others up, and more connections are opened.
BACKLOG = 16
MOST_CONNECTIONS = 12
WAITING_LIMIT = 10_000
# How often an operation is run again after a deadlock, a serialization failure or a lost connection.
ATTEMPTS = 6
COLLISION_PAUSE_S = 0.005
FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 2.0
CLOSE_S = 15.0

AWAY = "The database is away; nothing was stored, send the same request again."
COLLIDING = "Too many writes are in each other's way; nothing was stored, send the same request again."


class PostgresDatabase:
    """A Database on a server."""

    dialect: Final = "postgresql"

    def __init__(self, url: str) -> None:
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            raise OperatorError(
                "The database URL is malformed; write postgresql://user@host/name."
            ) from error
        self._url = url
        self._waiting: queue.SimpleQueue[tuple[Pending, bool] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False
        # Guards the three fields above and the three below.
        self._changing = threading.Lock()
        # Until this moment of the monotonic clock nobody tries to connect.
        self._away_until = 0.0
        self._away_because: Exception | None = None
        self._backoff_s = FIRST_BACKOFF_S
        self._groups = Groups(self._connect, lambda pending: self._submit(pending, is_write=True))
        self._notices = Notices(url)

    def read(self, operation: Callable[[Transaction], T]) -> T:
        pending = Pending(operation)
        self._submit(pending, is_write=False)
        result: T = pending.wait()
        return result

    def snapshot(self, operation: Callable[[Transaction], T]) -> T:
        if self._closed:
            raise Unavailable("The database is closed.")
        connection = self._connect(answer_timeout_ms=SNAPSHOT_ANSWER_TIMEOUT_MS)
        try:
            return connection.snapshot(operation)
        except (Collision, ConnectionLost) as error:
            raise _unavailable(AWAY, error) from error
        finally:
            connection.close()

    def write(self, operation: Callable[[Transaction], T]) -> T:
        pending = Pending(operation)
        self._submit(pending, is_write=True)
        result: T = pending.wait()
        return result

    async def read_async(self, operation: Callable[[Transaction], T]) -> T:
        pending = Pending(operation, asyncio.get_running_loop())
        self._submit(pending, is_write=False)
        assert pending.future is not None
        result: T = await pending.future
        return result

    async def write_async(self, operation: Callable[[Transaction], T]) -> T:
        pending = Pending(operation, asyncio.get_running_loop())
        if not self._groups.take(pending):
            self._submit(pending, is_write=True)
        assert pending.future is not None
        result: T = await pending.future
        return result

    def wake(self, topic: str) -> None:
        self._notices.wake(topic)

    def listen(self, topic: str) -> PostgresListener:
        return self._notices.listen(topic)

    def check_location(self) -> None:
        """A server does not move; whether it answers is found out by asking."""

    def close(self) -> None:
        self._groups.close()
        with self._changing:
            if self._closed:
                return
            self._closed = True
            for _ in self._threads:
                self._waiting.put(None)
        for thread in self._threads:
            thread.join(CLOSE_S)
        self._notices.close()

    def _submit(self, pending: Pending, *, is_write: bool) -> None:
        with self._changing:
            if self._closed:
                raise Unavailable("The database is closed.")
            if self._waiting.qsize() >= WAITING_LIMIT:
                raise Unavailable("Too many operations wait for the database; nothing was stored, try again.")
            waiting = self._waiting.qsize() + 1
            most = CONNECTIONS if waiting < BACKLOG else MOST_CONNECTIONS
            if waiting > self._idle and len(self._threads) < most:
                self._add_thread()
            self._waiting.put((pending, is_write))

    def _add_thread(self) -> None:
        """One more, where the machine has one; without any nothing would ever be answered."""
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
            answer([pending])
        if connection is not None:
            connection.close()

    def _serve(self, connection: Connection | None, pending: Pending, is_write: bool) -> Connection | None:
        """Runs one operation to its answer; returns the connection to go on with, if there is one."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                connection = connection or self._connect()
                run = connection.write if is_write else connection.read
                pending.result = run(pending.operation)
                return connection
            except Collision as error:
                if attempt == ATTEMPTS:
                    pending.error = _unavailable(COLLIDING, error)
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
        """A new connection; after a failure everybody is refused at once until the backoff has passed."""
        with self._changing:
            is_away = time.monotonic() < self._away_until
        if is_away:
            raise Unavailable(AWAY) from self._away_because
        began = time.monotonic()
        try:
            connection = Connection(self._url, lock_timeout_ms, answer_timeout_ms)
        except (psycopg.Error, OSError) as error:  # OSError: no descriptor is left to wait with
            with self._changing:
                # Where nobody answers, to try takes seconds: as long again nobody waits for that.
                now = time.monotonic()
                self._away_until = now + max(self._backoff_s, now - began)
                self._away_because = error
                self._backoff_s = min(self._backoff_s * 2, LONGEST_BACKOFF_S)
            raise _unavailable(AWAY, error) from error
        with self._changing:
            self._backoff_s = FIRST_BACKOFF_S
        return connection


def _unavailable(message: str, cause: BaseException) -> Unavailable:
    error = Unavailable(message)
    error.__cause__ = cause
    return error
