"""`tenuto serve`: a worker and one API process, or several, on one data folder.

With one, this process is the API. With several it answers no caller: it holds what exists only once, the
lock of the folder and the listening socket, starts the API processes, and answers `/metrics` for all. They
inherit the socket, so a connection waits in the kernel until one accepts it, even if others die meanwhile.

It starts each as `python -m tenuto.process.serve NUMBER SOCKET READY PARENT`: the descriptors of the
socket, of the pipe on which it reports that it accepts, and of a pipe whose other end the parent holds.
"""

import _thread
import os
import signal
import sys
import threading
from contextlib import closing, suppress
from functools import partial

from tenuto.config import Settings
from tenuto.errors import OperatorError, TenutoError
from tenuto.feature import features
from tenuto.ids import Ids
from tenuto.kind import model as catalog
from tenuto.kind import upstream_keys
from tenuto.process.api import Sibling, address_of, announce, serve_api
from tenuto.process.data_opening import (
    MIGRATIONS_PATIENCE_S,
    make_folder,
    open_records,
    refuse_missing,
    warn_of_little_space,
)
from tenuto.process.runtime import (
    Say,
    StopSignal,
    arm_failpoints,
    clock,
    keep_private,
    observe,
    stop_signals,
)
from tenuto.process.store_watch import StoreWatch, open_beside
from tenuto.worker.locks import FolderLock
from tenuto.worker.serve_child import NOT_STARTED, Child, log_not_started, receive_settings

CORES_EACH = 4
"""By default, one API process for this many cores: workers and the database need the rest."""
MOST_BY_DEFAULT = 4
NOT_READY = "an API process could not start; the log says why"


def run_serve(settings: Settings, worker: Child, say: Say) -> None:
    """Serve until a stop signal, as the only service on this folder. `worker` is not started yet."""
    lock = None
    try:
        arm_failpoints()
        lock = _may_serve(settings)
        worker.start()
        processes = processes_of(settings, len(os.sched_getaffinity(0)))
        if processes == 1:
            serve_api(settings, say, child=worker, lock=lock)
        else:
            _Siblings(settings, processes, worker).serve(say, lock)
    finally:
        worker.stop()
        if lock is not None:
            lock.release()


def _may_serve(settings: Settings) -> FolderLock:
    """Bring folder, database and weights up to date; returns the folder's lock. Whatever prevents a start is
    raised here, and so reported once instead of repeatedly by each child."""
    from tenuto.api.server import check_address
    from tenuto.process.waiting import answering

    # Raises for a faulty table of a model or a missing key, for example.
    upstream_keys.check(catalog.models(settings), os.environ)
    if not settings.folder.exists():
        # If the address cannot be used, no folder is left behind.
        check_address(settings.host, settings.port)
    make_folder(settings.folder)
    lock = FolderLock(settings.folder)
    check_address(settings.host, settings.port)
    warn_of_little_space(settings.folder)
    waiting = partial(answering, settings, Ids(clock))
    with closing(open_records(settings, patience_s=MIGRATIONS_PATIENCE_S, waiting=waiting)) as database:
        StoreWatch(settings, database, open_beside(settings, database))
        stopped = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
        for feature in features().values():
            if feature.starting:
                feature.part(feature.starting)(settings, database)
        signal.signal(signal.SIGTERM, stopped)
    return lock


def processes_of(settings: Settings, cores: int) -> int:
    """How many API processes these settings start on a machine with this number of cores.

    On SQLite, where they take turns to write and a single one accepts the most, one unless a number is set.
    """
    if settings.api_processes or settings.database.startswith("sqlite:"):
        return settings.api_processes or 1
    return max(1, min(MOST_BY_DEFAULT, cores // CORES_EACH))


class _Siblings:
    """The API processes of one `serve`."""

    def __init__(self, settings: Settings, processes: int, worker: Child) -> None:
        from tenuto.api.server import listen

        self._settings, self._worker = settings, worker
        self._sockets = listen(settings.host, settings.port)
        self._stopping = StopSignal()
        self._ready, self._ready_end = os.pipe()
        self._is_ready = self._has_failed = False
        listening = self._sockets[0].fileno()
        command = [sys.executable, "-m", "tenuto.process.serve"]
        self._apis = [
            Child(
                settings,
                [*command, str(number), str(listening), str(self._ready_end)],
                role="api",
                inherits=(listening, self._ready_end),
                on_death=self._on_death,
            )
            for number in range(1, processes + 1)
        ]

    def serve(self, say: Say, lock: FolderLock) -> None:
        """Serve until a stop signal; a second one ends the grace. OperatorError: one cannot start."""
        observe(self._settings, "serve")
        address = address_of([self._sockets[0].getsockname()[:2]])
        threading.Thread(target=self._await_ready, args=(address, say, lock), daemon=True).start()
        for api in self._apis:
            api.start()
        self._stopping.wait_for_signal()
        for number in stop_signals():
            signal.signal(number, lambda *_: _thread.start_new_thread(self._ask_to_stop, ()))
        # Once all processes have closed the socket, connections that were not accepted are refused.
        for listening in self._sockets:
            listening.close()
        self._worker.ask_to_stop()
        self._ask_to_stop()
        for api in self._apis:
            api.stop()
        if not self._is_ready and self._has_failed:
            raise OperatorError(NOT_READY)

    def _await_ready(self, address: str, say: Say, lock: FolderLock) -> None:
        """Tell what the processes report, and announce the service when the first accepts."""
        from tenuto.logs import tell

        with os.fdopen(self._ready) as reports:
            for report in reports:
                number, port = map(int, report.split())
                tell("api.accepts", number=number, port=port)
                if not self._is_ready:
                    self._is_ready = True
                    try:
                        with closing(open_records(self._settings)) as database:
                            announce(self._settings, database, address, say, lock)
                    except TenutoError as error:
                        log_not_started("api", error.message)
                        self._is_ready = False
                        self._on_death()

    def _on_death(self) -> None:
        """End the service if none is ready yet: what keeps the first from starting would keep all."""
        if not self._is_ready:
            self._has_failed = True
            self._stopping.set()

    def _ask_to_stop(self) -> None:
        for api in self._apis:
            api.ask_to_stop()


def _serve_one(number: int, listening: int, ready: int, parent_end: int) -> None:
    """Run one API process until asked to stop; it stops at once if the parent dies."""
    parent = os.getppid()
    settings = receive_settings(parent_end)

    def on_ready(metrics_port: int) -> None:
        with suppress(OSError):
            os.write(ready, f"{number} {metrics_port}\n".encode())

    keep_private()
    arm_failpoints()
    try:
        # Our parent has opened both: if they are gone, the folder was moved away and must not be recreated.
        refuse_missing(settings)
        serve_api(settings, lambda line: None, sibling=Sibling(listening, parent, on_ready))
    except TenutoError as error:
        log_not_started("api", error.message)
        sys.exit(NOT_STARTED)


if __name__ == "__main__":
    _serve_one(*map(int, sys.argv[1:]))
