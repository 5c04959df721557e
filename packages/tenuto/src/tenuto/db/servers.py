"""The servers that a database's URL names, and which of them hold the newest copy of the database.

Each new connection is compared with the newest copy that this process knows of, before anything is written
through it. Knows what tells copies apart, no tables and no store.
"""

import os
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from tenuto.db.connection import CONNECT_TIMEOUT_S, NETWORK
from tenuto.db.database_copy import Copy, Outdated
from tenuto.errors import OperatorError
from tenuto.logs import get_logger

_log = get_logger("tenuto.db")

TELL_S = 60.0
"""How often the log repeats that a host holds an outdated copy."""

# The timeline of the checkpoint, which pg_control_checkpoint() gives, lags behind after a promotion.
_SERVER = """
    select pg_postmaster_start_time()::text as process,
           (select system_identifier::text from pg_control_system()) as system,
           pg_walfile_name(pg_current_wal_insert_lsn()) as segment
"""
_SILENT_SERVER = "select pg_postmaster_start_time()::text as process, '' as system, '00000000' as segment"
"""For a server that lets nobody see the log's position: epochs alone tell its copies apart."""
_ROW = "select acceptance, epoch from generation"
_TOLD_NOTHING = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.UndefinedFunction,
)

Session = psycopg.Connection[tuple[Any, ...]]
Place = dict[str, Any]


class Open(Struct):
    """A connection of ours. Its socket is recognised by descriptor and inode, for as long as it is open."""

    host: str
    process: str
    """The server's own process: another one may answer at the same address by now."""
    copy: Copy
    descriptor: int
    inode: int


class Servers:
    """Connects a process to the server with the newest copy; used from any thread."""

    def __init__(self, url: str) -> None:
        """Raises OperatorError for a malformed URL."""
        try:
            self._parameters = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            raise OperatorError(
                "The database URL is malformed; write postgresql://user@host/name."
            ) from error
        hosts = str(self._parameters.get("host") or os.environ.get("PGHOST", "")).split(",")
        addresses = str(self._parameters.get("hostaddr") or os.environ.get("PGHOSTADDR", "")).split(",")
        self.number = max(len(hosts), len(addresses))
        """How many hosts there are; the name of one may have several addresses."""
        self.newest: Copy | None = None
        """The newest copy that this process has seen or heard of."""
        self.reports = False
        """Whether outdated copies are logged: a short command's own error says it already."""
        self.open: list[Open] = []
        """Connections that may be open still."""
        # The servers' processes that were compared with those of all other hosts. Only grows.
        self._compared: set[str] = set()
        self._told: dict[str, float] = {}
        # Guards the five above.
        self.changing = threading.Lock()

    def connect(self, application: str) -> Session:
        """A connection to a server with the newest copy. Raises Outdated if others have answered, else the
        error of the last one."""
        outdated: Outdated | None = None
        failed: Exception | None = None
        places = list(self._places())
        for number, place in enumerate(places, 1):
            session: Session | None = None
            try:
                session = _connect(place, application)
                process, copy = _identify(session)
                self.admit(_name(place), copy)
                if process not in self._compared:
                    # It has just started, or we have: it may be an old primary that comes back.
                    self.ask_all(places[number:])
                    self.admit(_name(place), copy)
                    self._compared.add(process)
                self._enter(session, place, process, copy)
                return session
            except Outdated as error:
                outdated = error
            except psycopg.Error as error:
                failed = error
            if session is not None:
                session.close()
        raise outdated or failed or psycopg.OperationalError("the URL names no server")

    def has_choice(self) -> bool:
        """Whether there are several addresses; those of names may change."""
        return len(list(self._places())) > 1

    def learn(self, copy: Copy) -> None:
        """There is a copy like this: none with a lower generation is used any more."""
        with self.changing:
            if self.newest is None or copy.generation > self.newest.generation:
                self.newest = copy

    def ask_all(self, places: Iterable[Place] | None = None) -> dict[str, tuple[str, Copy]]:
        """Learn of the newest copy that any server has; returns what they hold, as `primaries`."""
        found = self.primaries(places)
        for host, copy in found.values():
            with suppress(Outdated):
                self.admit(host, copy)
        return found

    def primaries(self, places: Iterable[Place] | None = None) -> dict[str, tuple[str, Copy]]:
        """What each server that takes writes holds, by its process: its host and its copy."""
        found = {}
        for place in self._places() if places is None else places:
            with suppress(psycopg.Error), _connect(place, "tenuto-look") as session:
                process, copy = _identify(session)
                found[process] = _name(place), copy
        return found

    def admit(self, host: str, copy: Copy) -> None:
        """Raises Outdated, and logs it, for a copy that is not the newest."""
        with self.changing:
            fault, newest = self.fault(copy), self.newest
            now = time.monotonic()
            is_new = self.reports and now - self._told.get(host, -TELL_S) >= TELL_S
            if fault and is_new:
                self._told[host] = now
        if fault is None:
            self.learn(copy)
            return
        assert newest is not None
        if is_new:
            _log.error(
                "database.outdated",
                host=host,
                timeline=copy.timeline,
                epoch=copy.epoch,
                newest_timeline=newest.timeline,
                newest_epoch=newest.epoch,
                reason=fault,
            )
        raise Outdated(f"{host} has {fault}")

    def fault(self, copy: Copy) -> str | None:
        """Why this copy must not be used, as far as this process knows."""
        return None if self.newest is None else copy.fault(self.newest)

    def held_by(self, process: str) -> Copy | None:
        """The copy of a server to which there is a connection."""
        with self.changing:
            return next((one.copy for one in self.open if one.process == process), None)

    def _enter(self, session: Session, place: Place, process: str, copy: Copy) -> None:
        descriptor = session.pgconn.socket
        entry = Open(_name(place), process, copy, descriptor, os.fstat(descriptor).st_ino)
        with self.changing:
            self.open.append(entry)

    def _places(self) -> Iterator[Place]:
        """The parameters of each address in turn. A host name may have several, each a server of its own."""
        several = {
            name: str(self._parameters.get(name) or os.environ.get(f"PG{name.upper()}", "")).split(",")
            for name in ("host", "hostaddr", "port")
        }
        for number in range(self.number):
            own = {
                name: (values[number] if number < len(values) else values[0])
                for name, values in several.items()
            }
            place = {**self._parameters, **own}
            for address in _addresses(place):
                yield {name: value for name, value in {**place, "hostaddr": address}.items() if value}


