"""Wake-ups through PostgreSQL: NOTIFY from a thread of its own, LISTEN on a connection of its own.

A NOTIFY inside the accepting transaction would serialise all commits. A lost notice does no harm: behind it
stands the listener's own look at the database.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

import psycopg
from psycopg import pq

from tenuto.db.connection import NETWORK, SERVER_NETWORK
from tenuto.logs import get_logger

CHANNEL = "tenuto"
# All calls for one topic within this time become one notice.
COALESCE_S = 0.002
RECONNECT_PAUSE_S = 1.0
# How soon the listening thread sees that it shall end.
LISTEN_SLICE_S = 0.5
CLOSE_S = 5.0

_log = get_logger("tenuto.db")


class Notices:
    """The two threads of a process, started by the first `wake` and the first `listen`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._listeners: dict[str, list[PostgresListener]] = {}
        self._topics: set[str] = set()
        self._sending: threading.Thread | None = None
        self._receiving: threading.Thread | None = None
        self._is_due = threading.Event()
        self._closed = threading.Event()
        # Guards the listeners, the topics and the starting of threads.
        self._changing = threading.Lock()
        # The backend that sends our notices: our own listeners have been woken already.
        self._own_backend = 0

    def wake(self, topic: str) -> None:
        self._tell(topic)
        with self._changing:
            if self._closed.is_set():
                return
            if self._sending is None:
                self._sending = _started(self._send, "postgres-notify")
            self._topics.add(topic)
        self._is_due.set()

    def listen(self, topic: str) -> "PostgresListener":
        listener = PostgresListener(self, topic)
        with self._changing:
            self._listeners.setdefault(topic, []).append(listener)
            if self._receiving is None and not self._closed.is_set():
                self._receiving = _started(self._receive, "postgres-listen")
        return listener

    def forget(self, listener: "PostgresListener") -> None:
        with self._changing, suppress(ValueError):
            self._listeners.get(listener.topic, []).remove(listener)

    def close(self) -> None:
        with self._changing:
            self._closed.set()
            threads = (self._sending, self._receiving)
        self._is_due.set()
        for thread in threads:
            if thread is not None:
                thread.join(CLOSE_S)

    def _tell(self, topic: str | None) -> None:
        """Wakes the listeners of a topic in this process; of all topics when notices may have been lost."""
        with self._changing:
            topics = [topic] if topic is not None else list(self._listeners)
            listeners = [listener for name in topics for listener in self._listeners.get(name, ())]
        for listener in listeners:
            listener.woken.set()

    def _send(self) -> None:
        connection: psycopg.Connection[tuple[object, ...]] | None = None
        while not self._closed.is_set():
            self._is_due.wait()
            self._is_due.clear()
            with self._changing:
                topics, self._topics = self._topics, set()
            try:
                if connection is None:
                    connection = _connect(self._url)
                    self._own_backend = connection.info.backend_pid
                for topic in topics:
                    _notify(connection.pgconn, topic)
            except Exception as error:
                if not isinstance(error, psycopg.Error):
                    _log.exception("notices.failed")
                # The notices of a database that is away are lost; listeners are woken when it is back.
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()
                    connection = None
                self._closed.wait(RECONNECT_PAUSE_S)
            self._closed.wait(COALESCE_S)
        if connection is not None:
            # The thread that listens hears that it shall end, rather than see it after its wait.
            with suppress(psycopg.Error):
                _notify(connection.pgconn, "")
            connection.close()

    def _receive(self) -> None:
        while not self._closed.is_set():
            try:
                with suppress(psycopg.Error):
                    self._hear()
            except Exception:
                _log.exception("notices.failed")
            self._closed.wait(RECONNECT_PAUSE_S)

    def _hear(self) -> None:
        with _connect(self._url) as connection:
            connection.execute(f"listen {CHANNEL}")
            self._tell(None)
            while not self._closed.is_set():
                for notice in connection.notifies(timeout=LISTEN_SLICE_S):
                    if notice.pid != self._own_backend:
                        self._tell(notice.payload)
                    if self._closed.is_set():
                        break


class PostgresListener:
    """Hears a topic. `woken` is set by the process's threads and cleared by the one that waits."""

    def __init__(self, notices: Notices, topic: str) -> None:
        self.topic = topic
        self.woken = threading.Event()
        self._notices = notices

    def wait(self, timeout_s: float) -> bool:
        is_woken = self.woken.wait(timeout_s)
        self.woken.clear()
        return is_woken

    def close(self) -> None:
        self._notices.forget(self)


def _started(work: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def _notify(libpq: pq.abc.PGconn, topic: str) -> None:
    """Past psycopg's cursors, which cost seven times this processor time, once for each job."""
    answer = libpq.exec_params(b"select pg_notify($1, $2)", [CHANNEL.encode(), topic.encode()])
    if answer.status != pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(answer)


def _connect(url: str) -> psycopg.Connection[tuple[object, ...]]:
    connection = psycopg.connect(url, autocommit=True, application_name="tenuto-wake", **NETWORK)
    connection.execute(SERVER_NETWORK)
    return connection
