"""`tenuto` as a process of its own that does not have to load its modules: most of what a start costs.

`begin` and `complete` are to a `tenuto` command what `Popen` and `run` of `subprocess` are. A process that
has only the modules loaded, and no thread, file or database open, forks for each command; what it forks has
the arguments, environment, folder and streams of the command, and ends as an interpreter does. A command
whose environment acts on the interpreter or its libraries is started in the usual way.

`serve` starts a worker, which would load all modules once more. So whoever becomes a `serve` first forks a
child that waits to become its first worker; the workers after that are started in the usual way.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

TENUTO = str(Path(sys.executable).with_name("tenuto"))
READ_WHEN_RUN = ("TENUTO_", "XDG_")
"""Names of variables begin so that are read by our own code alone, and by none of it when it is loaded."""
MOST_BYTES = 1 << 20
WORKER = "tenuto.process"
"""The module that `serve` runs as its worker."""
TITLE = "-" * 120
"""An argument of the process that forks, which makes space for the command line of a worker."""
LIMITS = [getattr(resource, name) for name in sorted(vars(resource)) if name.startswith("RLIMIT_")]


class Forked(subprocess.Popen[str]):
    """A command that was forked; its end is told by the process that it was forked from."""

    _child_created = False  # What `Popen` looks at when it is forgotten.

    def __init__(
        self, arguments: Sequence[str], pid: int, ends: socket.socket, stdout: IO[str] | None
    ) -> None:
        self.args = [TENUTO, *arguments]
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._ends = ends
        self._reading = threading.Lock()

    def poll(self) -> int | None:
        with self._reading:
            if self.returncode is None and select.select([self._ends], [], [], 0)[0]:
                self.returncode = int(self._ends.recv(16) or -signal.SIGKILL)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        select.select([self._ends], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired([TENUTO], timeout or 0)
        return code


def begin(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    stdout: int | IO[Any],
    stderr: int | IO[Any],
    cwd: Path | None = None,
    is_measured: bool = False,
) -> "subprocess.Popen[str]":
    """Start `tenuto ARGUMENTS`. `stdout` may be `PIPE`. What is measured is started in the usual way."""
    if is_measured or not _acts_on_us_alone(env) or _namespaces() != _OURS:
        return subprocess.Popen(
            [TENUTO, *arguments], env=env, cwd=cwd, stdout=stdout, stderr=stderr, text=True
        )
    read, written = os.pipe() if stdout == subprocess.PIPE else (None, None)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    streams = [
        os.open(os.devnull, os.O_RDONLY),
        _number(stdout) if written is None else written,
        _number(stderr),
    ]
    told = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd or Path.cwd()), "umask": _umask()}
    socket.send_fds(_forker(), [json.dumps(told).encode()], [*streams, theirs.fileno()])
    theirs.close()
    os.close(streams[0])
    if written is not None:
        os.close(written)
    pid = int(ours.recv(16))
    return Forked(arguments, pid, ours, None if read is None else os.fdopen(read, encoding="utf-8"))


def complete(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, timeout: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Run `tenuto ARGUMENTS` to its end; what it wrote is captured as text."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+") as err:
        process = begin(arguments, env=env, stdout=out, stderr=err, cwd=cwd)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        said = [stream.read() for stream in (out, err) if stream.seek(0) == 0]
    return subprocess.CompletedProcess([TENUTO, *arguments], code, *said)


def _acts_on_us_alone(env: Mapping[str, str]) -> bool:
    """Whether the environment differs from ours only in what our own code reads, when it runs."""
    differing = {name for name, _ in {*env.items()} ^ {*os.environ.items()}}
    return all(name.startswith(READ_WHEN_RUN) for name in differing)


def _namespaces() -> tuple[str, ...]:
    """Those of this thread: a test may have given it a network or mounts of its own."""
    own = Path("/proc/thread-self/ns")
    return tuple(str((own / name).readlink()) for name in ("net", "mnt", "user"))


_OURS = _namespaces()


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


def _number(stream: int | IO[Any]) -> int:
    return stream if isinstance(stream, int) else stream.fileno()


@cache
def _forker() -> socket.socket:
    """The way to the process that forks; it ends when we do."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
    env = {name: value for name, value in os.environ.items() if not name.startswith(READ_WHEN_RUN)}
    command = [sys.executable, __file__, str(theirs.fileno()), TITLE]
    subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    return ours


