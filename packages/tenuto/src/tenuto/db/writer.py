"""The one thread of a process that writes to SQLite: it commits the operations that wait as one group.

A commit costs an fsync, whatever is in it. The group is whatever waits when the thread is free; it never
waits for more. Knows nothing of tables.
"""

import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.db.pending import Pending, answer, refuse
from tenuto.db.sqlite_processes import Turn
from tenuto.errors import Unavailable

GROUP_OPERATIONS = 64
GROUP_S = 0.005
# Savepoints take a tenth of the processor time of accepting a job, and few operations fail: none are used
# until an operation fails, and then for this long.
CAREFUL_S = 1.0
WAITING_LIMIT = 10_000
CLOSE_S = 15.0


class GroupLost(Exception):
    """SQLite has rolled back the whole transaction, with the operations of the group that had succeeded."""


class _Entangled(Exception):
    """An operation failed after others in its transaction, without a savepoint to roll back to."""


class Writer:
    """A thread, its connection and the queue before it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        transaction: Transaction,
        turn: Turn,
        explain: Callable[[BaseException], BaseException],
        check_location: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._transaction = transaction
        self._turn = turn
        self._explain = explain
        self._check_location = check_location
        self._waiting: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._closed = False
        self._careful_until = 0.0
        # Makes "not closed, so put" atomic: nothing can be put after the end mark.
        self._putting = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="sqlite-writer", daemon=True)
        self._thread.start()

    def submit(self, pending: Pending) -> None:
        with self._putting:
            if self._closed:
                raise Unavailable("The database is closed.")
            if self._waiting.qsize() >= WAITING_LIMIT:
                raise Unavailable(
                    "Too many writes are waiting; nothing was stored, send the same request again."
                )
            self._waiting.put(pending)

    def close(self) -> None:
        """Finishes the group that is being written; the rest gets Unavailable."""
        with self._putting:
            if self._closed:
                return
            self._closed = True
            self._waiting.put(None)
        self._thread.join(CLOSE_S)

    def _work(self) -> None:
        while not self._closed and (first := self._waiting.get()) is not None:
            group = [first]
            try:
                with self._turn.taken():
                    self._commit(group)
            except BaseException as error:
                self._undo()
                # An operation's own error may be due to rows that were never stored, so it is void too.
                explained = error if isinstance(error, Unavailable) else self._explain(error)
                refuse(group, lambda cause=explained: _refusal(cause))  # type: ignore[misc]
            else:
                answer(group)
        self._connection.close()
        self._turn.close()
        refuse(self._left_over(), lambda: Unavailable("The database is closed; nothing was stored."))

    def _commit(self, group: list[Pending]) -> None:
        """Runs the first operation and those that wait behind it, which join the group, and commits."""
        # Before anything is done for them, so that nothing is lost with the file.
        self._check_location()
        self._connection.execute("begin immediate")
        now = time.monotonic()
        deadline, is_careful = now + GROUP_S, now < self._careful_until
        is_clean = True
        while True:
            try:
                is_clean = self._run(group[-1], is_clean, is_careful)
            except _Entangled:
                is_careful, is_clean = True, self._run_carefully(group)
            if len(group) >= GROUP_OPERATIONS or self._closed or time.monotonic() >= deadline:
                break
            try:
                following = self._waiting.get_nowait()
            except queue.Empty:
                break
            if following is None:
                break
            group.append(following)
        failpoints.hit("db.before_commit")
        self._connection.execute("commit")
        failpoints.hit("db.after_commit")

    def _run(self, pending: Pending, is_clean: bool, is_careful: bool) -> bool:
        """Runs one operation; true when the transaction holds no change afterwards.

        The first operation needs no savepoint: undoing it undoes the transaction, and a new one is begun.
        """
        execute = self._connection.execute
        if has_savepoint := is_careful and not is_clean:
            execute("savepoint operation")
        try:
            pending.result, pending.error = pending.operation(self._transaction), None
        except BaseException as error:
            if not is_clean and not self._connection.in_transaction:
                raise GroupLost from error
            if not is_clean and not has_savepoint:
                raise _Entangled from error
            pending.error = self._explain(error)
            if is_clean:
                self._begin_again()
                return True
            execute("rollback to operation")
        if has_savepoint:
            execute("release operation")
        return False

    def _run_carefully(self, group: list[Pending]) -> bool:
        """Runs all operations of the group again, so that only those that fail are rolled back."""
        self._careful_until = time.monotonic() + CAREFUL_S
        self._begin_again()
        is_clean = True
        for pending in group:
            is_clean = self._run(pending, is_clean, is_careful=True)
        return is_clean

    def _begin_again(self) -> None:
        self._undo()
        self._connection.execute("begin immediate")

    def _undo(self) -> None:
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("rollback")

    def _left_over(self) -> list[Pending]:
        left: list[Pending] = []
        with suppress(queue.Empty):
            while True:
                pending = self._waiting.get_nowait()
                if pending is not None:
                    left.append(pending)
        return left


def _refusal(cause: BaseException) -> Unavailable:
    message = (
        cause.message if isinstance(cause, Unavailable) else "The write could not be committed; try again."
    )
    refusal = Unavailable(message)
    refusal.__cause__ = cause
    return refusal
