"""What a host sends: checked on arrival, and queued for the run that it is about.

A host is not trusted: a message that is not listed here ends it. One thread reads the messages into a queue
for each run, from which that run's caller takes them. Does not know how a process is started or ended.
"""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from tenuto.host.host import HostLost
from tenuto_engine import wire

NAME_LIMIT = 255
MESSAGE_LIMIT = 4000
# Larger integers do not survive JSON in browsers, nor fit a signed 64-bit column once added up.
INTEGER_LIMIT = 1 << 53
# What a run may leave unread before its engine has to wait.
UNREAD_LIMIT_BYTES = 64 << 20
UNREAD_LIMIT_MESSAGES = 1024
# Answers about no run that may have come too late; more than this cannot have been asked for.
LATE_LIMIT = 64


class Malformed(ValueError):
    """A message that a host may not send."""


_Name = Annotated[str, Meta(max_length=NAME_LIMIT)]
_Text = Annotated[str, Meta(max_length=MESSAGE_LIMIT)]
_Count = Annotated[int, Meta(ge=0, lt=INTEGER_LIMIT)]


class Hello(Struct, tag="hello"):
    """The first message; sent before the engine is imported."""

    protocol: _Count
    python: _Name


class Loaded(Struct, tag="loaded"):
    """The engine is ready; `info["concurrency"]` is how many runs it takes at once."""

    info: dict[str, Any]

    def __post_init__(self) -> None:
        convert(self.info.get("concurrency"), Annotated[int, Meta(ge=1, lt=INTEGER_LIMIT)])


class Health(Struct, tag="health"):
    info: dict[str, Any]


class Segment(Struct, tag="segment"):
    metadata: dict[str, Any]
    content: bytes = b""
    """The message's body."""


class Progress(Struct, tag="progress"):
    stage: _Name
    completed: _Count
    total: _Count
    unit: _Name


class Failed(Struct, tag="failed"):
    """The end of a run, or of a load."""

    code: _Name
    message: _Text
    transient: bool
    public: bool = False
    """The message was written for callers."""


class Stopped(Struct, tag="cancelled"):
    """The end of a run that was asked to stop."""


class Unknown(Struct, tag="unknown"):
    """The end of a metered run whose outcome the engine does not know."""

    message: _Text


class Finished(Struct, tag="result"):
    """The end of a run that went well."""

    media_type: _Name
    metadata: dict[str, Any]
    duration_ms: _Count | None = None
    content: bytes = b""
    """The message's body."""

    def __post_init__(self) -> None:
        if "/" not in self.media_type or not self.media_type.isprintable():
            raise ValueError("media_type is not one")


Ending = Failed | Stopped | Unknown | Finished
Message = Hello | Loaded | Health | Segment | Progress | Ending


def parse(header: dict[str, Any], body: bytes) -> tuple[str, Message]:
    """Return the id of the run that a message is about ("" for none) and the message. Raises Malformed."""
    try:
        message: Message = convert(header, Message)
        run_id = convert(header.get("run_id", ""), _Name)
    except (ValidationError, UnicodeEncodeError) as error:
        raise Malformed(str(error)[:NAME_LIMIT]) from error
    if body and not isinstance(message, Segment | Finished):
        raise Malformed(f"{type(message).__name__} with a body")
    may_be_about_none = isinstance(message, Hello | Loaded | Health | Failed)
    may_be_about_a_run = isinstance(message, Segment | Progress | Ending)
    if not (may_be_about_a_run if run_id else may_be_about_none):
        raise Malformed(f"{type(message).__name__} about the run {run_id!r}")
    if isinstance(message, Segment | Finished):
        message.content = body
    return run_id, message


class _Queue:
    """The messages of one run that have not been received yet."""

    def __init__(self, lock: threading.Lock, *, is_left: bool = False) -> None:
        self.messages: deque[Message] = deque()
        self.size_bytes = 0
        # Its caller has abandoned it: what it sends is dropped, and its place is free once it has ended.
        self.is_left = is_left
        # Notified when a message arrives, and when a waiter has to check something else.
        self.arrived = threading.Condition(lock)

    @property
    def is_full(self) -> bool:
        return self.size_bytes > UNREAD_LIMIT_BYTES or len(self.messages) > UNREAD_LIMIT_MESSAGES


