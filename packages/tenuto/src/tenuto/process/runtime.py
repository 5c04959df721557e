"""What all our processes share: the wall clock, the log, failpoints, and the signals that stop them."""

import _thread
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tenuto import failpoints
from tenuto.errors import OperatorError

if TYPE_CHECKING:
    from tenuto.config import Settings

_PR_SET_DUMPABLE = 4

SIGNAL_CHECK_S = 2.0
CLOSE_S = 15.0
"""How long a process has to close once its work has ended; less than `Child.stop` waits."""

Say = Callable[[str], None]
"""Prints a line for the person at the terminal."""


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


def stop_signals() -> list[signal.Signals]:
    """The signals that stop a process gracefully. SIGHUP, sent when its terminal is closed, is one of them
    unless whoever started the process has it ignored, as nohup does.
    """
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, *hangup]


class StopSignal(threading.Event):
    """Set by a stop signal. The main thread makes it and waits for it with `wait_for_signal`."""

    def __init__(self) -> None:
        super().__init__()
        for number in stop_signals():
            signal.signal(number, self._handle)

    def wait_for_signal(self) -> None:
        """Return once it is set. A signal between Python's last check and the system's wait would not end the
        wait, so it consists of short ones."""
        while not self.wait(SIGNAL_CHECK_S):
            pass

    def _handle(self, number: int, frame: object) -> None:
        # Not here: the signal may have interrupted `wait` while it holds the event's own lock, and `set`
        # would then deadlock. Starting a `threading.Thread` takes locks too; a bare thread takes none.
        _thread.start_new_thread(self.set, ())


def end_within(seconds: float) -> None:
    """End this process, which is stopping, at the latest then: a call to a store or a database may hang, and
    Python waits for some of its threads. What is not finished is rescued, as after a kill.
    """

    def end() -> None:
        time.sleep(seconds)
        log().warning("process.ended", reason="a call still hung when the process had to end")
        os._exit(0)

    threading.Thread(target=end, name="end", daemon=True).start()


def observe(settings: "Settings", process: str) -> None:
    """Let features observe this process from now on: an `api`, a `worker`, or the `serve` of several APIs.

    Raises OperatorError if one of them cannot.
    """
    from tenuto import logs
    from tenuto.feature import features

    for feature in features().values():
        if feature.observe:
            _listen(feature.name, feature.part(feature.observe))
    logs.tell("process.started", process=process, settings=settings, clock=clock)


def _listen(feature: str, observe: Callable[[str, Mapping[str, Any]], None]) -> None:
    """Tell a feature of events. One that fails costs nobody a job: the next event is told to it again."""
    from tenuto import logs

    failing = threading.local()

    def told(event: str, level: str, keys: Mapping[str, Any]) -> None:
        if hasattr(failing, "is_logged"):  # What is logged of a failure is told to the others only.
            return
        try:
            observe(event, keys)
        except OperatorError:
            raise
        except Exception as error:
            failing.is_logged = True
            logs.log_failure(log(), "feature.failed", error, feature=feature, part=f"observe {event}")
            del failing.is_logged

    logs.listen(told)


def arm_failpoints() -> None:
    """Arm failpoints, for tests only; the log shows a variable that was set by mistake."""
    text = os.environ.get(failpoints.VARIABLE, "")
    failpoints.arm(text)
    if text:
        log().warning("failpoints.armed", text=text)


def log() -> Any:
    """The logger, imported only by processes that log: the import takes as long as a whole short command."""
    from tenuto import logs

    logs.set_up_once()
    return logs.get_logger("tenuto")
