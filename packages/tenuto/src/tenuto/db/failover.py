"""Checks every few seconds that the open connections of a process lead to the newest copy of its database.

Those that do not are ended from outside, by their sockets, so that no request has to ask.
"""

import errno
import os
import socket
import threading
from contextlib import suppress

from tenuto.db.database import Database
from tenuto.db.database_copy import Copy
from tenuto.db.servers import Open, Servers
from tenuto.logs import get_logger, log_failure

CHECK_S = 5.0
"""How often; with several hosts, each is asked as often."""
_log = get_logger("tenuto.db")


class FailoverWatch:
    """A thread that checks, until `stop`; none for a file."""

    def __init__(self, database: Database) -> None:
        self._servers = database.servers
        self._stopping = threading.Event()

    def start(self) -> None:
        if self._servers is not None:
            self._servers.reports = True
            threading.Thread(target=self._run, args=(self._servers,), name="copies", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self, servers: Servers) -> None:
        while not self._stopping.wait(CHECK_S):
            try:
                leave_outdated(servers)
            except Exception as error:
                log_failure(_log, "servers.failed", error)


def leave_outdated(servers: Servers) -> None:
    """End the connections to a copy that is not the newest any more."""
    with servers.changing:
        servers.open = [one for one in servers.open if _reach(one)]
        lower = [one for one in servers.open if servers.fault(one.copy)]
    if not lower and not servers.has_choice():
        return
    found = servers.ask_all()
    with servers.changing:
        ended = [
            one.host for one in servers.open if _is_behind(servers, one, found) and _reach(one, shut=True)
        ]
    for host in set(ended):
        _log.error("database.left", host=host, connections=ended.count(host))


def _is_behind(servers: Servers, one: Open, found: dict[str, tuple[str, Copy]]) -> bool:
    """A server keeps its timeline while it runs; its epoch is raised by every start of a process."""
    newest = servers.newest
    assert newest is not None, "there is an open connection, which was compared"
    if one.process in found:
        one.copy = found[one.process][1]
    elif one.copy.generation[:2] == newest.generation[:2] and one.copy.system == newest.system:
        return False  # It cannot be asked just now.
    return servers.fault(one.copy) is not None


def _reach(one: Open, *, shut: bool = False) -> bool:
    """Whether its socket is open; shut, whoever uses the connection finds it lost."""
    # The descriptor may have been closed, and be another file's by now.
    try:
        own = os.dup(one.descriptor)
    except OSError as error:
        return error.errno != errno.EBADF  # It cannot be seen while descriptors are short.
    if os.fstat(own).st_ino != one.inode:
        os.close(own)
        return False
    with socket.socket(fileno=own) as ours, suppress(OSError):
        if shut:
            ours.shutdown(socket.SHUT_RDWR)
    return True
