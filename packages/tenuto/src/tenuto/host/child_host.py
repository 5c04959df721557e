"""A host as a child process of the worker: loading, runs, cancelling, and a new process after a loss.

Knows neither sockets and signals (`process.py`) nor the form of messages (`messages.py`).
"""

import functools
import itertools
import threading
import time
from typing import Any

from msgspec.structs import asdict

from tenuto.host import messages
from tenuto.host.host import (
    Cancellation,
    Cancelled,
    EngineFailed,
    EngineSpec,
    HostDeadline,
    HostDraining,
    HostLost,
    HostNotReady,
    HostResult,
    OnProgress,
    OnSegment,
    OnStart,
    OutcomeUnknown,
)
from tenuto.host.process import HostProcess, request, resident_bytes
from tenuto.logs import get_logger
from tenuto_engine import network, wire

_log = get_logger("tenuto.hosts")


class ChildHost:
    """Where one engine lives. Every method may be called from any thread."""

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._run_ids = itertools.count(1)
        # Held for a whole load, so that two callers do not start two processes.
        self._loading = threading.Lock()
        # Held briefly, around the two below.
        self._swapping = threading.Lock()
        self._process: HostProcess | None = None
        # Processes that finish the runs they have, beside the one above.
        self._replaced: list[HostProcess] = []
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether an engine is loaded and its process takes runs."""
        return self._usable() is not None

    @property
    def is_draining(self) -> bool:
        """Whether its process has a run that did not stop, and none can be started beside it now."""
        process = self._process
        return process is not None and process.is_draining and not self._has_spare()

    @property
    def pid(self) -> int | None:
        """The pid of the engine's process while there is one."""
        process = self._process
        if process is None or process.lost is not None:
            return None
        # In a pool, the pid on its node: our own child is then the driver.
        pid = process.info["pid"] if self._spec.ray is not None and process.info is not None else None
        return pid if isinstance(pid, int) else process.pid

    def load(self) -> dict[str, Any]:
        """Start the engine unless it is loaded, also after a loss. Returns its info.

        Raises HostNotReady; HostDraining if the engine is not at fault.
        """
        with self._loading:
            loaded = self._usable()
            if loaded is not None:
                return dict(loaded.info or {})
            if self._process is not None:
                self._see_out(self._process)
                loaded = self._usable()
                if loaded is not None:
                    return dict(loaded.info or {})
            until = time.monotonic() + self._spec.load_timeout_s
            began = time.monotonic()
            process = HostProcess(self._spec)
            with self._swapping:
                closed = self._closed
                self._process = process
            if closed:
                process.close()
                raise HostNotReady("this host was closed")
            try:
                info = dict(_load(process, self._spec, until))
                process.load_s = time.monotonic() - began
                return info
            except HostLost as lost:
                raise HostNotReady(f"not loaded: {lost.message}", evidence=lost.evidence) from lost
            finally:
                if process.info is None:
                    process.close()

    def run(
        self,
        parameters: dict[str, Any],
        inputs: dict[str, bytes],
        *,
        on_start: OnStart | None = None,
        on_segment: OnSegment,
        on_progress: OnProgress,
        deadline_s: float,
        cancelled: Cancellation | None = None,
        grace_s: float = 5.0,
        run_id: str = "",
    ) -> HostResult:
        """Do one run; all callbacks are called from this thread, `on_start` as soon as the run has a place.

        Once `cancelled` is set the engine is asked to stop; a result that it finishes within `grace_s` is
        still returned. What a callback raises stops the run in the same way and is raised here. A run that
        has not stopped by then, or by the deadline, is abandoned: its process takes no more runs, and is
        killed after the others unless that run has ended by then; what that run still sends is dropped.
        Raises EngineFailed, Cancelled, OutcomeUnknown, HostLost, HostDeadline, HostNotReady.
        """
        deadline_at = time.monotonic() + deadline_s
        process = self._usable()
        if process is None:
            raise HostNotReady("no engine is loaded")
        cancelled = cancelled or Cancellation()
        run_id = run_id or f"{process.pid}-{next(self._run_ids)}"
        with cancelled.calling(process.inbox.wake):
            _open(process, run_id, deadline_at, cancelled)
            run = _Run(process, run_id, deadline_at, grace_s, cancelled)
            try:
                if on_start is not None:
                    on_start()
                run.start(parameters, inputs)
                return run.follow(on_segment, on_progress)
            finally:
                if not run.ended:
                    process.leave_run(run_id, "was left by its caller")
                process.inbox.close(run_id)

    def resident_bytes(self) -> int | None:
        """What its processes take of this machine's memory; None if unknown, or there is no process."""
        process = self._process
        resident = resident_bytes(process.pid) if process is not None and process.lost is None else None
        if resident is None:
            return None
        beside = (resident_bytes(each.pid) or 0 for each in self._replaced if each.lost is None)
        return resident + sum(beside)

    def health(self, timeout_s: float = 2.0) -> dict[str, Any]:
        """Ask the process for its pid and the ids of its runs. Raises HostLost."""
        process = self._process
        if process is None or process.info is None:
            raise HostLost("no engine is loaded")
        answer = process.ask("health", time.monotonic() + timeout_s)
        if not isinstance(answer, messages.Health):
            raise HostLost(f"no answer in {timeout_s} s")
        return answer.info

    def close(self) -> None:
        """End its processes for good, and everything they started. A second call does nothing."""
        with self._swapping:
            self._closed = True
            processes = [*self._replaced, self._process]
        for process in processes:
            if process is not None:
                process.close()

    def _usable(self) -> HostProcess | None:
        """The process, if its engine is loaded, it takes runs, and it is not being ended."""
        process = self._process
        if process is None or process.info is None or process.is_ending or process.lost is not None:
            return None
        return None if process.is_draining else process

    def _has_spare(self) -> bool:
        with self._swapping:
            self._replaced = [process for process in self._replaced if process.lost is None]
            return len(self._replaced) < self._spec.spare_processes

    def _see_out(self, process: HostProcess) -> None:
        """Let the last process end, finish its runs beside the next one, or become usable again."""
        if process.is_draining and not process.is_ending:
            if not self._has_spare():
                if not process.wait_drained():
                    raise HostDraining("the engine's process ends its runs before another one is started")
            elif process.inbox.replace():
                with self._swapping:
                    self._replaced.append(process)
                return
        if self._usable() is None:
            _await_end(process)


