"""A process gives up all that reading bytes and writing samples does not need. Works on Linux only.

Landlock removes access to the file system, TCP ports and other processes; seccomp, to every system call that
is not on a short list. What is open stays open, so files, libraries and modules are opened and loaded first.
There is no way back. Packages for this are unfinished or need a system library, so ctypes calls the kernel
(`tenuto_engine.seccomp`).
"""

import ctypes
import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from tenuto_engine import seccomp

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF, _LANDLOCK_ASKS_VERSION = 444, 446, 1
# How many rights to the file system each version of Landlock knows.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP_RIGHTS, _SCOPES = 0b11, 0b11
_LANDLOCK_ADD_RULE, _LANDLOCK_BENEATH, _EXECUTE, _READ_FILE = 445, 1, 1 << 0, 1 << 2

_ALLOWED = """
    read 0 63, readv 19 65, write 1 64, writev 20 66, lseek 8 62, close 3 57, fstat 5 80, ftruncate 77 46,
    poll 7 -, ppoll 271 73, ioctl 16 29, fcntl 72 25,
    mmap 9 222, mprotect 10 226, munmap 11 215, mremap 25 216, brk 12 214, madvise 28 233, membarrier 324 283,
    rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, sigaltstack 131 132,
    futex 202 98, futex_waitv 449 449, rseq 334 293, set_robust_list 273 99,
    sched_yield 24 124, sched_getaffinity 204 123, getpid 39 172, gettid 186 178, getrusage 98 165,
    getrandom 318 278, clock_gettime 228 113, clock_nanosleep 230 115, nanosleep 35 101,
    restart_syscall 219 128, exit 60 93, exit_group 231 94
"""
"""Called by decoders, by the interpreter and by its threads; each with its number on both architectures."""
_OF_PROGRAMS = """
    execve 59 221, open 2 -, openat 257 56, access 21 -, faccessat 269 48, faccessat2 439 439, stat 4 -,
    lstat 6 -, newfstatat 262 79, statx 332 291, readlink 89 -, readlinkat 267 78, getcwd 79 17,
    pread64 17 67, pwrite64 18 68, dup 32 23, dup2 33 -, dup3 292 24, select 23 -, pselect6 270 72,
    arch_prctl 158 -, set_tid_address 218 96, getrlimit 97 163, uname 63 160, sysinfo 99 179, times 153 153,
    gettimeofday 96 169, time 201 -, clock_getres 229 114, getuid 102 174, geteuid 107 175, getgid 104 176,
    getegid 108 177, tgkill 234 131
"""
"""Also called by a program's loader and by ffmpeg. Landlock decides what may be opened."""
_CLONE, _CLONE3 = (56, 220), (435, 435)
_CLONE_THREAD = 0x10000


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("fd", ctypes.c_int32))


def confine(readable: Sequence[int] = ()) -> list[str]:
    """Give up all privileges. Returns the protections that this kernel refused, each with its reason.

    `readable`: open files and folders whose contents may still be read and executed. The process may then
    become another program; it can never start one beside it.
    """
    if not sys.platform.startswith("linux"):
        return [f"{sys.platform} has neither Landlock nor seccomp"]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    missing = []
    for name, restrict in (("Landlock", _restrict_files), ("seccomp", _restrict_calls)):
        try:
            restrict(libc, readable)
        except OSError as error:
            missing.append(f"{name}: {error.strerror or error}")
    return missing


def missing_here() -> list[str]:
    """What `confine` cannot do on this machine; tried in a short-lived child."""
    command = [sys.executable, "-m", "tenuto.features.decoding.confinement"]
    answer = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False
    )
    try:
        return [str(one) for one in json.loads(answer.stdout)]
    except ValueError:
        return ["a process that was confined did not answer"]


def _restrict_files(libc: ctypes.CDLL, readable: Sequence[int]) -> None:
    """Deny files, folders, TCP ports, abstract sockets and other processes, as far as this Landlock can."""
    version = _checked(libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_ASKS_VERSION))
    ruleset = _Ruleset(fs=(1 << _FILE_RIGHTS.get(version, 16)) - 1, net=_TCP_RIGHTS, scoped=_SCOPES)
    size = ctypes.c_size_t(8 if version < 4 else 16 if version < 6 else 24)
    rules = _checked(libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(ruleset), size, 0))
    try:
        for fd in readable:
            rule = ctypes.byref(_Beneath(rights=_EXECUTE | _READ_FILE, fd=fd))
            _checked(libc.syscall(_LANDLOCK_ADD_RULE, rules, _LANDLOCK_BENEATH, rule, 0))
        _checked(libc.syscall(_LANDLOCK_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)


def _restrict_calls(libc: ctypes.CDLL, readable: Sequence[int]) -> None:
    """Make every other system call fail with EPERM, in all threads; those of other architectures, too."""
    allowed = _ALLOWED + (f",{_OF_PROGRAMS}" if readable else "")
    refuse = seccomp.refuse(errno.EPERM)
    seccomp.install([*_rules(seccomp.column(), allowed), refuse], refuse)


def _rules(column: int, allowed: str) -> list[seccomp.Step]:
    """What the kernel does before each system call, given its number; what follows the last refuses it."""
    steps: list[seccomp.Step] = []
    for call in allowed.split(","):
        number = call.split()[1 + column]
        if number != "-":
            steps += [(seccomp.EQUAL, 0, 1, int(number)), seccomp.ALLOW]
    # After ENOSYS, glibc starts threads with clone, whose flags can be read here.
    steps += [(seccomp.EQUAL, 0, 1, _CLONE3[column]), seccomp.refuse(errno.ENOSYS)]
    steps += [(seccomp.EQUAL, 0, 3, _CLONE[column]), (seccomp.LOAD, 0, 0, seccomp.FIRST_ARGUMENT_AT)]
    return [*steps, (seccomp.BITS, 0, 1, _CLONE_THREAD), seccomp.ALLOW]


def _checked(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


if __name__ == "__main__":
    sys.stdout.write(json.dumps(confine()))
