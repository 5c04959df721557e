"""What the processes of one machine share beside a SQLite file: whose turn it is to write, and wake-ups.

SQLite's own write lock is polled with sleeps, so a process that writes without pause starves the others.
Here the next in line holds `<database>.turn` while it waits for `<database>.lock`: a process that has just
written must queue behind it. The kernel frees both locks when a process dies.

Wake-ups are datagram sockets in a folder, named by topic. A sender lists the folder and sends a byte to each
socket of the topic. A socket whose process has ended refuses the byte and is removed, so no list of living
processes is needed. Knows no database.
"""

import fcntl
import itertools
import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tenuto.errors import Unavailable

# A process that holds the lock this long is stopped or its disk hangs; its peers then answer 503 instead of
# waiting.
TURN_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 0.00005
_LONGEST_PAUSE_S = 0.0003
# A folder's time of change moves in steps of a few milliseconds: a listing this fresh may already be old.
_SETTLED_S = 0.05
# The kernel's limit of a socket's path is 108 bytes.
_LONGEST_PATH = 100

_numbers = itertools.count()


class Turn:
    """The right to write, for one writer of this process."""

    def __init__(self, database: Path) -> None:
        self._turn = os.open(f"{database}.turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = os.open(f"{database}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Holds the lock; raises Unavailable when another process does not let go of it."""
        deadline = time.monotonic() + TURN_TIMEOUT_S
        _take(self._turn, deadline)
        try:
            _take(self._lock, deadline)
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._turn)
        os.close(self._lock)


def _take(descriptor: int, deadline: float) -> None:
    pause_s = _FIRST_PAUSE_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > deadline:
            raise Unavailable(
                "Another process holds the database's write lock; nothing was stored, try again."
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


class Sender:
    """Sends wake-ups to the sockets of a folder, from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = _open_folder(folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._listing = Listing(0, 0.0, False, [])

    def wake(self, topic: str) -> None:
        """Failures are ignored: behind a lost wake-up stands the listener's own look at the database."""
        with suppress(OSError):
            for name in self._names():
                if name.startswith(f"{topic}."):
                    self._send(name)

    def close(self) -> None:
        self._socket.close()
        os.close(self._descriptor)

    def _send(self, name: str) -> None:
        try:
            self._socket.sendto(b"w", _address(self._folder, self._descriptor, name))
        except ConnectionRefusedError:
            with suppress(FileNotFoundError):
                (self._folder / name).unlink()
        except BlockingIOError:
            # Its buffer is full of wake-ups.
            pass
        except FileNotFoundError:
            pass

    def _names(self) -> list[str]:
        listing, now_s = self._listing, time.monotonic()
        changed_ns = self._folder.stat().st_mtime_ns
        if listing.changed_ns != changed_ns:
            listing = Listing(changed_ns, now_s, False, [])
        if not listing.is_settled:
            names = os.listdir(self._folder)  # noqa: PTH208 - names, not paths
            listing = replace(listing, names=names, is_settled=now_s - listing.seen_s > _SETTLED_S)
            self._listing = listing
        return listing.names


@dataclass(frozen=True)
class Listing:
    """The names in the folder, read when it had last changed at `changed_ns`, first seen so at `seen_s`.

    `is_settled` when it was read so long after that no change can hide behind the same time.
    """

    changed_ns: int
    seen_s: float
    is_settled: bool
    names: list[str]


class Receiver:
    """A socket in the folder that hears one topic."""

    def __init__(self, folder: Path, topic: str) -> None:
        self._path = folder / f"{topic}.{os.getpid()}.{next(_numbers)}"
        descriptor = _open_folder(folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        try:
            # A dead process may have had our pid.
            self._path.unlink(missing_ok=True)
            self._socket.bind(_address(folder, descriptor, self._path.name))
        finally:
            os.close(descriptor)

    def wait(self, timeout_s: float) -> bool:
        """True when a wake-up has come since the last call; takes all that are there."""
        if not self._poll.poll(max(0.0, timeout_s * 1000)):
            return False
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(16)
        return True

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


def _open_folder(folder: Path) -> int:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _address(folder: Path, descriptor: int, name: str) -> str:
    path = str(folder / name)
    return path if len(os.fsencode(path)) <= _LONGEST_PATH else f"/proc/self/fd/{descriptor}/{name}"
