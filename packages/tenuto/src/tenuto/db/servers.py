"""The servers that a database's URL names, and which of them hold the newest copy of the database.

Each new connection is compared with the newest copy that this process knows of, before anything is written
through it; `look` compares the open ones again. Knows what tells copies apart, no tables and no store.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict

from tenuto.db.connection import NETWORK
from tenuto.db.generation import Copy, Outdated
from tenuto.errors import OperatorError
from tenuto.logs import get_logger, log_failure

LOOK_S = 5.0
"""How often open connections are compared again; with several hosts, each is asked as often."""
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


class _Open(Struct):
    """A connection of ours, recognised by its socket for as long as that is open."""

    host: str
    process: str
    """The server's own process: another one may answer at the same address by now."""
    copy: Copy
    descriptor: int
    inode: int

    def end(self) -> bool:
        """Shut its socket, so that its user finds the connection lost; false if it is closed already."""
        return self._reach(shut=True)

    def is_open(self) -> bool:
        return self._reach(shut=False)

    def _reach(self, *, shut: bool) -> bool:
        # The descriptor may have been closed, and be another file's by now.
        try:
            own = os.dup(self.descriptor)
        except OSError:
            return False
        if os.fstat(own).st_ino != self.inode:
            os.close(own)
            return False
        with socket.socket(fileno=own) as ours, suppress(OSError):
            if shut:
                ours.shutdown(socket.SHUT_RDWR)
        return True


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
        addresses = str(self._parameters.get("hostaddr") or "").split(",")
        self.number = max(len(hosts), len(addresses))
        self.newest: Copy | None = None
        """The newest copy that this process has seen or heard of."""
        self.reports = False
        """Whether outdated copies are logged: a short command's own error says it already."""
        self._open: list[_Open] = []
        self._told: dict[str, float] = {}
        # Guards the three above.
        self._changing = threading.Lock()
        self._closed = threading.Event()

    def connect(self, application: str) -> Session:
        """A connection to a server with the newest copy. Raises Outdated if others have answered, else the
        error of the last one."""
        outdated: Outdated | None = None
        failed: Exception | None = None
        for place in self._places():
            session: Session | None = None
            try:
                session = _connect(place, application)
                process, copy = _identify(session)
                self._admit(_name(place), copy)
                self._enter(session, place, process, copy)
                return session
            except Outdated as error:
                outdated = error
            except psycopg.Error as error:
                failed = error
            if session is not None:
                session.close()
        raise outdated or failed or psycopg.OperationalError("the URL names no server")

    def unverified(self) -> str | None:
        """A host of another machine that could be anybody, because its certificate is not checked."""
        mode = self._parameters.get("sslmode") or os.environ.get("PGSSLMODE")
        hosts = [_name(place) for place in self._places() if not _is_here(place)]
        return hosts[0] if hosts and mode != "verify-full" else None

    def learn(self, copy: Copy) -> None:
        """There is a copy like this: none with a lower generation is used any more."""
        with self._changing:
            if self.newest is None or copy.generation > self.newest.generation:
                self.newest = copy

    def primaries(self) -> dict[str, tuple[str, Copy]]:
        """What each server that takes writes holds, by its process: its host and its copy."""
        found = {}
        for place in self._places():
            with suppress(psycopg.Error), _connect(place, "tenuto-look") as session:
                process, copy = _identify(session)
                found[process] = _name(place), copy
        return found

    def watch(self) -> None:
        """Look again and again until `close`, in a thread of its own."""
        self.reports = True
        threading.Thread(target=self._watch, name="postgres-look", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def look(self) -> None:
        """End the connections to a copy that is not the newest any more."""
        with self._changing:
            self._open = [one for one in self._open if one.is_open()]
            lower = [one for one in self._open if self._fault(one.copy)]
        if not lower and self.number == 1:
            return
        found = self.primaries()
        for host, copy in found.values():
            with suppress(Outdated):
                self._admit(host, copy)
        with self._changing:
            ended = [one.host for one in self._open if self._has_fallen_behind(one, found) and one.end()]
        for host in set(ended):
            get_logger("tenuto.db").error("database.left", host=host, connections=ended.count(host))

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_S):
            try:
                self.look()
            except Exception as error:
                log_failure(get_logger("tenuto.db"), "servers.failed", error)

    def _has_fallen_behind(self, one: _Open, found: dict[str, tuple[str, Copy]]) -> bool:
        """A server keeps its timeline while it runs; its epoch is raised by every start of a process."""
        assert self.newest is not None
        if one.process in found:
            one.copy = found[one.process][1]
        elif one.copy.generation[:2] == self.newest.generation[:2] and one.copy.system == self.newest.system:
            return False  # It cannot be asked just now.
        return self._fault(one.copy) is not None

    def _admit(self, host: str, copy: Copy) -> None:
        """Raises Outdated, and logs it, for a copy that is not the newest."""
        with self._changing:
            fault, newest = self._fault(copy), self.newest
            now = time.monotonic()
            is_new = self.reports and now - self._told.get(host, -TELL_S) >= TELL_S
            if fault and is_new:
                self._told[host] = now
        if fault is None:
            self.learn(copy)
            return
        assert newest is not None
        if is_new:
            get_logger("tenuto.db").error(
                "database.outdated",
                host=host,
                timeline=copy.timeline,
                epoch=copy.epoch,
                newest_timeline=newest.timeline,
                newest_epoch=newest.epoch,
                reason=fault,
            )
        raise Outdated(f"{host} has {fault}")

    def _fault(self, copy: Copy) -> str | None:
        return None if self.newest is None else copy.fault(self.newest)

    def _enter(self, session: Session, place: dict[str, Any], process: str, copy: Copy) -> None:
        descriptor = session.pgconn.socket
        entry = _Open(_name(place), process, copy, descriptor, os.fstat(descriptor).st_ino)
        with self._changing:
            self._open = [one for one in self._open if one.is_open()]
            self._open.append(entry)

    def _places(self) -> Iterator[dict[str, Any]]:
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


