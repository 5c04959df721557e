"""What every process of ours has: the wall clock, its log, its failpoints, and the signal that ends it."""

import _thread
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tenuto import failpoints

if TYPE_CHECKING:
    from tenuto.config import Settings
    from tenuto.telemetry.otlp import Telemetry

_PR_SET_DUMPABLE = 4

SIGNAL_LOOK_S = 2.0

Say = Callable[[str], None]
"""Takes a line for the person at the terminal."""


def clock() -> int:
    """Wall time in milliseconds UTC."""
    return time.time_ns() // 1_000_000


def keep_private() -> None:
    """Let no other process of the same user, such as an engine, read our memory or our environment, and leave
    no core file: both hold keys and callers' texts. On Linux; elsewhere only the core file is prevented."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


class StopSignal(threading.Event):
    """Set by SIGTERM or SIGINT. The main thread makes it and waits for it with `wait_for_signal`."""

    def __init__(self) -> None:
        super().__init__()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def wait_for_signal(self) -> None:
        """Return once it is set. A signal that arrives between Python's last look and the system's wait wakes
        nobody, so the wait is made of short ones."""
        while not self.wait(SIGNAL_LOOK_S):
            pass

    def _handle(self, number: int, frame: object) -> None:
        # Not here: the handler may have interrupted `wait` while it holds the event's own lock, and would
        # then wait for that lock for ever. A thread of `threading` takes locks too, a bare one takes none.
        _thread.start_new_thread(self.set, ())


def start_telemetry(settings: "Settings", process: str) -> "Telemetry | None":
    """The way to the operator's collector, for this process; None, and nothing is loaded, without one."""
    from tenuto.addresses import NONE

    if settings.otlp_endpoint == NONE:
        return None
    from tenuto.telemetry.otlp import Telemetry

    return Telemetry(settings.otlp_endpoint, process, clock)


def arm_failpoints() -> None:
    """For tests alone; whoever finds the variable set by mistake finds this line in the log."""
    text = os.environ.get(failpoints.VARIABLE, "")
    failpoints.arm(text)
    if text:
        log().warning("failpoints.armed", text=text)


def log() -> Any:
    """Loaded by the processes that log, for it takes as long as all the rest of a short command."""
    from tenuto import logs

    logs.set_up_once()
    return logs.get_logger("tenuto")
