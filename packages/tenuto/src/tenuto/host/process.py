"""One process of a host, from its start to its end: its command and variables, its messages, its last output.

Knows neither what a run means nor that another process may follow this one.
"""

import contextlib
import fnmatch
import functools
import importlib.util
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

import tenuto_engine
from tenuto.host.host import Blame, EngineSpec, HostLost, HostNotReady
from tenuto.host.messages import Inbox, Message
from tenuto_engine import network, wire

EVIDENCE_BYTES = 8 << 10
# A host that accepts nothing for this long has no listening thread left.
SEND_STALL_S = 10.0
# From a killing signal to the end of the process; a driver in the kernel may hold it longer.
REAP_S = 5.0
# From asking a driver to end its engine until the driver is killed.
DRIVER_GRACE_S = 1.5
# From the request to end until the process is killed.
CLOSE_GRACE_S = 1.0
# An engine that loads faster is killed at once when its last run does not stop. One that loads more slowly
# has as long as its load took, up to this limit: loading it again would take everybody longer.
SHORT_LOAD_S = 10.0
LONGEST_PATIENCE_S = 60.0
# If no other may run beside a draining process, that is ended after this time, with the runs it still has.
DRAIN_S = 600.0

# An engine is code that we did not write: it sees only these variables of ours, so no secret by accident.
INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("CUDA*", "NCCL_*", "HIP_*", "ROCR_*", "HSA_*", "PYTORCH_*"),
    # Not every NVIDIA_*: NVIDIA's API keys begin like that, too.
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_*", "NVIDIA_TF32_OVERRIDE"),
    *("TORCH_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE"),
    *("OMP_*", "MKL_*", "OPENBLAS_*", "KMP_*", "GOMP_*", "NUMEXPR_*"),
)

# Models bring threads of their own. numpy's beside them spin while waiting for each other: on a busy machine,
# small matrices then take ten times the processor time. An operator's own setting overrides ours.
DEFAULTS = {"OPENBLAS_NUM_THREADS": "1"}

# How a Ray pool is reached: addresses, certificates, its token. For the driver, never for an engine.
DRIVER_INHERITED = ("RAY_*",)

HOSTS = "tenuto.hosts"
"""The entry point group of packages that provide a host other than a child process."""
WITHOUT_RAY = 'host = "ray" needs Ray beside Tenuto: pip install tenuto-ray'

HOST = Path(tenuto_engine.__file__ or "").parent
KIT = "tenuto_engine_kit"
"""What our engines share. It is located if it is installed, and never imported here."""

# The kernel kills a child when the thread that started it ends (PR_SET_PDEATHSIG), so this thread must last.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tenuto-spawn")