def _fork_on_demand(asked: socket.socket) -> None:
    """Fork for each request and tell how each ended. Returns in what was forked, and when nobody can ask."""
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    tell: dict[int, socket.socket] = {}
    while True:
        ready = select.select([asked, woken], [], [])[0]
        if woken in ready:
            woken.recv(4096)
            _tell_ends(tell)
        if asked not in ready:
            continue
        request, files, *_ = socket.recv_fds(asked, MOST_BYTES, 4)
        if not request:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            return _become(json.loads(request), files)
        tell[pid] = socket.socket(fileno=files.pop())
        tell[pid].send(str(pid).encode())
        for file in files:
            os.close(file)


def _tell_ends(tell: dict[int, socket.socket]) -> None:
    while tell:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with tell.pop(pid) as one:
            one.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: dict[str, Any], files: list[int]) -> None:
    """What the command would have been started with."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = open(0, closefd=False)  # noqa: SIM115, as is the interpreter's own
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = [TENUTO, *request["arguments"]]


class _Worker(subprocess.Popen[bytes]):
    """The first worker of a `serve`: its child from the beginning, which has waited for this."""

    def __init__(self, pid: int, asked: socket.socket, arguments: list[str], env: Mapping[str, str]) -> None:
        self.args, self.pid, self.returncode = arguments, pid, None
        self._child_created, self._waitpid_lock = True, threading.Lock()
        self.stdout = self.stderr = None
        read, written = os.pipe()
        request = {
            "arguments": arguments,
            "env": dict(env),
            "cwd": str(Path.cwd()),
            "umask": int(_status_of_ours("Umask"), 8),
            "limits": [resource.getrlimit(limit) for limit in LIMITS],
        }
        with asked:
            socket.send_fds(asked, [json.dumps(request).encode()], [read, int(arguments[-1])])
        os.close(read)
        self.stdin = os.fdopen(written, "wb")


def _fork_worker() -> None:
    """Fork what becomes the first worker; it ends if we do before that."""
    from tenuto.worker import serve_child

    asked, asking = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
    pid = os.fork()
    if pid == 0:
        asking.close()
        _become_worker(asked)
    asked.close()
    waiting = [pid]

    def begin_worker(arguments: list[str], *, env: Mapping[str, str], **options: Any) -> Any:
        if arguments[1:3] == ["-m", WORKER] and waiting:
            return _Worker(waiting.pop(), asking, arguments, env)
        return subprocess.Popen(arguments, env=env, **options)

    names = {name: getattr(subprocess, name) for name in ("PIPE", "TimeoutExpired")}
    vars(serve_child)["subprocess"] = SimpleNamespace(Popen=begin_worker, **names)


def _become_worker(asked: socket.socket) -> NoReturn:
    """What `python -m` would have been, in a session of its own."""
    text, files, *_ = socket.recv_fds(asked, MOST_BYTES, 2)
    asked.close()
    if not text:
        os._exit(0)
    request = json.loads(text)
    os.setsid()
    for received, number in zip(files, (0, int(request["arguments"][-1])), strict=True):
        if received != number:
            os.dup2(received, number)
            os.close(received)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115, as is the interpreter's own
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    for limit, pair in zip(LIMITS, request["limits"], strict=True):
        resource.setrlimit(limit, tuple(pair))
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["arguments"][2:]
    _show(request["arguments"])
    _run(lambda: runpy.run_module(WORKER, run_name="__main__", alter_sys=True))
    sys.exit()


def _status_of_ours(name: str) -> str:
    """What the kernel states of this process; to ask with `os.umask` would change it for all threads."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


def _show(arguments: list[str]) -> None:
    """Have our command line be this one, by which a worker is recognised."""
    first, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    line = "\0".join(arguments).encode()[: end - first].ljust(end - first, b"\0")
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(first)
        memory.write(line)


def _run(command: Callable[[], object]) -> None:
    """Run it and end as an interpreter does, but for taking its modules apart, which copies what we share.

    A process that ends with an error, by a signal or with unread output ends as usual.
    """
    code: object = None
    try:
        command()
    except SystemExit as end:
        code = end.code
    if not isinstance(code, int | None):
        sys.exit(str(code))
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    sys.path.pop(0)  # Our folder, whose modules are called as others are.
    import tenuto
    from tenuto.command import main

    for module in pkgutil.walk_packages(tenuto.__path__, "tenuto."):
        # A command's module is loaded by the command alone, and hides what the package calls by its name.
        last = module.name.rpartition(".")[2]
        if last != "__main__" and not module.name.startswith("tenuto.command.") and "commands" not in last:
            importlib.import_module(module.name)
    gc.freeze()
    _fork_on_demand(socket.socket(fileno=int(sys.argv[1])))
    if sys.argv[1] == "serve":
        # Not before: what is forgotten with that call closes its numbers of files, which a new file may have.
        _fork_worker()
    _run(main)
