"""Filters of system calls, as Linux runs them before each call. Knows no rule of anybody's.

A filter stays for good, and applies to all that the process starts. Packages for this need a system library,
so ctypes calls the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence

Step = tuple[int, int, int, int]
"""An instruction of classic BPF: what it does, how many to skip if true and if not, its operand."""

# Load a word; is it equal, at least, does it have one of these bits; return.
LOAD, EQUAL, AT_LEAST, BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, FIRST_ARGUMENT_AT = 0, 16
ALLOW: Step = (RETURN, 0, 0, 0x7FFF0000)
_ARCHITECTURE_AT, _REFUSE = 4, 0x00050000
_ARCHITECTURES = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}
"""What the kernel calls the architecture, and the number of seccomp(2) there."""
COLUMNS = {"x86_64": 0, "aarch64": 1}
"""Where a table of calls has the numbers of this architecture."""
_PR_SET_NO_NEW_PRIVS, _SET_FILTER = 38, 1
_ALL_THREADS, _SPECULATION = 1, 4


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse(number: int) -> Step:
    """Let the call fail with this `errno`."""
    return (RETURN, 0, 0, _REFUSE | number)


def column() -> int:
    """The column of this machine in tables of calls. OSError: its calls are not known here."""
    machine = os.uname().machine if sys.platform.startswith("linux") and sys.maxsize > 1 << 32 else ""
    if machine not in COLUMNS:
        # One argument: `strerror` stays empty, and the text is the error's.
        raise OSError(f"system calls of {sys.platform} on {os.uname().machine} are not known here")
    return COLUMNS[machine]


def install(rules: Sequence[Step], otherwise: Step, *, is_trusted: bool = False) -> None:
    """Apply rules to all threads, from now on: first comes the number of the call. Raises OSError.

    Calls in the form of another architecture get `otherwise`. Before Linux 5.16, a filter also slows down the
    processor's speculation against hostile code, unless the process `is_trusted`.
    """
    column()
    architecture, call = _ARCHITECTURES[os.uname().machine]
    steps = [(LOAD, 0, 0, _ARCHITECTURE_AT), (EQUAL, 1, 0, architecture), otherwise]
    steps += [(LOAD, 0, 0, NUMBER_AT), *rules]
    content = b"".join(struct.pack("=HBBI", *step) for step in steps)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = _Program(len(content) // 8, content)
    flags = _ALL_THREADS | (_SPECULATION if is_trusted else 0)
    # A positive answer is a thread that has a filter of its own: then nothing was applied.
    if (answer := libc.syscall(call, _SET_FILTER, flags, ctypes.byref(program))) != 0:
        number = ctypes.get_errno() if answer < 0 else errno.EBUSY
        raise OSError(number, os.strerror(number))