class HostProcess:
    """A started host. Runs are identified by id; "" stands for what is about no run."""

    def __init__(self, spec: EngineSpec) -> None:
        self.concurrency = 1
        # Set once the engine is loaded; None until then.
        self.info: dict[str, Any] | None = None
        self.load_s = 0.0  # How long its load took.
        self._drain_s = None if spec.spare_processes else DRAIN_S
        # A driver's engine may be on another machine; the driver is asked once to end it.
        self._ends_others = spec.ray is not None
        self._asked = False
        # Set once it is being ended or ends by itself; that may take a while.
        self.is_ending = False
        # Why we ended it, if we did.
        self._reason = ""
        # Nothing that a run did was the cause.
        self._is_blameless = False
        self._reaping = threading.Lock()
        self._sending = threading.Lock()
        # Runs to be cancelled, until that has been sent.
        self._cancels: deque[str] = deque()
        self._evidence = b""
        self._connection, theirs = socket.socketpair()
        for end in (self._connection, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wire.SOCKET_BUFFER_BYTES)
        self.inbox = Inbox(self._connection)
        self._waiter = threading.Thread(target=self._wait, name="host-wait", daemon=True)
        self._drain = threading.Thread(target=self._collect, name="host-output", daemon=True)
        listener = threading.Thread(target=self._listen, name="host-listen", daemon=True)
        try:
            self._popen = _SPAWNER.submit(_start, spec, theirs).result()
            for thread in (self._waiter, self._drain, listener):
                thread.start()
        except HostNotReady:
            self._connection.close()
            raise
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: the machine has no thread left.
            # A process that was started ends with the connection.
            self._connection.close()
            raise HostNotReady(f"cannot start {spec.interpreter}: {error}") from error
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def lost(self) -> HostLost | None:
        """Set once the process is gone and everything that it sent has been read."""
        return self.inbox.lost

    @property
    def is_draining(self) -> bool:
        """Whether it is alive but takes no run, because an abandoned one is still under way."""
        return self.lost is None and self.inbox.has_left_runs()

    def open(self, run_id: str, until: float, given_up: Callable[[], bool]) -> bool:
        """Wait for a place and take it; False if time is up, the caller gave up, or it takes no more runs.

        Raises HostLost.
        """
        opened = self.inbox.open(run_id, self.concurrency, until, given_up)
        if opened and self.is_ending:
            self.inbox.close(run_id)
            raise self.wait_lost()
        return opened

    def leave_run(self, run_id: str, reason: str) -> HostLost:
        """Abandon a run that does not end. The process is killed for it, but other runs may finish first."""
        others, is_first = self.inbox.leave(run_id)
        patience_s = min(self.load_s, LONGEST_PATIENCE_S) if self.load_s > SHORT_LOAD_S else 0.0
        if not others and not patience_s:
            self.kill(reason)
            return self.wait_lost()
        if is_first:
            try:
                threading.Thread(target=self._drain_runs, args=(reason, patience_s), daemon=True).start()
            except RuntimeError:  # The machine has no thread left to wait for the other runs.
                self.kill(reason, is_blameless=True)
        return HostLost(f"the run {reason}", evidence=self._tail())

    def wait_drained(self) -> bool:
        """Wait while it has only abandoned runs; False if it is still draining."""
        return self.inbox.wait_drained(LONGEST_PATIENCE_S + REAP_S)

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

        While another message is being sent, which may be a recording of hundreds of megabytes, its sender
        sends this one next, and the run that is cancelled does not wait for it.
        """
        self._cancels.append(run_id)
        self._send_cancels()

    def ask(self, question: str, until: float) -> Message | None:
        """Ask about no run, and return the answer; None if time is up. Raises HostLost."""
        self.inbox.forget_late()
        self.send({"type": question}, until=until)
        return self.inbox.receive("", until, lambda: False)

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
                try:
                    later.start()
                except RuntimeError:  # The machine has no thread left.
                    _kill_group(self._popen.pid)
            elif self._popen.returncode is None and not self._ends_others:
                _kill_group(self._popen.pid)

    def _kill_now(self) -> None:
        with self._reaping:
            if self._popen.returncode is None:
                _kill_group(self._popen.pid)

    def wait_lost(self) -> HostLost:
        """Wait until a killed process is gone, and return what is known of its end."""
        return self.inbox.wait_lost(REAP_S)

    def close(self) -> None:
        """End the process: ask it to, if it is idle, and kill what is left of it."""
        self.is_ending = True
        with self._reaping:
            self._note("was closed", is_blameless=True)
        if self.info is not None and not self.inbox.has_runs():
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            self.inbox.wait_lost(CLOSE_GRACE_S)
        self.kill("was closed")
        self.wait_lost()

    def _drain_runs(self, reason: str, patience_s: float) -> None:
        if not self.inbox.drain(self._drain_s, patience_s):
            self.kill(reason, is_blameless=True)

    def _note(self, reason: str, *, is_blameless: bool) -> None:
        if not self._reason:
            self._reason, self._is_blameless = reason, is_blameless

    def _send_cancels(self) -> None:
        is_sent = True
        while self._cancels and self._sending.acquire(blocking=False):
            try:
                # A process that takes no message at all is lost to all runs, so no single run's deadline
                # decides how long it has.
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
        self.kill(self.inbox.read())
        self._waiter.join()
        # A process that left the group may still hold the pipe.
        self._drain.join(REAP_S)
        with self._sending:
            self._connection.close()
        self.inbox.end(self._obituary())

    def _wait(self) -> None:
        """Wait for the end of the process, kill what it started, and only then free its pid by reaping it."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
        with self._reaping:
            _kill_group(self._popen.pid)
            self._popen.wait()
        # A process that left the group may hold the other end: what was sent is read, then comes the end.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)
        self.inbox.reaped()

    def _collect(self) -> None:
        """Keep the last of what the engine prints."""
        assert self._popen.stdout is not None
        with self._popen.stdout as output:
            while block := os.read(output.fileno(), 1 << 16):
                self._evidence = (self._evidence + block)[-EVIDENCE_BYTES:]

    def _obituary(self) -> HostLost:
        exit_code = self._popen.returncode
        what = f"ended with exit code {exit_code}"
        if exit_code < 0:
            with contextlib.suppress(ValueError):
                what = f"ended by {signal.Signals(-exit_code).name}"
        if exit_code == -signal.SIGILL:
            what += ": its libraries use instructions that this machine's processor lacks"
        reason = f" after it {self._reason}" if self._reason else ""
        blame: Blame = "service" if self._is_blameless else "shared" if self.inbox.was_shared else "run"
        message = f"the engine's process {what}{reason}"
        return HostLost(message, exit_code=exit_code, evidence=self._tail(), blame=blame)

    def _tail(self) -> str:
        return self._evidence.decode("utf-8", "replace")