def _addresses(place: Place) -> list[str]:
    host, port = str(place["host"]), str(place["port"])
    if place["hostaddr"] or not host or host[0] in "/@":
        return [str(place["hostaddr"])]
    try:
        found = socket.getaddrinfo(host, port or None, type=socket.SOCK_STREAM)
    except OSError:
        return [""]  # Connecting will say what is wrong with it.
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _connect(place: Place, application: str) -> Session:
    parameters = {**place, **NETWORK, "application_name": application}
    return psycopg.Connection.connect(**parameters, autocommit=True)


def _identify(session: Session) -> tuple[str, Copy]:
    """The server's process, and what tells its copy from others."""
    try:
        told = _ask(session, _SERVER)
    except _TOLD_NOTHING:
        told = _ask(session, _SILENT_SERVER)
    process, system, segment = told
    copy = Copy(system, 0, int(segment[:8], 16), 0)
    try:
        row = _ask(session, _ROW)
    except psycopg.errors.UndefinedTable:  # A database that was not migrated yet.
        row = []
    return process, replace(copy, acceptance=int(row[0]), epoch=int(row[1])) if row else copy


def _ask(session: Session, sql: str) -> list[str]:
    """The first row; nothing if there is none. A server that took the connection may hang all the same: what
    waited for it would neither try the next host nor look again."""
    libpq, answers = session.pgconn, []
    readable = select.poll()
    readable.register(libpq.socket, select.POLLIN)
    libpq.send_query(sql.encode())
    libpq.flush()
    while True:
        while libpq.is_busy():
            if not readable.poll(CONNECT_TIMEOUT_S * 1000):
                raise psycopg.OperationalError("the server does not answer")
            libpq.consume_input()
        if (answer := libpq.get_result()) is None:
            break
        answers.append(answer)
    if answers[0].status != pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(answers[0])
    columns = range(answers[0].nfields if answers[0].ntuples else 0)
    return [(answers[0].get_value(0, column) or b"").decode() for column in columns]


def _name(place: Place) -> str:
    """The server as the log names it."""
    return f"{place.get('host') or place.get('hostaddr', '')}:{place.get('port', 5432)}"