def _addresses(place: dict[str, Any]) -> list[str]:
    host, port = str(place["host"]), str(place["port"])
    if place["hostaddr"] or not host or host[0] in "/@":
        return [str(place["hostaddr"])]
    try:
        found = socket.getaddrinfo(host, port or None, type=socket.SOCK_STREAM)
    except OSError:
        return [""]  # Connecting will say what is wrong with it.
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _is_here(place: dict[str, Any]) -> bool:
    """Whether the server is on this machine: behind a socket in a folder, or a loopback address."""
    address = str(place.get("hostaddr") or place.get("host", ""))
    return address[:1] in ("", "/", "@") or address.startswith("127.") or address == "::1"


def _connect(place: dict[str, Any], application: str) -> Session:
    parameters = {**place, **NETWORK, "application_name": application}
    return psycopg.Connection.connect(**parameters, autocommit=True)


def _identify(session: Session) -> tuple[str, Copy]:
    """The server's process, and what tells its copy from others."""
    try:
        told = session.execute(_SERVER).fetchone()
    except _TOLD_NOTHING:
        told = session.execute(_SILENT_SERVER).fetchone()
    assert told is not None, "a select without a table gives a row"
    process, system, segment = told
    copy = Copy(system, 0, int(segment[:8], 16), 0)
    try:
        row = session.execute(_ROW).fetchone()
    except psycopg.errors.UndefinedTable:  # A database that was not migrated yet.
        row = None
    return process, copy if row is None else replace(copy, acceptance=row[0], epoch=row[1])


def _name(place: dict[str, Any]) -> str:
    """The server as the log names it."""
    return f"{place.get('host') or place.get('hostaddr', '')}:{place.get('port', 5432)}"
