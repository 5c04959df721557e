"""What the processes of one machine share beside a SQLite file: whose turn it is to write, and wake-ups.

SQLite's own write lock is polled with sleeps, so a process that writes without pause starves the others.
Here the next in line holds `<database>.turn` while it waits for `<database>.lock`: a process that has just
written must queue behind it. The kernel frees both locks when a process dies.

Wake-ups are datagram sockets in a folder, named by topic. A sender lists the folder and sends a byte to each
socket of the topic. A socket whose process has ended refuses the byte and is removed, so no list of living
processes is needed. A byte in a file of the topic says whether anybody wants to be woken: under load nobody
does, and a wake-up then costs only a check of that byte. Knows no database.
"""

import fcntl
import itertools
import mmap
import os
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tenuto.errors import Unavailable

# A process that holds the lock this long is stopped or its disk hangs; its peers then answer 503 instead of
# waiting.
TURN_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 0.00005
_LONGEST_PAUSE_S = 0.0003
# A folder's modification time moves in steps of a few milliseconds: a listing this fresh may be stale.
_SETTLED_S = 0.05
# The kernel limits a socket's path to 108 bytes.
_LONGEST_PATH = 100

_SET, _UNSET = b"10"

_numbers = itertools.count()


class Turn:
    """The right to write, for one writer of this process."""

    def __init__(self, database: Path) -> None:
        self._turn = os.open(f"{database}.turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = os.open(f"{database}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Holds the lock; raises Unavailable when another process does not release it."""
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


class Wanted:
    """Whether anybody wants the next wake-up of a topic: one byte of a file that all processes map.

    A listener sets it, then looks at the database, then sleeps. A sender commits, then looks at the byte; it
    unsets it before it sends, so that a byte set meanwhile stays set. A process that dies in between costs
    one wake-up, which is why listeners also poll. Used from any thread.
    """

    def __init__(self, folder: Path, topic: str) -> None:
        # No socket's name begins like this: senders remove the files of dead sockets.
        descriptor = os.open(folder / f"wanted.{topic}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not os.fstat(descriptor).st_size:
                # Written, not just extended: a mapped page that later finds no disk space kills the process.
                # Set, because by now somebody may want a wake-up.
                os.pwrite(descriptor, b"1", 0)
            # Read and written without system calls, during which our other threads could take over.
            self._shared = mmap.mmap(descriptor, 1)
        finally:
            os.close(descriptor)

    def set(self) -> None:
        """From now on, whoever wakes the topic has to send something."""
        with suppress(ValueError):  # It is closed.
            self._shared[0] = _SET

    def take(self) -> bool:
        """Whether something is to be sent; until it is set again, nobody else has to send."""
        with suppress(ValueError):
            if self._shared[0] == _SET:
                self._shared[0] = _UNSET
                return True
        return False

    def close(self) -> None:
        self._shared.close()


class Sender:
    """Sends wake-ups to the sockets of a folder, from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = _open_folder(folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._listing = Listing(0, 0.0, False, [])
        self._wanted: dict[str, Wanted] = {}
        self._adding = threading.Lock()

    def wake(self, topic: str) -> None:
        """Failures are ignored: a lost wake-up does no harm, because listeners also poll the database."""
        with suppress(OSError):
            wanted = self._wanted.get(topic) or self._add(topic)
            if wanted.take():
                for name in self._names():
                    if name.startswith(f"{topic}."):
                        self._send(name)

    def close(self) -> None:
        self._socket.close()
        os.close(self._descriptor)
        for wanted in self._wanted.values():
            wanted.close()

    def _add(self, topic: str) -> Wanted:
        with self._adding:
            if topic not in self._wanted:
                self._wanted[topic] = Wanted(self._folder, topic)
            return self._wanted[topic]

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


class Listing(Struct, frozen=True):
    """The names in the folder as modified at `changed_ns`, a time that was first seen at `seen_s`.

    `is_settled` if it was read so much later that no further change can have the same time.
    """

    changed_ns: int
    seen_s: float
    is_settled: bool
    names: list[str]


class Receiver:
    """Sockets in the folder, one for each topic. `arm` may be called from any thread, the rest from one."""

    def __init__(self, folder: Path, topics: Sequence[str], *, once: bool) -> None:
        """`once`: a topic that was woken stays silent until `arm`."""
        self._once = once
        self._poll = select.poll()
        self._sockets: dict[int, tuple[str, socket.socket, Path]] = {}
        self._wanted: dict[str, Wanted] = {}
        descriptor = _open_folder(folder)
        try:
            for topic in topics:
                self._bind(folder, descriptor, topic)
        finally:
            os.close(descriptor)

    def arm(self, topic: str) -> None:
        """Ask for the topic's next wake-up, before looking at the database: what is seen then needs none."""
        self._wanted[topic].set()

    def wait(self, timeout_s: float) -> frozenset[str]:
        """The topics that were woken since the last call; consumes all wake-ups that have arrived."""
        woken: set[str] = set()
        if not self._once:
            # A sender that died before it sent may have left a topic silent.
            for topic in self._wanted:
                self.arm(topic)
        for number, _ in self._poll.poll(max(0.0, timeout_s * 1000)):
            topic, receiving, _ = self._sockets[number]
            with suppress(BlockingIOError):
                while True:
                    receiving.recv(16)
            woken.add(topic)
            if not self._once:
                self.arm(topic)
        return frozenset(woken)

    def close(self) -> None:
        for _, receiving, path in self._sockets.values():
            receiving.close()
            path.unlink(missing_ok=True)
        for wanted in self._wanted.values():
            wanted.close()

    def _bind(self, folder: Path, descriptor: int, topic: str) -> None:
        path = folder / f"{topic}.{os.getpid()}.{next(_numbers)}"
        receiving = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiving.setblocking(False)
        # A dead process may have had our pid.
        path.unlink(missing_ok=True)
        receiving.bind(_address(folder, descriptor, path.name))
        self._sockets[receiving.fileno()] = topic, receiving, path
        self._poll.register(receiving, select.POLLIN)
        self._wanted[topic] = Wanted(folder, topic)
        self.arm(topic)


def _open_folder(folder: Path) -> int:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _address(folder: Path, descriptor: int, name: str) -> str:
    path = str(folder / name)
    return path if len(os.fsencode(path)) <= _LONGEST_PATH else f"/proc/self/fd/{descriptor}/{name}"