class _Run:
    """One run that has a place in a process. `ended`: it ended or was abandoned, or the process is gone."""

    def __init__(
        self, process: HostProcess, run_id: str, deadline_at: float, grace_s: float, cancelled: Cancellation
    ) -> None:
        self.ended = False
        self._process = process
        self._run_id = run_id
        self._deadline_at = deadline_at
        # When the run is abandoned: the deadline, or the end of the grace.
        self._until = deadline_at
        self._grace_s = grace_s
        self._cancelled = cancelled
        # Why the run is no longer wanted: what to raise when it stops.
        self._unwanted: Exception | None = None

    def start(self, parameters: dict[str, Any], inputs: dict[str, bytes]) -> None:
        sizes = [[name, len(content)] for name, content in inputs.items()]
        header = {"type": "run", "run_id": self._run_id, "parameters": parameters, "inputs": sizes}
        try:
            self._process.send(header, list(inputs.values()), until=self._deadline_at)
        except HostLost as lost:
            if time.monotonic() < self._deadline_at:
                raise
            raise HostDeadline(lost.message, exit_code=lost.exit_code, evidence=lost.evidence) from lost

    def follow(self, on_segment: OnSegment, on_progress: OnProgress) -> HostResult:
        """Pass on the run's messages until its end."""
        while True:
            if self._asked_to_stop():
                self._stop(Cancelled(lost=False, shared=self._process.inbox.has_others(self._run_id)))
            message = self._next()
            if isinstance(message, messages.Ending):
                self.ended = True
                return self._conclude(message)
            if time.monotonic() >= self._until:
                self._expire()
            if self._unwanted is None:
                try:
                    if isinstance(message, messages.Segment):
                        on_segment(message.content, message.metadata)
                    elif isinstance(message, messages.Progress):
                        on_progress(asdict(message))
                except Exception as error:
                    self._stop(error)

    def _asked_to_stop(self) -> bool:
        return self._unwanted is None and self._cancelled.is_set()

    def _next(self) -> messages.Message | None:
        try:
            return self._process.inbox.receive(self._run_id, self._until, self._asked_to_stop)
        except HostLost as lost:
            raise self._after_loss(lost) from lost.__cause__

    def _stop(self, error: Exception) -> None:
        self._unwanted = error
        self._until = min(self._deadline_at, time.monotonic() + self._grace_s)
        self._cancel()

    def _cancel(self) -> None:
        try:
            self._process.cancel(self._run_id)
        except HostLost as lost:
            raise self._after_loss(lost) from lost.__cause__

    def _expire(self) -> None:
        late = self._unwanted is None
        if late and self._process.inbox.has_others(self._run_id):
            self._cancel()
        lost = self._process.leave_run(
            self._run_id, "passed its deadline" if late else "did not stop when asked"
        )
        if not late:
            raise self._after_loss(lost) from lost.__cause__
        self.ended = True
        raise HostDeadline(lost.message, exit_code=lost.exit_code, evidence=lost.evidence)

    def _after_loss(self, lost: HostLost) -> Exception:
        """What to raise; `lost` must not be its cause, since it may be `lost` itself."""
        self.ended = True
        if isinstance(self._unwanted, Cancelled):
            return Cancelled(lost=True, shared=self._unwanted.shared, evidence=lost.evidence)
        return self._unwanted or lost

    def _conclude(self, ending: messages.Ending) -> HostResult:
        if self._unwanted is not None and not isinstance(self._unwanted, Cancelled):
            raise self._unwanted
        match ending:
            case messages.Finished(media_type, metadata, duration_ms, content):
                return HostResult(media_type, content, metadata, duration_ms)
            case messages.Unknown(message):
                raise OutcomeUnknown(message)
            case messages.Failed(code, message, transient, public) if self._unwanted is None:
                raise EngineFailed(code, message, transient, public=public)
        raise self._unwanted or Cancelled(lost=False)


