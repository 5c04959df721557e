"""Wake-ups between the processes of one machine: datagram sockets in a folder, named by topic.

A sender looks through the folder and sends a byte to each socket of the topic. A socket that nobody has
bound any more refuses the byte and is removed, so no list of the living is kept. Knows no database.
"""

import itertools
import os
import select
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

# A folder's time of change moves in steps of a few milliseconds: a listing this fresh may already be old.
_SETTLED_S = 0.05
# The kernel's limit of a socket's path is 108 bytes.
_LONGEST_PATH = 100

_numbers = itertools.count()


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
