"""What a host takes and returns: an engine's specification, a result, errors, the switch that stops a run.

Nothing here knows jobs, leases or money: a host runs, the worker decides what its errors mean.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from msgspec import Struct, field

from tenuto.config import RaySettings

OnStart = Callable[[], None]
OnSegment = Callable[[bytes, dict[str, Any]], None]
OnProgress = Callable[[dict[str, Any]], None]


class EngineSpec(Struct, frozen=True):
    """Which engine to start, and with what."""

    # "module:Class"; the module is one of `folder`, or is found through `path` if that is given, or, if
    # `installed`, is in a package of its own: the interpreter has it, or it is beside us in `folder`.
    engine: str
    # The Python that has the engine's libraries.
    interpreter: str
    # Passed to the class; "weights" maps names to paths.
    options: dict[str, Any] = field(default_factory=dict)
    path: str = ""
    installed: bool = False
    # Beside us, passed along so that the interpreter need not have the package installed.
    folder: str = ""
    # Added to the few variables that a host inherits; the only way in for a secret.
    env: Mapping[str, str] = field(default_factory=dict)
    # It calls a server. Any other engine's process can open no socket, where the kernel allows that.
    network: bool = False
    # From the start of the process until the weights are loaded.
    load_timeout_s: float = 120.0
    # Where its process runs, if that is a node of a Ray pool and not this machine.
    ray: RaySettings | None = None
    # How many processes in which a run does not stop may finish their other runs beside a fresh one. 0 where
    # each would hold a model of its own: then there is one at a time.
    spare_processes: int = 0


class HostResult(Struct, frozen=True):
    """What a run produced. Types are checked; the content of the bytes is not."""

    media_type: str
    content: bytes
    metadata: dict[str, Any]
    duration_ms: int | None


def storable(text: str) -> str:
    """An engine's text without U+0000, which PostgreSQL does not store."""
    return text.replace("\0", "\ufffd")


class HostError(Exception):
    """A run or a load that did not produce what was asked for."""

    def __init__(self, message: str, *, evidence: str = "") -> None:
        self.message = storable(message)
        # The last of what the engine wrote to stdout and stderr. May hold a caller's text: never log it.
        self.evidence = storable(evidence)
        super().__init__(self.message)


class EngineFailed(HostError):
    """The engine refused or failed this run; the host is warm and usable."""

    def __init__(self, code: str, message: str, transient: bool, *, public: bool = False) -> None:
        self.code = code
        # The engine wrote the message for callers; any other is for operators only.
        self.public = public
        # The engine believes that trying again may help.
        self.transient = transient
        super().__init__(message)


Blame = Literal["run", "shared", "service"]
"""Who may be to blame for a loss: the run, which was alone in its process; any run that shared it; or us,
having ended the process for a reason that has nothing to do with this run."""


class Cancelled(HostError):
    """The run was asked to stop and has stopped, or was abandoned because it did not."""

    def __init__(self, *, lost: bool, shared: bool = False, evidence: str = "") -> None:
        # How it ended is unknown, and so is the outcome of a metered call.
        self.lost = lost
        # Other runs were in its process when it was asked to stop.
        self.shared = shared
        super().__init__("the run was cancelled", evidence=evidence)


class OutcomeUnknown(HostError):
    """A metered engine cannot say whether its call was carried out; the host is warm and usable."""


class HostLost(HostError):
    """The process ended, or broke the protocol, during the run: whether it was carried out is unknown."""

    def __init__(
        self, message: str, *, exit_code: int | None = None, evidence: str = "", blame: Blame = "run"
    ) -> None:
        # As in subprocess: negative for a signal; None if there is no process of ours to ask.
        self.exit_code = exit_code
        self.blame = blame
        super().__init__(message, evidence=evidence)


class HostDeadline(HostLost):
    """The run did not end in time. Its process was killed, or takes no more runs."""


class HostNotReady(HostError):
    """No engine is loaded: it could not be started, or it ended before this run. Nothing was run."""

    def __init__(self, message: str, *, code: str = "engine_not_ready", evidence: str = "") -> None:
        # The engine's own code, if its load failed with one.
        self.code = code
        super().__init__(message, evidence=evidence)


class HostDraining(HostNotReady):
    """Nothing is wrong with the engine: its process finishes the runs it has, and takes no other."""


class Cancellation:
    """A switch that is set once, from any thread, and wakes all waiters at once.

    threading.Event cannot be waited for together with anything else; this can.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._watchers: list[Callable[[], None]] = []

    def set(self) -> None:
        """Ask every run that was given this switch to stop. Never blocks."""
        with self._lock:
            self._set = True
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher()

    def is_set(self) -> bool:
        return self._set

    @contextmanager
    def calling(self, watcher: Callable[[], None]) -> Iterator[None]:
        """While the block lasts, `set` calls `watcher`, from the setting thread; it must be quick."""
        with self._lock:
            self._watchers.append(watcher)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(watcher)
