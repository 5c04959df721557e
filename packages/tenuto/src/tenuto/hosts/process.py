"""One process of a host, from its start to its end: the messages to and from it, and what it left behind.

It does not know what a run means, nor that another process may follow this one.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tenuto.hosts.environment import command, variables
from tenuto.hosts.host import Blame, EngineSpec, HostLost, HostNotReady
from tenuto.hosts.inbox import Inbox
from tenuto.hosts.messages import Message
from tenuto_engine import wire

EVIDENCE_BYTES = 8 << 10
# A host that takes nothing for so long has no thread left that listens.
SEND_STALL_S = 10.0
# From a killing signal to the end of the process; a driver in the kernel may hold it longer.
REAP_S = 5.0
# From asking a driver to end its engine until the driver is killed.
DRIVER_GRACE_S = 1.5
# From the request to end until the process is killed.
CLOSE_GRACE_S = 1.0
# An engine that loads faster is killed at once when its last run does not stop. One that loads more slowly
# has as long as its load took, up to so long: to load it again would take everybody longer.
SHORT_LOAD_S = 10.0
LONGEST_PATIENCE_S = 60.0
# Where no process may stand beside one that drains, it is ended after this time, with the runs it still has.
DRAIN_S = 600.0

# The kernel ends a child with the thread that started it (PR_SET_PDEATHSIG), so that one must last.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tenuto-spawn")


class HostProcess:
    """A started host. Runs are known by id; "" stands for what is about no run."""

    def __init__(self, spec: EngineSpec, on_line: Callable[[str], None] | None) -> None:
        self.concurrency = 1
        # Set by whoever loads the engine, once; None until then.
        self.info: dict[str, Any] | None = None
        # How long its load took.
        self.load_s = 0.0
        self._on_line = on_line
        self._drain_s = None if spec.spare_processes else DRAIN_S
        # A driver's engine is on another machine, perhaps; it is asked once to end it.
        self._ends_others = spec.ray is not None
        self._asked = False
        # Set when somebody begins to end it, or it began itself; the end may take a while.
        self.is_ending = False
        # Why we ended it, when it was us.
        self._reason = ""
        # Nothing that a run did was the cause.
        self._is_blameless = False
        self._reaping = threading.Lock()
        self._sending = threading.Lock()
        # Runs to be cancelled, until somebody has sent that.
        self._cancels: deque[str] = deque()
        self._evidence = b""
        self._connection, theirs = socket.socketpair()
        for end in (self._connection, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wire.SOCKET_BUFFER_BYTES)
        try:
            self._popen = _SPAWNER.submit(_start, spec, theirs.fileno()).result()
        except (OSError, ValueError) as error:
            self._connection.close()
            raise HostNotReady(f"cannot start {spec.interpreter}: {error}") from error
        finally:
            theirs.close()
        self._inbox = Inbox(self._connection)
        self._waiter = threading.Thread(target=self._wait, name="host-wait", daemon=True)
        self._drain = threading.Thread(target=self._collect, name="host-output", daemon=True)
        for thread in (self._waiter, self._drain):
            thread.start()
        threading.Thread(target=self._listen, name="host-listen", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def lost(self) -> HostLost | None:
        """Set once the process is gone and everything that it sent has been taken in."""
        return self._inbox.lost

    def wake(self) -> None:
        """Make everyone who waits here look again."""
        self._inbox.wake()

    @property
    def is_draining(self) -> bool:
        """Whether it lives and takes no run, because one that its caller has left is still under way."""
        return self.lost is None and self._inbox.has_left_runs()

    def open(self, run_id: str, until: float, given_up: Callable[[], bool]) -> bool:
        """Wait for a place for a run and take it; False when time or wish is over, or it takes no more.

        Raises HostLost.
        """
        opened = self._inbox.open(run_id, self.concurrency, until, given_up)
        if opened and self.is_ending:
            self._inbox.close(run_id)
            raise self.wait_lost()
        return opened

    def close_run(self, run_id: str) -> None:
        """Give the run's place back; what it still says is a breach of the protocol."""
        self._inbox.close(run_id)

    def leave_run(self, run_id: str, reason: str) -> HostLost:
        """Wait no longer for a run that does not end. The process is killed for it, but under nobody else."""
        others, is_first = self._inbox.leave(run_id)
        patience_s = min(self.load_s, LONGEST_PATIENCE_S) if self.load_s > SHORT_LOAD_S else 0.0
        if not others and not patience_s:
            self.kill(reason)
            return self.wait_lost()
        if is_first:
            threading.Thread(target=self._drain_runs, args=(reason, patience_s), daemon=True).start()
        return HostLost(f"the run {reason}", evidence=self._tail())

    def has_others(self, run_id: str) -> bool:
        """Whether another run is under way beside this one."""
        return self._inbox.has_others(run_id)

    def replace(self) -> bool:
        """Have it end after the runs it has; False when it is of use again."""
        return self._inbox.replace()

    def wait_drained(self) -> bool:
        """Wait while it only has runs that were left; False when it goes on draining."""
        return self._inbox.wait_drained(LONGEST_PATIENCE_S + REAP_S)

    def send(self, header: dict[str, Any], body: Sequence[bytes] = (), *, until: float) -> None:
        """Send one message. A host that does not take it in time is killed. Raises HostLost."""
        pieces = wire.encode(header, body)
        with self._sending:
            is_sent = self._send_all(pieces, until)
        if not is_sent:
            raise self.wait_lost()
        self._send_cancels()

    def cancel(self, run_id: str) -> None:
        """Ask a run to stop. Raises HostLost.

        While another message is being sent, which may be a recording of hundreds of megabytes, whoever sends
        that one does this next, and the run that is cancelled does not wait for it.
        """
        self._cancels.append(run_id)
        self._send_cancels()

    def receive(self, run_id: str, until: float, woken: Callable[[], bool]) -> Message | None:
        """Give the run's next message; None when the time is over or `woken` says so. Raises HostLost."""
        return self._inbox.receive(run_id, until, woken)

    def ask(self, question: str, until: float) -> Message | None:
        """Ask about no run, and give the answer; None when the time is over. Raises HostLost."""
        self._inbox.forget_late()
        self.send({"type": question}, until=until)
        return self.receive("", until, lambda: False)

    def kill(self, reason: str, *, is_blameless: bool = False) -> None:
        """End the process, and those that it started, now. The first reason is kept."""
        self.is_ending = True
        with self._reaping:
            self._note(reason, is_blameless=is_blameless)
            if self._popen.returncode is None and self._ends_others and not self._asked:
                # A driver ends the engine on its node first; killed at once, it would leave that to the pool.
                self._asked = True
                self._popen.terminate()
                later = threading.Timer(DRIVER_GRACE_S, self._kill_now)
                later.daemon = True
                later.start()
            elif self._popen.returncode is None and not self._ends_others:
                _kill_group(self._popen.pid)

    def _kill_now(self) -> None:
        with self._reaping:
            if self._popen.returncode is None:
                _kill_group(self._popen.pid)

    def wait_lost(self) -> HostLost:
        """Wait until a killed process is gone, and give what is known of its end."""
        return self._inbox.wait_lost(REAP_S)

    def close(self) -> None:
        """Ask an idle process to end, kill it otherwise; then nothing of it is left."""
        self.is_ending = True
        with self._reaping:
            self._note("was closed", is_blameless=True)
        if self.info is not None and not self._inbox.has_runs():
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            self._inbox.wait_lost(CLOSE_GRACE_S)
        self.kill("was closed")
        self.wait_lost()

    def _drain_runs(self, reason: str, patience_s: float) -> None:
        if not self._inbox.drain(self._drain_s, patience_s):
            self.kill(reason, is_blameless=True)

    def _note(self, reason: str, *, is_blameless: bool) -> None:
        if not self._reason:
            self._reason, self._is_blameless = reason, is_blameless

    def _send_cancels(self) -> None:
        is_sent = True
        while self._cancels and self._sending.acquire(blocking=False):
            try:
                # A process that takes no message at all is lost to everybody; how long it has for that is not
                # for one run to say.
                until = time.monotonic() + SEND_STALL_S
                while is_sent and self._cancels:
                    header = {"type": "cancel", "run_id": self._cancels.popleft()}
                    is_sent = self._send_all(wire.encode(header), until)
            finally:
                self._sending.release()
            if not is_sent:
                raise self.wait_lost()

    def _send_all(self, encoded: Sequence[bytes], until: float) -> bool:
        """Send a message, while no other is being sent; kill a host that does not take it in time."""
        pieces = [memoryview(piece) for piece in encoded]
        try:
            while pieces:
                sent = self._send_some(pieces, until)
                while pieces and sent >= len(pieces[0]):
                    sent -= len(pieces.pop(0))
                if pieces:
                    pieces[0] = pieces[0][sent:]
        except TimeoutError:
            self.kill("took no message")
        except OSError:
            self.kill("closed the connection")
        return not pieces

    def _send_some(self, pieces: Sequence[memoryview], until: float) -> int:
        while True:
            try:
                return self._connection.sendmsg(pieces[:16], [], socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait_writable(min(SEND_STALL_S, until - time.monotonic()))

    def _wait_writable(self, left_s: float) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLOUT)
        if left_s <= 0 or not poll.poll(left_s * 1000):
            raise TimeoutError

    def _listen(self) -> None:
        """Read what the host sends until it ends or breaks the protocol; then see to its end."""
        self.kill(self._inbox.read())
        self._waiter.join()
        # A process that left the group may still hold the pipe.
        self._drain.join(REAP_S)
        with self._sending:
            self._connection.close()
        self._inbox.end(self._obituary())

    def _wait(self) -> None:
        """Reap the process, and end what it started before its number can be given to another."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
        with self._reaping:
            _kill_group(self._popen.pid)
            self._popen.wait()
        # A process that left the group may hold the other end: what was said is read, then it is the end.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)
        self._inbox.reaped()

    def _collect(self) -> None:
        """Keep the last of what the engine prints."""
        assert self._popen.stdout is not None
        with self._popen.stdout as output:
            line = b""
            while block := os.read(output.fileno(), 1 << 16):
                self._evidence = (self._evidence + block)[-EVIDENCE_BYTES:]
                if self._on_line is not None:
                    *lines, line = (line + block).split(b"\n")
                    line = line[-EVIDENCE_BYTES:]
                    for whole in lines:
                        self._on_line(whole.decode("utf-8", "replace"))

    def _obituary(self) -> HostLost:
        exit_code = self._popen.returncode
        what = f"ended with exit code {exit_code}"
        if exit_code < 0:
            with contextlib.suppress(ValueError):
                what = f"ended by {signal.Signals(-exit_code).name}"
        reason = f" after it {self._reason}" if self._reason else ""
        blame: Blame = "service" if self._is_blameless else "shared" if self._inbox.was_shared else "run"
        message = f"the engine's process {what}{reason}"
        return HostLost(message, exit_code=exit_code, evidence=self._tail(), blame=blame)

    def _tail(self) -> str:
        return self._evidence.decode("utf-8", "replace")


def _start(spec: EngineSpec, fd: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(spec, fd),
        env=variables(spec, os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(fd,),
        # Ctrl-C in the worker's terminal is the worker's to handle; and a group can be killed as one.
        start_new_session=True,
    )


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
