"""A child process of `serve`, its worker or an API process: supervised, and ended when its parent ends."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from tenuto import config
from tenuto.config import Settings
from tenuto.logs import get_logger, set_up_logs

RESTART_FIRST_S = 0.1
# The next worker finds a dead one's attempts: within 2 s, however often workers die.
RESTART_MAX_S = 1.0
# A worker that could not start, because the database is away, has no attempts: the next may wait longer.
NOT_STARTED_MAX_S = 10.0
SETTLED_S = 2.0
DATABASE_VARIABLE = "TENUTO_DATABASE"
WORKER = (sys.executable, "-m", "tenuto.process")
"""The command of the worker."""
NOT_STARTED = 75
"""The exit status of a child that could not start: EX_TEMPFAIL of sysexits.h."""

Role = Literal["worker", "api"]

_log = get_logger("tenuto")


class Child:
    """A child process: started, restarted when it dies, and ended when we end.

    `command` gets the descriptor of a pipe as its last argument, for `receive_settings`.
    """

    def __init__(
        self,
        settings: Settings,
        command: Sequence[str],
        *,
        role: Role = "worker",
        inherits: Sequence[int] = (),
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        """`inherits`: descriptors that it inherits. `on_death` is called when it has ended unasked."""
        self._settings = settings
        self._command = command
        self._role = role
        self._inherits = inherits
        self._on_death = on_death
        self.stop_s = settings.drain_s + settings.host_grace_s + 20
        """How long it has to stop before it is killed."""
        self._asked = False
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: tuple[subprocess.Popen[bytes], int] | None = None
        self._thread = threading.Thread(target=self._supervise, name=f"child-{role}", daemon=True)

    def prepare(self) -> None:
        """Start the first process early: it loads its modules, and waits for `start`."""
        with suppress(OSError):  # The machine cannot start one at the moment: `start` tries again.
            self._waiting = self._begin()

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Ask it to drain; from any thread."""
        self._asked = True
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()

    def stop(self) -> None:
        """Ask it to drain and wait for it; kill it if it takes too long."""
        self.ask_to_stop()
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            try:
                process.wait(self.stop_s)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        elif self._waiting is not None:
            (waiting, write_end), self._waiting = self._waiting, None
            os.close(write_end)
            assert waiting.stdin is not None
            waiting.stdin.close()

    def _supervise(self) -> None:
        pause_s = RESTART_FIRST_S
        while not self._asked:
            began = time.monotonic()
            try:
                code = self._live()
            except OSError as error:
                code = NOT_STARTED
                log_not_started(self._role, error.strerror)
            if self._asked:
                return
            pause_s = restart_pause_s(code, time.monotonic() - began, pause_s)
            keys = {"code": code, "restart_in_s": round(pause_s, 1)}
            if self._role == "worker":
                _log.error("worker.died", **keys)
            else:
                _log.error("api.died", **keys)
            self._on_death()
            self._stopping.wait(pause_s)

    def _live(self) -> int:
        """Run one process to its end; returns its exit code. OSError: it cannot be started at the moment."""
        (process, write_end), self._waiting = self._waiting or self._begin(), None
        try:
            if self._asked:
                process.terminate()
            _hand_over(process, config.dump(self._settings).encode())
            return process.wait()
        finally:
            os.close(write_end)

    def _begin(self) -> tuple[subprocess.Popen[bytes], int]:
        """Start a process that waits for its settings; returns it with our end of a pipe. Raises OSError.
        When we die, however we die, our end is closed, which the process notices."""
        read_end, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*self._command, str(read_end)],
                pass_fds=(read_end, *self._inherits),
                stdin=subprocess.PIPE,
                env={name: text for name, text in os.environ.items() if name != DATABASE_VARIABLE},
                start_new_session=True,
            )
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        return self._process, write_end


def _hand_over(process: subprocess.Popen[bytes], settings: bytes) -> None:
    """Write the settings to the process's standard input.
    They hold the database's password, and every process of the same user can read an environment."""
    assert process.stdin is not None
    # It may have ended already; then it is started again.
    with suppress(OSError), process.stdin:
        process.stdin.write(settings)


def log_not_started(role: Role, reason: str | None) -> None:
    """Log that a child could not start; it is restarted after ever longer pauses."""
    if role == "worker":
        _log.error("worker.not_started", reason=reason)
    else:
        _log.error("api.not_started", reason=reason)


def restart_pause_s(code: int, lived_s: float, last_s: float) -> float:
    """The pause before the next start, given how the last process ended and the pause before it, `last_s`.

    How long a worker tried to start means nothing: without a link to the database it waits for a while.
    """
    if code == NOT_STARTED:
        return min(NOT_STARTED_MAX_S, last_s * 2)
    return RESTART_FIRST_S if lived_s > SETTLED_S else min(RESTART_MAX_S, last_s * 2)


def receive_settings(read_end: int) -> Settings:
    """In the child: read the settings from its parent; from now on it ends as soon as the parent does.

    Ends the process if the parent died before it wrote them.
    """
    if not (text := sys.stdin.read()):
        sys.exit(1)
    settings = config.undump(text)
    set_up_logs(settings.log_level, settings.log_format)
    threading.Thread(target=_follow_parent, args=(read_end,), name="parent", daemon=True).start()
    return settings


def _follow_parent(read_end: int) -> None:
    """Wait until the pipe is closed, which means that the parent has ended, and exit at once."""
    os.read(read_end, 1)
    os._exit(1)
