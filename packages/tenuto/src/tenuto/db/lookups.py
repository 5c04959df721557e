"""Look-ups of an event loop on PostgreSQL: sent from its own thread on one connection, many in a round trip.

Handing an operation to another thread and its result back takes half of the processor time of a poll. Nothing
here blocks or retries: what fails, or takes long, is handed to the threads, which do both. Knows no tables.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tenuto.db.connection import Connection, ConnectionLost
from tenuto.db.database import Asking
from tenuto.db.pending import Pending, refuse
from tenuto.errors import Unavailable

AT_ONCE = 64
"""The most look-ups of one round trip; threads take the rest."""
SLOW_S = 0.25
"""A round trip that takes longer is given up: a look-up by key takes the server less than a millisecond."""
PAUSE_S = 1.0
"""After a connection was lost, given up or refused; look-ups run in threads meanwhile."""

Ask = Callable[[Asking], Callable[[], Any]]


class Lookups:
    """One connection, and the look-ups of one event loop. Used in the loop's thread, except `close`.

    While a round trip is under way, look-ups wait and make up the next one.
    """

    def __init__(self, connect: Callable[[], Connection], run_alone: Callable[[Pending], None]) -> None:
        self._connect = connect
        self._run_alone = run_alone
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection | None = None
        self._socket = -1
        self._is_connecting = False
        # No connection is made before this moment of the monotonic clock.
        self._paused_until = 0.0
        self._waiting: list[tuple[Pending, Ask]] = []
        # The round trip that is under way: who asked, and what reads the answer.
        self._sent: list[tuple[Pending, Callable[[], Any]]] = []
        self._sent_at = 0.0
        self._is_watched = False
        self._closed = False

    def take(self, pending: Pending, ask: Ask) -> bool:
        """False if it should run in a thread: there is no connection yet, or too many are waiting."""
        loop = pending.loop
        assert loop is not None
        if self._loop is not loop and not self._adopt(loop):
            return False
        if self._connection is None:
            self._open(loop)
            return False
        if len(self._waiting) >= AT_ONCE:
            return False
        self._waiting.append((pending, ask))
        if len(self._waiting) == 1 and not self._sent:
            # Look-ups of the same turn of the loop share the round trip.
            loop.call_soon(self._send)
        return True

    def close(self) -> None:
        """Unanswered look-ups run in threads, as long as there are any. May be called from any thread."""
        self._closed = True
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._give_up)
        else:
            self._give_up()

    def _adopt(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Serves this loop from now on; False if another one is running."""
        if self._loop is not None and self._loop.is_running():
            return False
        self._waiting, self._sent, self._is_watched = [], [], False
        self._give_up()
        self._loop, self._paused_until = loop, 0.0
        return True

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Connects in a thread, because that takes milliseconds, or seconds."""
        if self._is_connecting or self._closed or time.monotonic() < self._paused_until:
            return
        self._is_connecting = True
        try:
            threading.Thread(
                target=self._connect_beside, args=(loop,), name="postgres-lookups", daemon=True
            ).start()
        except RuntimeError:  # The machine has no thread left.
            self._is_connecting = False
            self._paused_until = time.monotonic() + PAUSE_S

    def _connect_beside(self, loop: asyncio.AbstractEventLoop) -> None:
        connection: Connection | None = None
        # If there is none, the threads find out why and report it.
        with suppress(Exception):
            connection = self._connect()
        try:
            loop.call_soon_threadsafe(self._opened, loop, connection)
        except RuntimeError:  # The loop has ended.
            self._is_connecting = False
            if connection is not None:
                connection.close()

    def _opened(self, loop: asyncio.AbstractEventLoop, connection: Connection | None) -> None:
        self._is_connecting = False
        if connection is None:
            self._paused_until = time.monotonic() + PAUSE_S
        elif self._closed or self._loop is not loop:
            connection.close()
        else:
            self._connection, self._socket = connection, connection.socket
            loop.add_reader(self._socket, self._receive)

    def _send(self) -> None:
        """Begins a round trip with all that waits, unless there is no connection or one is under way."""
        connection, loop = self._connection, self._loop
        if connection is None or loop is None or self._sent:
            return
        waiting, self._waiting = self._waiting, []
        for number, (pending, ask) in enumerate(waiting):
            try:
                self._sent.append((pending, ask(connection.operations)))
            except ConnectionLost:
                self._waiting = waiting[number:]
                self._give_up()
                return
            except Exception as error:
                _answer(pending, error=error)
        if not self._sent:
            return
        self._sent_at = loop.time()
        if not self._is_watched:
            self._is_watched = True
            loop.call_later(SLOW_S, self._watch)
        try:
            is_sent = connection.send_at_once()
        except ConnectionLost:
            is_sent = False
        if not is_sent:
            self._give_up()

    def _receive(self) -> None:
        """Something has arrived: answers, or the end of the connection."""
        connection = self._connection
        if connection is None:
            return
        try:
            has_ended = connection.receive()
        except Exception:
            # A server or network error: in a thread, each look-up gets its own.
            self._give_up()
            return
        if not has_ended:
            return
        sent, self._sent = self._sent, []
        for pending, read in sent:
            try:
                result = read()
            except Exception as error:
                _answer(pending, error=error)
            else:
                _answer(pending, result)
        if self._waiting:
            self._send()

    def _watch(self) -> None:
        """Gives up a round trip that takes too long, unless its answers came while the loop was blocked."""
        self._is_watched = False
        loop = self._loop
        if self._sent:
            self._receive()
        if not self._sent or loop is None:
            return
        if loop.time() - self._sent_at > SLOW_S:
            self._give_up()
        else:
            self._is_watched = True
            loop.call_later(SLOW_S, self._watch)

    def _give_up(self) -> None:
        """Drops the connection, and hands unanswered look-ups to the threads."""
        connection, self._connection = self._connection, None
        left = [*(pending for pending, _ in self._sent), *(pending for pending, _ in self._waiting)]
        self._sent, self._waiting = [], []
        if connection is not None:
            self._paused_until = time.monotonic() + PAUSE_S
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._socket)
            connection.close()
        for pending in left:
            try:
                self._run_alone(pending)
            except Unavailable as error:
                refuse([pending], lambda cause=error: Unavailable(cause.message))  # type: ignore[misc]


def _answer(pending: Pending, result: object = None, error: BaseException | None = None) -> None:
    """Sets a look-up's result; in the loop's own thread."""
    future = pending.future
    assert future is not None
    if future.done():  # Its request was cancelled.
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
