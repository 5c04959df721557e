"""Wake-ups through PostgreSQL: NOTIFY from a thread of its own, LISTEN on a connection of its own.

A NOTIFY inside the accepting transaction would serialise all commits. A lost notice does no harm, because
whoever listens also polls the database.
"""

import os
import select
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import psycopg
from psycopg import pq

from tenuto.db.connection import SERVER_NETWORK
from tenuto.db.database_copy import Outdated
from tenuto.db.servers import Servers, Session
from tenuto.logs import get_logger, log_failure

CHANNEL = "tenuto"
# Parsed and planned each time, a notice takes the server three times as long.
_NOTIFY = b"notify"
# All calls within this time become one notice per topic. The pause doubles, up to the longest, as long as
# more calls follow: otherwise a flood would keep every listener busy with notices.
COALESCE_S = 0.002
LONGEST_COALESCE_S = 0.008
RECONNECT_PAUSE_S = 1.0
CLOSE_S = 5.0

_log = get_logger("tenuto.db")


class Notices:
    """The two threads of a process, started by the first `wake` and the first `listen`."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._listeners: dict[str, list[PostgresListener]] = {}
        self._topics: set[str] = set()
        self._sending: threading.Thread | None = None
        self._receiving: threading.Thread | None = None
        self._is_due = threading.Event()
        self._closed = threading.Event()
        # A pipe that is closed with us: the listening thread waits for that, too.
        self._ends: tuple[int, int] | None = None
        # Guards the listeners, the topics and the starting of threads.
        self._changing = threading.Lock()
        # The backend that sends our notices: our own listeners have been woken already.
        self._own_backend = 0

    def wake(self, topic: str) -> None:
        self._tell(topic)
        with self._changing:
            # A notice that is still due will be sent after the caller's commit.
            if topic in self._topics or self._closed.is_set():
                return
            if self._sending is None:
                try:
                    self._sending = _started(self._send, "postgres-notify")
                except RuntimeError:  # The machine has no thread left; this notice is lost.
                    return
            self._topics.add(topic)
        self._is_due.set()

    def listen(self, *topics: str, once: bool = False) -> "PostgresListener":
        listener = PostgresListener(self, topics, once=once)
        with self._changing:
            # First: if it raises RuntimeError, nobody closes the listener.
            if self._receiving is None and not self._closed.is_set():
                self._ends = self._ends or os.pipe()
                self._receiving = _started(partial(self._receive, self._ends[0]), "postgres-listen")
            for topic in topics:
                # Replaced as a whole, so that it can be read without the lock.
                self._listeners[topic] = [*self._listeners.get(topic, ()), listener]
        return listener

    def forget(self, listener: "PostgresListener") -> None:
        with self._changing:
            for topic in listener.topics:
                self._listeners[topic] = [each for each in self._listeners[topic] if each is not listener]

    def close(self) -> None:
        with self._changing:
            self._closed.set()
            threads = (self._sending, self._receiving)
            ends, self._ends = self._ends, None
        self._is_due.set()
        if ends is not None:
            os.close(ends[1])
        for thread in threads:
            if thread is not None:
                thread.join(CLOSE_S)
        if ends is not None:
            os.close(ends[0])

    def _tell(self, topic: str | None) -> None:
        """Wakes the listeners of a topic in this process; of all topics when notices may have been lost."""
        for name in [topic] if topic is not None else list(self._listeners):
            for listener in self._listeners.get(name, ()):
                listener.tell(name, is_certain=topic is not None)

    def _send(self) -> None:
        connection: Session | None = None
        pause_s = COALESCE_S
        while not self._closed.is_set():
            # A notice that became due during the pause came soon after the one before it.
            pause_s = min(2 * pause_s, LONGEST_COALESCE_S) if self._is_due.is_set() else COALESCE_S
            self._is_due.wait()
            self._is_due.clear()
            with self._changing:
                topics, self._topics = self._topics, set()
            try:
                if connection is None:
                    connection = self._connect()
                    connection.pgconn.prepare(_NOTIFY, b"select pg_notify($1, $2)")
                    self._own_backend = connection.info.backend_pid
                for topic in topics:
                    _notify(connection.pgconn, topic)
            except Exception as error:
                if not isinstance(error, psycopg.Error | Outdated):
                    _log.exception("notices.failed")
                # Notices are lost while the database is away; listeners are woken when it is back.
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()
                    connection = None
                self._closed.wait(RECONNECT_PAUSE_S)
            self._closed.wait(pause_s)
        if connection is not None:
            connection.close()

    def _receive(self, end: int) -> None:
        while not self._closed.is_set():
            try:
                with suppress(psycopg.Error, Outdated):
                    self._hear(end)
            except Exception as error:
                log_failure(_log, "notices.failed", error)
            self._closed.wait(RECONNECT_PAUSE_S)

    def _hear(self, end: int) -> None:
        with self._connect() as connection:
            connection.execute(f"listen {CHANNEL}")
            # This thread starts before its first listener is registered; the lock waits for that.
            with self._changing:
                self._tell(None)
            # Bypasses psycopg's `notifies`, which checks ten times a second whether Ctrl-C was pressed.
            libpq, readable = connection.pgconn, select.poll()
            readable.register(libpq.socket, select.POLLIN)
            readable.register(end, select.POLLIN)
            while not self._closed.is_set():
                libpq.consume_input()
                while notice := libpq.notifies():
                    if notice.be_pid != self._own_backend:
                        self._tell(notice.extra.decode())
                readable.poll()

    def _connect(self) -> Session:
        session = self._servers.connect("tenuto-wake")
        session.execute(SERVER_NETWORK)
        return session


class PostgresListener:
    """Receives its topics from the process's threads; one other thread waits."""

    def __init__(self, notices: Notices, topics: Sequence[str], *, once: bool) -> None:
        """`once`: a topic that was woken stays silent until `arm`."""
        self.topics = topics
        self._once = once
        self._notices = notices
        self._armed = set(topics)
        self._woken: set[str] = set()
        # Guards both sets.
        self._changed = threading.Condition()

    def arm(self, topic: str) -> None:
        with self._changed:
            self._armed.add(topic)

    def tell(self, topic: str, *, is_certain: bool) -> None:
        """The topic was woken; if only perhaps, this counts even if the topic should be silent."""
        # In a flood, a notice costs a silent listener no more than this; it arms before it looks.
        if is_certain and topic not in self._armed:
            return
        with self._changed:
            if self._once:
                self._armed.discard(topic)
            self._woken.add(topic)
            self._changed.notify()

    def wait(self, timeout_s: float) -> frozenset[str]:
        with self._changed:
            self._changed.wait_for(lambda: self._woken, timeout_s)
            woken, self._woken = self._woken, set()
        return frozenset(woken)

    def close(self) -> None:
        self._notices.forget(self)


def _started(work: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def _notify(libpq: pq.abc.PGconn, topic: str) -> None:
    """Bypasses psycopg's cursors, which cost seven times this processor time, once for each job."""
    answer = libpq.exec_prepared(_NOTIFY, [CHANNEL.encode(), topic.encode()])
    if answer.status != pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(answer)
