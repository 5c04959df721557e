"""The processes of a service, found by their parents: to be killed, stopped and seen gone. Knows no jobs."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from servers import forking
from servers.service import RunningService
from servers.speed import HANG_S

RESTART_PAUSE_S = 0.05
GONE_S = HANG_S
STOPPED_S = 60.0
FREE_S = 1.0
"""A write that takes longer is blocked by a stopped process."""


@dataclass(frozen=True)
class Family:
    """Who is there now; None where nobody is."""

    api: int | None
    worker: int | None
    host: int | None

    def living(self) -> list[int]:
        return [pid for pid in (self.api, self.worker, self.host) if pid is not None and is_alive(pid)]


def family(service: RunningService) -> Family:
    """The service's processes, looked up in /proc."""
    api = service.process.pid if service.process is not None and service.process.poll() is None else None
    worker = None if api is None else child(api, "tenuto.process\0")
    host = None if worker is None else child(worker, "tenuto_engine")
    return Family(api, worker, host)


def child(parent: int, word: str) -> int | None:
    """The living child of a process that has this word in its command line."""
    return next(iter(children(parent, word)), None)


def children(parent: int, word: str) -> list[int]:
    """All of them."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            state, ppid = _status(folder)
            if ppid == parent and state != "Z" and word in (folder / "cmdline").read_text(errors="replace"):
                found.append(int(folder.name))
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has reaped yet does not."""
    try:
        return _status(Path("/proc") / str(pid))[0] not in ("Z", "X")
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    return _status(Path("/proc") / str(pid))[0] == "T"


def await_stop(pid: int, touch: Callable[[], None]) -> None:
    """Wait until the process is stopped and holds no lock that `touch` takes.

    If it stopped in the middle of a write, it is resumed until the write is done: every other writer
    would have to wait for it.
    """
    while True:
        until(lambda: is_stopped(pid), STOPPED_S, "the process is stopped")
        probe = threading.Thread(target=touch, daemon=True)
        probe.start()
        probe.join(FREE_S)
        if not probe.is_alive():
            return
        send(pid, signal.SIGCONT)
        probe.join()
        send(pid, signal.SIGSTOP)


def send(pid: int, number: signal.Signals) -> bool:
    """Whether there was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def until(condition: Callable[[], bool], timeout_s: float, what: str, *, look_s: float = 0.01) -> float:
    """Wait for a condition; gives the seconds that it took."""
    began = time.monotonic()
    while not condition():
        took_s = time.monotonic() - began
        assert took_s < timeout_s, f"not within {timeout_s} s: {what}"
        time.sleep(look_s)
    return time.monotonic() - began


def crash_postgres(server: int) -> None:
    """SIGKILL of a PostgreSQL server and all its processes; when this returns, they are gone."""
    pids = [server, *children(server, "postgres")]
    for pid in pids:
        send(pid, signal.SIGKILL)
    until(lambda: not any(map(is_alive, pids)), GONE_S, "PostgreSQL is gone")
    with suppress(ChildProcessError):
        # It is ours; as long as nobody has asked for its end, its pid looks alive to its successor.
        os.waitpid(server, 0)


class Supervisor:
    """Starts `tenuto serve` again whenever it ends, on the same folder and port, as systemd would."""

    def __init__(self, service: RunningService) -> None:
        assert service.port, "the port must not change with a restart"
        self.starts = 0
        self._service = service
        self._stopping = threading.Event()
        # Held for a start, so that nothing is started once somebody stops us.
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        with self._starting:
            self._stopping.set()
        code = self._service.stop()
        self._thread.join(HANG_S)
        return code

    def give_up(self) -> None:
        """SIGKILL, and no start after it."""
        with self._starting:
            self._stopping.set()
        self._service.kill()
        self._thread.join(HANG_S)

    def _run(self) -> None:
        service = self._service
        while True:
            assert service.process is not None
            service.process.wait()
            self._stopping.wait(RESTART_PAUSE_S)
            with self._starting:
                if self._stopping.is_set():
                    return
                with service.log_path.open("a") as log:
                    service.process = forking.begin(
                        ["serve", "--port", str(service.port)],
                        env=service.environment,
                        stdout=log,
                        stderr=log,
                    )
            self.starts += 1


def _status(folder: Path) -> tuple[str, int]:
    """State and parent, from behind the name in brackets, which may hold anything."""
    state, ppid = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
    return state, int(ppid)
