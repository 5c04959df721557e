"""A network of its own for one thread and all that it starts: nothing but this machine's own addresses.

Whoever reaches for an address outside finds no way, and the kernel counts it. Knows nothing of Tenuto.
"""

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_NEW_NETWORK = 0x40000000
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_COUNTED = ("Ip.OutNoRoutes", "Ip6OutNoRoutes", "Udp.NoPorts", "Udp6NoPorts", "Tcp.AttemptFails")


class NoNetworkOfOnesOwn(Exception):
    """The kernel or our rights do not allow a network of one's own."""


def alone(work: Callable[[], T]) -> T:
    """Runs `work` in a thread with a network of its own; its sockets and its children are in there too."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            leave()
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="alone")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def knocks() -> dict[str, int]:
    """What in this thread's network was reached for and not there, since it was made."""
    found: dict[str, int] = {}
    lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
    for names, numbers in zip(lines[::2], lines[1::2], strict=True):
        protocol, *columns = names.split()
        found |= {
            f"{protocol.removesuffix(':')}.{column}": int(number)
            for column, number in zip(columns, numbers.split()[1:], strict=True)
        }
    for line in Path("/proc/thread-self/net/snmp6").read_text().splitlines():
        name, number = line.split()
        found[name] = int(number)
    return {name: found[name] for name in _COUNTED}


def leave() -> int:
    """Move this thread, and all that it starts from now on, into a new network namespace.

    Returns a descriptor of the old one, for `come_back`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if libc.unshare(_NEW_NETWORK) != 0:
        os.close(home)
        raise NoNetworkOfOnesOwn(os.strerror(ctypes.get_errno()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        fcntl.ioctl(asking, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))
    return home


def come_back(home: int) -> None:
    """Move this thread back into the network namespace that it left."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(home, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "cannot return to the old network namespace")
    os.close(home)
