"""An engine that tries to reach somebody, in each way that a library might. The standard library only."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from tenuto_engine import Result, Run

FAMILIES = {
    "TCP": (socket.AF_INET, socket.SOCK_STREAM, 0),
    "TCP over IPv6": (socket.AF_INET6, socket.SOCK_STREAM, 0),
    "several paths": (socket.AF_INET, socket.SOCK_STREAM, 262),
    "UDP": (socket.AF_INET, socket.SOCK_DGRAM, 0),
    "UDP over IPv6": (socket.AF_INET6, socket.SOCK_DGRAM, 0),
    "raw": (socket.AF_INET, socket.SOCK_RAW, 1),
    "packets": (socket.AF_PACKET, socket.SOCK_DGRAM, 0),
    "the kernel's tables": (socket.AF_NETLINK, socket.SOCK_RAW, 0),
    "a host of this machine": (socket.AF_VSOCK, socket.SOCK_STREAM, 0),
}
# x86-64 and AArch64; `socket` of x86-64's second form, which most kernels lack.
SOCKET = 198 if os.uname().machine == "aarch64" else 41
CALLS = {
    "io_uring": (425, 8, ctypes.create_string_buffer(120)),
    "by number": (SOCKET, int(socket.AF_INET), int(socket.SOCK_DGRAM), 0),
    "in the second form": (0x40000000 | SOCKET, int(socket.AF_INET), int(socket.SOCK_DGRAM), 0),
}
CHILD = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"


class Caller:
    def __init__(self, options: dict[str, Any]) -> None:
        self.info = {"model_id": "caller"}

    def run(self, run: Run) -> Result:
        port = run.parameters["port"]
        tries: dict[str, Callable[[], object]] = {
            **{name: partial(socket.socket, *family) for name, family in FAMILIES.items()},
            **{name: partial(_call, *call) for name, call in CALLS.items()},
            "a name": lambda: socket.getaddrinfo("example.com", 443),
            "a child": lambda: subprocess.run([sys.executable, "-c", CHILD], check=True, stderr=-3),
            "a thread": lambda: _in_thread(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
            "a server here": lambda: socket.create_connection(("127.0.0.1", port)),
            "one that was open": lambda: _opened_by_hook().send(b"a report"),
            "a pair": socket.socketpair,
            "a Unix socket": lambda: socket.socket(socket.AF_UNIX),
        }
        variables = {name: os.environ.get(name) for name in run.parameters["variables"]}
        tried = {name: _tried(attempt) for name, attempt in tries.items()}
        return Result("text/plain", b"", {"tried": tried, "variables": variables})


def _opened_by_hook() -> socket.socket:
    """A test's `sitecustomize` opens it, as libraries' hooks do."""
    opened: socket.socket = sys.modules["sitecustomize"].opened
    return opened


def _tried(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except socket.gaierror:
        return "not found"
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    except subprocess.CalledProcessError:
        return "failed"
    return "done"


def _call(*arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _in_thread(attempt: Callable[[], object]) -> None:
    found: list[OSError] = []

    def run() -> None:
        try:
            attempt()
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if found:
        raise found[0]