def _await_end(before: HostProcess) -> None:
    """Wait until an engine's last process is gone: the next one may not fit beside it."""
    before.wait_lost()
    if before.lost is None:
        raise HostNotReady("the engine's last process has not ended yet")


def _load(process: HostProcess, spec: EngineSpec, until: float) -> dict[str, Any]:
    """Await a started host's greeting and have its engine loaded."""
    hello = _expect(process, until, spec)
    if not isinstance(hello, messages.Hello):
        raise _refused(process, "it did not greet")
    if hello.protocol != wire.PROTOCOL:
        raise _refused(process, f"it speaks protocol {hello.protocol}, we speak {wire.PROTOCOL}")
    process.send(request(spec, until - time.monotonic()), until=until)
    match _expect(process, until, spec):
        case messages.Loaded(info):
            if not spec.network and info.get("network", network.NONE) != network.NONE:
                _warn_network(str(info["network"])[:300])
            process.concurrency = info["concurrency"]
            process.info = info
            return info
        case messages.Failed(code, message):
            process.kill("could not load")
            evidence = process.wait_lost().evidence
            raise HostNotReady(f"{spec.engine} did not load: {message}", code=code, evidence=evidence)
    raise _refused(process, "it answered something else")


@functools.cache
def _warn_network(reason: str) -> None:
    """Log, once, why the kernel lets engines that call no server open sockets."""
    _log.warning("host.network_open", reason=reason)


def _expect(process: HostProcess, until: float, spec: EngineSpec) -> messages.Message:
    message = process.inbox.receive("", until, lambda: False)
    if message is None:
        raise _refused(process, f"it was not loaded in {spec.load_timeout_s} s")
    return message


def _refused(process: HostProcess, why: str) -> HostNotReady:
    process.kill("was refused")
    return HostNotReady(f"the host was refused: {why}", evidence=process.wait_lost().evidence)


def _open(process: HostProcess, run_id: str, deadline_at: float, cancelled: Cancellation) -> None:
    """Take a place for a run; if this fails, nothing was run."""
    try:
        opened = process.open(run_id, deadline_at, cancelled.is_set)
    except HostLost as lost:
        raise HostNotReady(lost.message, evidence=lost.evidence) from lost
    if not opened and cancelled.is_set():
        raise Cancelled(lost=False)
    if not opened and time.monotonic() < deadline_at:
        raise HostDraining("the engine's process takes no more runs")
    if not opened:
        raise HostNotReady("the engine was busy until the deadline")
