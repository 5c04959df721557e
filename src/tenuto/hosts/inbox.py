"""What a host says, sorted by run: whoever waits for a message reads, and a watchman while nobody waits.

It does not know what a message means, nor how a process is started or ended.
"""

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tenuto.hosts.host import HostLost
from tenuto.hosts.messages import Message, Segment, parse
from tenuto_host import wire

# What a run may leave unread before its engine has to wait.
UNREAD_LIMIT_BYTES = 64 << 20
UNREAD_LIMIT_MESSAGES = 1024
# Answers about no run that came too late for whoever asked; more are said unasked.
LATE_LIMIT = 64
# A reader looks up so often while a message that has begun does not go on.
STALL_S = 0.1
# The kernel counts milliseconds, up to 24 days of them.
LONGEST_WAIT_S = 3600.0
# The watchman looks so often whether somebody reads.
WATCH_S = 0.1


@dataclass
class _Unread:
    messages: deque[Message] = field(default_factory=deque)
    size_bytes: int = 0

    @property
    def is_full(self) -> bool:
        return self.size_bytes > UNREAD_LIMIT_BYTES or len(self.messages) > UNREAD_LIMIT_MESSAGES


class Inbox:
    """The messages of one host. Runs are known by id; "" stands for what is about no run.

    Handing each message from a reading thread to a waiting one would cost a short call a quarter of its time.
    """

    def __init__(self, connection: socket.socket) -> None:
        # Set once the process is gone and everything that it said has been taken in.
        self.lost: HostLost | None = None
        self._connection = connection
        timeout = struct.pack("ll", 0, round(STALL_S * 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        self._reader = wire.MessageReader(connection)
        lock = threading.Lock()
        # A message, a place, a loss.
        self._changed = threading.Condition(lock)
        # Nobody may be reading.
        self._unattended = threading.Condition(lock)
        self._unread: dict[str, _Unread] = {"": _Unread()}
        self._is_read = False
        # The watchman reads, or is about to.
        self._is_watched = False
        self._is_reaped = False
        # Nothing more comes; why, when that was a breach.
        self._is_over = False
        self._breach = ""
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._sources = select.poll()
        self._sources.register(connection, select.POLLIN)
        self._sources.register(self._bell, select.POLLIN)

    def wake(self) -> None:
        """Make everyone who waits here look again."""
        with self._changed:
            if self.lost is None:
                os.eventfd_write(self._bell, 1)
            self._changed.notify_all()
            self._unattended.notify()

    def reaped(self) -> None:
        """Note that the process is gone: what a full run leaves unread now is not waited for."""
        with self._changed:
            self._is_reaped = True
        self.wake()

    def forget_late(self) -> None:
        """Drop the answers about no run that nobody waits for any more."""
        with self._changed:
            self._unread[""].messages.clear()

    def has_runs(self) -> bool:
        with self._changed:
            return len(self._unread) > 1

    def open(self, run_id: str, places: int, until: float, given_up: Callable[[], bool]) -> bool:
        """Wait for one of the places and take it; False when time or wish is over. Raises HostLost."""
        with self._changed:
            while len(self._unread) > places and not given_up():
                left = until - time.monotonic()
                if self.lost is not None or left <= 0:
                    break
                self._changed.wait(left)
            if self.lost is not None:
                raise self._loss()
            if len(self._unread) > places or given_up():
                return False
            assert run_id not in self._unread, "a run's id is used once"
            self._unread[run_id] = _Unread()
            self._send_watchman_away()
            return True

    def close(self, run_id: str) -> None:
        """Give the run's place back; what the host still says about it is a breach of the protocol."""
        with self._changed:
            del self._unread[run_id]
            self._changed.notify_all()

    def receive(self, run_id: str, until: float, woken: Callable[[], bool]) -> Message | None:
        """Give the run's next message; None when the time is over or `woken` says so. Raises HostLost."""
        with self._changed:
            unread = self._unread[run_id]
            while not unread.messages:
                left = until - time.monotonic()
                if self.lost is not None:
                    raise self._loss()
                if woken() or left <= 0:
                    return None
                if self._may_read():
                    self._read(left)
                else:
                    self._send_watchman_away()
                    self._changed.wait(left)
            message = unread.messages.popleft()
            if isinstance(message, Segment):
                unread.size_bytes -= len(message.content)
            self._changed.notify_all()
            return message

    def watch(self) -> str:
        """Read while nobody waits for a message, until nothing more comes; give the breach, or ""."""
        with self._changed:
            while not self._is_over:
                self._unattended.wait(WATCH_S)
                self._is_watched = True
                while self._may_read() and self._read(None):
                    pass
                self._is_watched = False
                if self._is_reaped and self._is_full():
                    self._is_over = True
            return self._breach

    def end(self, lost: HostLost) -> None:
        """Tell everyone who waits here that the process is gone, after `watch`."""
        with self._changed:
            self.lost = lost
            os.close(self._bell)
            self._changed.notify_all()

    def wait_lost(self, timeout_s: float) -> HostLost:
        """Wait until a killed process is gone, and give what is known of its end."""
        with self._changed:
            self._changed.wait_for(lambda: self.lost is not None, timeout_s)
            return self._loss()

    def _loss(self) -> HostLost:
        """Give the loss as an exception of the asker's own: several threads may raise it."""
        lost = self.lost or HostLost("the engine's process was killed and has not ended yet")
        return HostLost(lost.message, exit_code=lost.exit_code, evidence=lost.evidence)

    def _send_watchman_away(self) -> None:
        if self._is_watched:
            os.eventfd_write(self._bell, 1)

    def _may_read(self) -> bool:
        return not (self._is_read or self._is_over or self._is_full())

    def _is_full(self) -> bool:
        """Whether a run leaves too much unread: then nobody reads, for what comes next may be about it."""
        return any(unread.is_full for run_id, unread in self._unread.items() if run_id)

    def _read(self, left_s: float | None) -> bool:
        """Read one message, with the lock given up; False when somebody rang, or nothing more comes."""
        try:
            with self._reading():
                is_rung, is_readable = self._wait(left_s)
                message = self._reader.read() if is_readable else None
                said = parse(*message) if message is not None else None
            if said is not None:
                self._keep(*said)
        except EOFError:
            self._is_over = True
        except ValueError as error:
            self._is_over, self._breach = True, f"broke the protocol: {error}"
        except OSError as error:
            self._is_over, self._breach = True, f"closed the connection: {error}"
        except MemoryError:
            self._is_over, self._breach = True, "said more than there is memory for"
        self._changed.notify_all()
        if self._is_over:
            self._unattended.notify()
        return not (self._is_over or is_rung)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        self._is_read = True
        self._changed.release()
        try:
            yield
        finally:
            self._changed.acquire()
            self._is_read = False

    def _wait(self, left_s: float | None) -> tuple[bool, bool]:
        """Wait for a message; whether somebody rang, and whether there is something to read."""
        limit_s = LONGEST_WAIT_S if left_s is None else min(left_s, LONGEST_WAIT_S)
        ready = [source for source, _ in self._sources.poll(limit_s * 1000)]
        is_rung = self._bell in ready
        if is_rung:
            os.eventfd_read(self._bell)
        return is_rung, len(ready) > is_rung

    def _keep(self, run_id: str, message: Message) -> None:
        unread = self._unread.get(run_id)
        if unread is None:
            raise ValueError(f"{type(message).__name__} for a run that is not under way")
        if not run_id and len(unread.messages) >= LATE_LIMIT:
            raise ValueError(f"{type(message).__name__} that nobody asked for")
        unread.messages.append(message)
        if isinstance(message, Segment):
            unread.size_bytes += len(message.content)
