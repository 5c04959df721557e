"""The worker as a child of `serve`: its parent supervises it, and it never outlives its parent."""

import os
import subprocess
import threading
import time
from contextlib import suppress

from tenuto import config
from tenuto.config import Settings
from tenuto.logs import get_logger

RESTART_FIRST_S = 0.1
# A dead worker's attempts are found by the next one, within 2 s however often workers die.
RESTART_MAX_S = 1.0
# A worker that could not start, because the database is away, has no attempts: the next may wait longer.
NOT_STARTED_MAX_S = 10.0
SETTLED_S = 2.0
DATABASE_VARIABLE = "TENUTO_DATABASE"
NOT_STARTED = 75
"""What a worker exits with when it could not start: EX_TEMPFAIL of sysexits.h."""

_log = get_logger("tenuto")


class ChildWorker:
    """A worker process: started, started again when it dies, and gone when we are.

    `command` gets the descriptor of a pipe as its last argument; `follow_parent` is what it does with it.
    """

    def __init__(self, settings: Settings, command: list[str]) -> None:
        self._settings = settings
        self._command = command
        self._asked = False
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, name="child-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Ask it to drain; from any thread."""
        self._asked = True
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()

    def stop(self) -> None:
        """Ask it to drain and wait for it; kill it when it takes longer than it may."""
        self.ask_to_stop()
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            try:
                process.wait(self._settings.drain_s + self._settings.host_grace_s + 20)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join(timeout=5)

    def _supervise(self) -> None:
        pause_s = RESTART_FIRST_S
        while not self._asked:
            began = time.monotonic()
            try:
                code = self._live()
            except OSError as error:
                code = NOT_STARTED
                _log.error("worker.not_started", reason=error.strerror)
            if self._asked:
                return
            pause_s = restart_pause_s(code, time.monotonic() - began, pause_s)
            _log.error("worker.died", code=code, restart_in_s=round(pause_s, 1))
            self._stopping.wait(pause_s)

    def _live(self) -> int:
        """One worker from start to end; gives its code. OSError: the machine can start none just now."""
        # The read end goes to the child: when we die, however we die, it reads the end of the pipe.
        read_end, write_end = os.pipe()
        try:
            try:
                process = self._process = subprocess.Popen(
                    [*self._command, str(read_end)],
                    pass_fds=(read_end,),
                    stdin=subprocess.PIPE,
                    env={name: text for name, text in os.environ.items() if name != DATABASE_VARIABLE},
                    start_new_session=True,
                )
            finally:
                os.close(read_end)
            if self._asked:
                process.terminate()
            _hand_over(process, config.dump(self._settings).encode())
            return process.wait()
        finally:
            os.close(write_end)


def _hand_over(process: subprocess.Popen[bytes], settings: bytes) -> None:
    """Write the settings to its standard input: they hold the database's password, and an environment can be
    read by every process of the same user."""
    assert process.stdin is not None
    # It may have ended already; then it is started again.
    with suppress(OSError), process.stdin:
        process.stdin.write(settings)


def restart_pause_s(code: int, lived_s: float, last_s: float) -> float:
    """The pause before the next start, after one that ended with this code and a pause of `last_s` before it.

    How long a worker has tried to start says nothing: with its link to the database cut it waits for a while.
    """
    if code == NOT_STARTED:
        return min(NOT_STARTED_MAX_S, last_s * 2)
    return RESTART_FIRST_S if lived_s > SETTLED_S else min(RESTART_MAX_S, last_s * 2)


def follow_parent(read_end: int) -> None:
    """In the child: wait for the end of the pipe, which is the parent's, and end at once."""
    os.read(read_end, 1)
    os._exit(1)