class Inbox:
    """The messages of one host. Runs are identified by id; "" stands for what is about no run."""

    def __init__(self, connection: socket.socket) -> None:
        # Set once the process is gone and everything that it sent has been read.
        self.lost: HostLost | None = None
        # More than one run was under way when the process ended.
        self.was_shared = False
        self._connection = connection
        self._lock = threading.Lock()
        # Notified when a run opens or ends, and at the loss of the process.
        self._changed = threading.Condition(self._lock)
        # Notified when the reader, which waits while a queue is full, has to look again.
        self._has_space = threading.Condition(self._lock)
        self._queues = {"": _Queue(self._lock)}
        self._is_reaped = False
        # A thread awaits the end of the abandoned runs.
        self._is_draining = False
        # Another process has taken over: this one is not needed after its last run.
        self._is_replaced = False

    def wake(self) -> None:
        """Make all waiters look again."""
        with self._lock:
            self._wake()

    def reaped(self) -> None:
        """Note that the process is gone: the reader no longer waits for space in a full queue."""
        with self._lock:
            self._is_reaped = True
            self._has_space.notify()

    def forget_late(self) -> None:
        """Drop late answers about no run, which nobody waits for any longer."""
        with self._lock:
            self._queues[""].messages.clear()

    def has_runs(self) -> bool:
        with self._lock:
            return len(self._queues) > 1

    def has_left_runs(self) -> bool:
        """Whether an abandoned run is still under way: no other is taken meanwhile."""
        return any(queue.is_left for queue in list(self._queues.values()))

    def has_others(self, run_id: str) -> bool:
        """Whether any other run is under way, abandoned ones included."""
        with self._lock:
            return any(other not in ("", run_id) for other in self._queues)

    def open(self, run_id: str, places: int, until: float, given_up: Callable[[], bool]) -> bool:
        """Wait for a place and take it; False if time is up, the caller gave up, or there will be none.

        Raises HostLost.
        """
        with self._lock:
            while len(self._queues) > places and not given_up() and not self.has_left_runs():
                left = until - time.monotonic()
                if self.lost is not None or left <= 0:
                    break
                self._changed.wait(left)
            if self.lost is not None:
                raise self._loss()
            if len(self._queues) > places or given_up() or self.has_left_runs() or self._is_replaced:
                return False
            assert run_id not in self._queues, "a run's id is used once"
            self._queues[run_id] = _Queue(self._lock)
            return True

    def close(self, run_id: str) -> None:
        """Free its place, unless it was abandoned or has ended since; what it still sends is a breach."""
        with self._lock:
            if run_id in self._queues and not self._queues[run_id].is_left:
                del self._queues[run_id]
            self._changed.notify_all()
            self._has_space.notify()

    def leave(self, run_id: str) -> tuple[bool, bool]:
        """Abandon a run. Returns whether other runs are wanted, and whether none was abandoned before."""
        with self._lock:
            is_first = not self._is_draining
            self._queues[run_id] = _Queue(self._lock, is_left=True)
            self._is_draining = True
            self._changed.notify_all()
            self._has_space.notify()
            return self._has_wanted(), is_first

    def replace(self) -> bool:
        """Take no more runs, even once the abandoned ones have ended; False: they have, and it is usable."""
        with self._lock:
            self._is_replaced = self._is_draining
            return self._is_replaced

    def drain(self, wait_s: float | None, patience_s: float) -> bool:
        """Wait until the abandoned runs have ended; returns whether the process is usable again.

        False after `wait_s`, or once only abandoned runs have been under way for `patience_s`.
        """
        with self._lock:
            self._changed.wait_for(lambda: self._is_drained() or not self._has_wanted(), wait_s)
            if not self._has_wanted():
                self._changed.wait_for(lambda: self.lost or not self.has_left_runs(), patience_s)
            self._is_draining = not self._is_drained()
            self._changed.notify_all()
            return not self._is_draining

    def wait_drained(self, timeout_s: float) -> bool:
        """Wait while only abandoned runs are under way; False if the process is still draining."""
        with self._lock:

            def is_decided() -> bool:
                return self.lost is not None or not self._is_draining or self._has_wanted()

            self._changed.wait_for(is_decided, timeout_s)
            return self.lost is not None or not self._is_draining

    def receive(self, run_id: str, until: float, woken: Callable[[], bool]) -> Message | None:
        """Return the run's next message; None if time is up or `woken` returns true. Raises HostLost."""
        with self._lock:
            queue = self._queues[run_id]
            while not queue.messages:
                left = until - time.monotonic()
                if self.lost is not None:
                    raise self._loss()
                if woken() or left <= 0:
                    return None
                queue.arrived.wait(left)
            message = queue.messages.popleft()
            if isinstance(message, Segment):
                queue.size_bytes -= len(message.content)
            self._has_space.notify()
            return message

    def read(self) -> str:
        """Sort what the host sends until nothing more comes; returns the breach, or "". For one reader."""
        breach = ""
        try:
            while self._wait_for_space() and self._read_one():
                pass
        except ValueError as error:
            breach = f"broke the protocol: {error}"
        except OSError as error:
            breach = f"closed the connection: {error}"
        except MemoryError:
            breach = "sent more than there is memory for"
        with self._lock:
            self.was_shared = len(self._queues) > 2
        return breach

    def end(self, lost: HostLost) -> None:
        """Wake all waiters because the process is gone; called after `read`."""
        with self._lock:
            self.lost = lost
            self._wake()

    def wait_lost(self, timeout_s: float) -> HostLost:
        """Wait until a killed process is gone, and return what is known of its end."""
        with self._lock:
            self._changed.wait_for(lambda: self.lost is not None, timeout_s)
            return self._loss()

    def _loss(self) -> HostLost:
        """The loss as a new exception for each caller: several threads may raise it."""
        lost = self.lost or HostLost("the engine's process was killed and has not ended yet")
        return HostLost(lost.message, exit_code=lost.exit_code, evidence=lost.evidence, blame=lost.blame)

    def _has_wanted(self) -> bool:
        return any(run_id and not queue.is_left for run_id, queue in self._queues.items())

    def _is_drained(self) -> bool:
        if self.lost is not None:
            return True
        return not (self._is_replaced or self.has_left_runs())

    def _wake(self) -> None:
        self._changed.notify_all()
        for queue in self._queues.values():
            queue.arrived.notify_all()

    def _wait_for_space(self) -> bool:
        """Wait while a run leaves too much unread: the next message may be about it. False: it stays full."""
        with self._lock:
            self._has_space.wait_for(lambda: self._is_reaped or not self._is_full())
            return not self._is_full()

    def _is_full(self) -> bool:
        return any(queue.is_full for run_id, queue in self._queues.items() if run_id)

    def _read_one(self) -> bool:
        """Read and sort a message; False at the end. Keeps no reference to it, as it may be 512 MiB."""
        message = wire.read_message(self._connection)
        if message is None:
            return False
        self._sort(*parse(*message))
        return True

    def _sort(self, run_id: str, message: Message) -> None:
        with self._lock:
            queue = self._queues.get(run_id)
            if queue is None:
                raise ValueError(f"{type(message).__name__} for a run that is not under way")
            if not run_id and len(queue.messages) >= LATE_LIMIT:
                raise ValueError(f"{type(message).__name__} that nobody asked for")
            if not queue.is_left:
                queue.messages.append(message)
                queue.size_bytes += len(message.content) if isinstance(message, Segment) else 0
                queue.arrived.notify_all()
            elif isinstance(message, Ending):
                del self._queues[run_id]
                self._changed.notify_all()