def _start(spec: EngineSpec, theirs: socket.socket) -> subprocess.Popen[bytes]:
    # -1 once it is closed: a pool that has no thread keeps this call for later, when nobody waits for it.
    fd = theirs.fileno()
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


def resident_bytes(pid: int) -> int | None:
    """Resident bytes of the process and its descendants; None if unknown: not on Linux, or it is gone."""
    pages = 0
    pids = [pid]
    try:
        for each in pids:
            with contextlib.suppress(OSError) if each != pid else contextlib.nullcontext():
                pages += int((Path("/proc") / str(each) / "statm").read_text().split()[1])
                for task in (Path("/proc") / str(each) / "task").iterdir():
                    pids += [int(child) for child in (task / "children").read_text().split()]
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def command(spec: EngineSpec, fd: int) -> list[str]:
    """The command line that starts the host, or its driver, with its end of the socket pair as `fd`.

    Raises HostNotReady if there is no driver.
    """
    ends = ["--fd", str(fd), "--parent", str(os.getpid())]
    if spec.ray is not None:
        driver = ray_driver()
        if driver is None:
            raise HostNotReady(WITHOUT_RAY)
        return [sys.executable, "-u", "-m", driver, *ends]
    return [*_far_end(spec, str(HOST), spec.folder, travelling(spec)), *ends]


@functools.cache
def ray_driver() -> str | None:
    """The module of a Ray pool's driver, by its package's entry point; None without that package or Ray."""
    drivers = entry_points(group=HOSTS, name="ray")
    return next(iter(drivers)).module if drivers and importlib.util.find_spec("ray") else None


def variables(spec: EngineSpec, ours: Mapping[str, str]) -> dict[str, str]:
    """The host's environment: the few variables that it inherits from us, and the specification's own."""
    if spec.ray is not None:
        return {**_allowed(ours, (*INHERITED, *DRIVER_INHERITED)), **network.NO_REPORTS}
    return {**DEFAULTS, **_allowed(ours, INHERITED), **spec.env}


def request(spec: EngineSpec, left_s: float) -> dict[str, Any]:
    """The message that asks for the engine; for a driver, it also says where and how to start one."""
    load = {"type": "load", "options": spec.options}
    if spec.ray is None:
        return load
    own = {} if spec.path or spec.installed else {"engines": spec.folder}
    beside = travelling(spec)
    plan = {
        **asdict(spec.ray),
        "timeout_s": spec.load_timeout_s,
        "left_s": left_s,
        # {code} stands for the folder where the node unpacks these.
        "folders": {"tenuto_engine": str(HOST), **own, **beside},
        "arguments": _far_end(
            spec, "{code}/tenuto_engine", "{code}/engines", {name: "{code}/" + name for name in beside}
        ),
        "defaults": DEFAULTS,
        "variables": dict(spec.env),
        "patterns": list(INHERITED),
    }
    return {**load, "ray": plan}


def travelling(spec: EngineSpec) -> dict[str, str]:
    """The packages sent along with an engine, by name, each with its folder: its own, and the kit.

    So an interpreter needs only the model's libraries.
    """
    folders = {} if spec.path else {KIT: kit_folder()}
    if spec.installed and spec.folder:
        folders[spec.engine.partition(":")[0].partition(".")[0]] = spec.folder
    return {name: folder for name, folder in folders.items() if folder}


@functools.cache
def kit_folder() -> str:
    """Where the kit is installed beside us; "" if it is not."""
    kit = importlib.util.find_spec(KIT)
    return next(iter(kit.submodule_search_locations or ()), "") if kit is not None else ""


def _far_end(spec: EngineSpec, host: str, engines: str, packages: Mapping[str, str]) -> list[str]:
    location = ["--path", spec.path] if spec.path else [] if spec.installed else ["--package", engines]
    packed = [text for name, folder in packages.items() for text in ("--with", f"{name}={folder}")]
    open_network = ["--network"] if spec.network else []
    # -u: what the engine printed is there if it crashes.
    return [spec.interpreter, "-u", host, spec.engine, *location, *packed, *open_network]


def _allowed(ours: Mapping[str, str], patterns: tuple[str, ...]) -> dict[str, str]:
    return {
        name: text
        for name, text in ours.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
