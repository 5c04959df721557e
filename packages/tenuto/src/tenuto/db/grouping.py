"""One thread that commits the waiting writes of an event loop to PostgreSQL as one transaction.

Beside a connection for each write this takes a third of the processor time and gives twice the rate, and an
account that all write to is locked once. Two processes that group would hold rows that the other wants, so
only who has the advisory lock groups; the others' writes, and a group that does not go well, run one by one.
Knows no tables.
"""

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tenuto.db.connection import Connection, ConnectionLost
from tenuto.db.pending import Pending, answer, refuse
from tenuto.errors import CommitUnknown, Unavailable

GROUP_OPERATIONS = 64
GROUP_S = 0.005
# Who waits longer than this for a row is undone with its group, and all are run one by one.
GROUP_LOCK_TIMEOUT_MS = 25
# Somebody else groups: nobody tries again before this time has passed.
ELSEWHERE_S = 1.0
CLOSE_S = 15.0
# Any number that nobody else uses.
_ADVISORY_LOCK = 7_364_680_118


class Groups:
    """The thread, its queue and its connection."""

    def __init__(self, connect: Callable[[int], Connection], run_alone: Callable[[Pending], None]) -> None:
        self._connect = connect
        self._run_alone = run_alone
        self._waiting: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._connection: Connection | None = None
        self._elsewhere_until = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._changing = threading.Lock()

    def take(self, pending: Pending) -> bool:
        """False when the operation should rather run alone: a whole group waits already, or others group."""
        with self._changing:
            if (
                self._closed
                or self._waiting.qsize() >= GROUP_OPERATIONS
                or time.monotonic() < self._elsewhere_until
            ):
                return False
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="postgres-groups", daemon=True)
                self._thread.start()
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
        """The group is undone; alone, each operation meets its own error, if it was one of theirs."""
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
        """Runs the first of the group as a transaction; what waits behind it joins when the lock is had."""
        connection = self._connection = self._connection or self._connect(GROUP_LOCK_TIMEOUT_MS)
        with connection.transaction() as tx:
            first = group[0]
            first.result = first.operation(tx)
            if self._waiting.qsize() and self._may_group(connection):
                deadline = time.monotonic() + GROUP_S
                while len(group) < GROUP_OPERATIONS and time.monotonic() < deadline:
                    following = self._next()
                    if following is None:
                        break
                    group.append(following)
                    _run(connection, following)

    def _may_group(self, connection: Connection) -> bool:
        connection.send("select pg_try_advisory_xact_lock(:number) as mine", {"number": _ADVISORY_LOCK})
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


def _run(connection: Connection, pending: Pending) -> None:
    """Runs one more operation in the group's transaction; its own exception undoes it alone."""
    connection.send("savepoint operation", {})
    try:
        pending.result = pending.operation(connection.operations)
    except BaseException as error:
        if connection.has_failed:
            # The database's error may be an earlier operation's: it comes with the next answer.
            raise
        pending.error = error
        connection.send("rollback to operation", {})
    connection.send("release operation", {})
