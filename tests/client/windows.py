"""`python -m client.windows STEP before|after VERB …`: `client.killed` without what only POSIX has.

A stand-in for Windows, as far as our own code meets it: no POSIX modules and calls, `msvcrt` for locks, and
neither a folder nor the name of an open file can be touched. Other libraries are loaded first: they support
Windows, but on this system they would look for what Linux has.
"""

import asyncio  # noqa: F401 - loaded before anything is taken away
import errno
import fcntl
import os
import runpy
import struct
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2  # noqa: F401
import rich.console
import rich.progress  # noqa: F401

POSIX_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
POSIX_CALLS = (
    *(
        "fchmod",
        "fchown",
        "fdatasync",
        "fork",
        "getegid",
        "geteuid",
        "getgid",
        "getuid",
        "lockf",
        "mkfifo",
        "pread",
    ),
    *("pwrite", "set_blocking", "statvfs", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC"),
)
_FLOCK = struct.Struct("hhqqi4x")


def locking(descriptor: int, mode: int, size_bytes: int) -> None:
    """Lock or unlock so many bytes from the descriptor's position on; OSError if another has them."""
    kind = fcntl.F_UNLCK if mode == 0 else fcntl.F_WRLCK
    at = os.lseek(descriptor, 0, os.SEEK_CUR)
    command = fcntl.F_OFD_SETLKW if mode == 1 else fcntl.F_OFD_SETLK
    fcntl.fcntl(descriptor, command, _FLOCK.pack(kind, os.SEEK_SET, at, size_bytes, 0))


def is_open(path: Any) -> bool:
    """Whether any process has the file open."""
    real = os.path.realpath(path)
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(link.readlink()) == real:
                return True
        except OSError:
            continue
    return False


def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, which fails on names of open files."""

    def guarded(*paths: Any, **options: Any) -> Any:
        if any(is_open(path) for path in paths):
            raise PermissionError(errno.EACCES, "it is open", str(paths[0]))
        return call(*paths, **options)

    return guarded


def opening(path: Any, flags: int, *more: Any, **options: Any) -> int:
    """`os.open`, which opens no folder."""
    if Path(path).is_dir():
        raise PermissionError(errno.EACCES, "it is a folder", str(path))
    return open_file(path, flags, *more, **options)


open_file = os.open

if __name__ == "__main__":
    msvcrt: Any = ModuleType("msvcrt")
    msvcrt.LK_UNLCK, msvcrt.LK_LOCK, msvcrt.LK_NBLCK, msvcrt.locking = 0, 1, 2, locking
    sys.modules["msvcrt"] = msvcrt
    for name in POSIX_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in POSIX_CALLS:
        delattr(os, name) if hasattr(os, name) else None
    for name in ("rename", "replace", "unlink", "remove"):
        setattr(os, name, refusing(getattr(os, name)))
    os.open = opening
    runpy.run_module("client.killed", run_name="__main__", alter_sys=True)
