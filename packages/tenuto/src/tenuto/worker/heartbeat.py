"""The heartbeat: reports that attempts are alive, writes their progress, and learns of cancellations.

It runs in a thread of its own, so that neither an engine nor a slow disk holds it up. If it dies, the
worker's attempts fall silent and are rescued: thanks to the fence, that costs work but never correctness.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.errors import Unavailable
from tenuto.host.host import Cancellation
from tenuto.job import queue
from tenuto.kind import operations as catalog
from tenuto.logs import get_logger, log_failure
from tenuto.worker.context import WorkerContext

CLOCK_JUMP_MS = 60_000
CLOCK_TRUST_S = 600.0
PROGRESS_S = 1.0
"""How often progress is written when there is any; otherwise only the heartbeat is."""

DEAF_S = 2.5
"""Silence is checked at least once a second; after a longer gap than this, it was we who stood still."""

_log = get_logger("tenuto.worker")


class ClockTrust:
    """Whether wall and monotonic time have agreed for long enough to act on the wall clock, and no other
    clock differed meanwhile.
    """

    def __init__(self, wall_ms: int, monotonic_s: float) -> None:
        self._lock = threading.Lock()
        self._wall_ms = wall_ms
        self._since = self._monotonic_s = monotonic_s
        self._jumped_at = float("-inf")

    def is_trusted(self, wall_ms: int, monotonic_s: float) -> bool:
        """Compare both clocks; a jump of more than a minute restarts the ten minutes."""
        with self._lock:
            passed_ms = (monotonic_s - self._monotonic_s) * 1000
            if abs((wall_ms - self._wall_ms) - passed_ms) > CLOCK_JUMP_MS:
                self._since = self._jumped_at = monotonic_s
                self._wall_ms, self._monotonic_s = wall_ms, monotonic_s
            return monotonic_s - self._since >= CLOCK_TRUST_S

    def distrust(self, monotonic_s: float) -> None:
        """Another clock differs from the wall clock, which counts as a jump."""
        with self._lock:
            self._since = self._jumped_at = monotonic_s

    def is_steady(self, monotonic_s: float) -> bool:
        """Whether no jump was seen for that long: what ran during one may look late by a day, or by years."""
        return monotonic_s - self._jumped_at >= CLOCK_TRUST_S


class Watched(Struct):
    """An attempt that this worker runs. The heartbeat sets `stop`, and a flag that says why."""

    attempt_id: str
    cancellable: bool
    """False from the fence of a metered call on."""
    trusts_clock: Callable[[], bool]
    """Whether the wall clock may end it."""
    stop: Cancellation = field(default_factory=Cancellation)
    leave: Cancellation = field(default_factory=Cancellation)
    """The worker ends now, whatever the attempt has not stored yet."""
    makes_no_more: bool = False
    """The worker ends soon: a call that is charged, and begun now, would be cut off."""
    progress: dict[str, Any] | None = None
    is_running: bool = False
    """An engine is running for it and should give signs of life; not while that loads or is waited for."""
    heard_at: float = field(default_factory=time.monotonic)
    """When that engine last gave a sign of life, on the monotonic clock."""
    cancelled: bool = False
    """The caller asked for it to end."""
    lost: bool = False
    """Another process has the attempt by now: nothing may be written for it."""
    silent: bool = False
    """The engine has given no sign of life for too long."""

    def hear(self, progress: dict[str, Any]) -> None:
        """The engine made progress."""
        self.progress = progress
        self.live()

    def live(self) -> None:
        """The engine gave a sign of life."""
        self.heard_at = time.monotonic()

    def run_begins(self) -> None:
        """An engine has taken up the run: from now on its silence counts."""
        # In this order: the heartbeat reads both from another thread.
        self.live()
        self.is_running = True

    def run_pauses(self) -> None:
        """The run has ended, or waits for us: its engine may be silent."""
        self.is_running = False


class Heartbeat:
    """The thread, and the attempts that it reports as alive."""

    def __init__(self, context: WorkerContext, register: Callable[[Transaction], None]) -> None:
        """`register` registers the worker again if others thought it dead and forgot it."""
        self._context = context
        self._register = register
        self._lock = threading.Lock()
        self._watched: dict[str, Watched] = {}
        self.clock_trust = ClockTrust(context.clock(), time.monotonic())
        self._stopping = threading.Event()
        self.ran_at = self._listened_at = time.monotonic()
        """When its loop last ran, on the monotonic clock, whether or not the database answered."""
        self._listener = context.database.listen("cancel")
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            # Otherwise it would notice only after its wait, up to a second later.
            self._context.database.wake("cancel")
            self._thread.join(timeout=5)
        self._listener.close()

    def watch(self, attempt_id: str, *, cancellable: bool) -> Watched:
        """Report this attempt as alive until `forget`."""
        watched = Watched(attempt_id, cancellable, self.trusts_clock)
        with self._lock:
            self._watched[attempt_id] = watched
        return watched

    def forget(self, attempt_id: str) -> None:
        with self._lock:
            self._watched.pop(attempt_id, None)

    def active(self) -> list[Watched]:
        """The attempts this worker runs now."""
        with self._lock:
            return list(self._watched.values())

    def trusts_clock(self) -> bool:
        """Whether the wall clock may end or remove something."""
        return self.clock_trust.is_trusted(self._context.clock(), time.monotonic())

    def _run(self) -> None:
        interval_s = self._context.settings.heartbeat_s
        send_at = progress_at = 0.0
        while not self._stopping.is_set():
            now = self.ran_at = time.monotonic()
            self.trusts_clock()
            active = self.active()
            fresh = [watched for watched in active if watched.progress is not None]
            if now >= send_at or (fresh and now >= progress_at):
                due = active if now >= send_at else fresh
                self._send(due, seen=now >= send_at)
                progress_at = now + PROGRESS_S
                if due is active:
                    send_at = now + interval_s
            elif active:
                self._check_cancels(active)
            self._check_silence(active)
            self._wait(min(0.2, interval_s) if active else min(1.0, interval_s))

    def _wait(self, seconds: float) -> None:
        try:
            if not self._listener.wait(seconds):
                return
        except Unavailable:
            # The next heartbeat finds out when the database is back.
            self._stopping.wait(seconds)
            return
        # Any change in the database may wake us: limit how often we look.
        self._stopping.wait(0.02)

    def _send(self, due: list[Watched], *, seen: bool) -> None:
        progress = {}
        for watched in due:
            progress[watched.attempt_id] = watched.progress
            watched.progress = None
        now_ms = self._context.clock()

        def write(tx: Transaction) -> dict[str, bool | None]:
            # A machine that slept for long, or was cut off, may come back to a service that forgot it.
            if seen and not catalog.see_worker(tx, self._context.worker_id, now_ms=now_ms):
                self._register(tx)
            return queue.heartbeat(tx, progress)

        try:
            answer = self._context.database.write(write)
            failpoints.hit("beat.after_commit")
        except Unavailable as error:
            _log.warning("heartbeat.not_written", reason=error.message)
            return
        except Exception as error:
            # A bug; if the heartbeat stopped, every attempt of this worker would be lost.
            log_failure(_log, "heartbeat.failed", error)
            return
        for watched in due:
            is_cancelled = answer[watched.attempt_id]
            if is_cancelled is None:
                watched.lost = True
                watched.stop.set()
            elif is_cancelled:
                self._cancel(watched)

    def _check_cancels(self, active: list[Watched]) -> None:
        try:
            wanted = self._context.database.read(
                lambda tx: queue.cancel_requests(tx, self._context.worker_id)
            )
        except Unavailable:
            return
        except Exception as error:
            log_failure(_log, "heartbeat.failed", error)
            return
        for watched in active:
            if watched.attempt_id in wanted:
                self._cancel(watched)

    def _check_silence(self, active: list[Watched]) -> None:
        """Stop attempts whose engine runs and has given no sign of life for too long while we were listening.

        A process that stood still, as when its machine slept, could not hear one.
        """
        limit_s = self._context.settings.engine_silence_s
        now = time.monotonic()
        deaf_s, self._listened_at = now - self._listened_at, now
        for watched in active:
            if deaf_s > DEAF_S:
                watched.live()
            is_expected = watched.cancellable and watched.is_running and limit_s
            if is_expected and now - watched.heard_at > limit_s:
                watched.silent = True
                watched.stop.set()

    @staticmethod
    def _cancel(watched: Watched) -> None:
        if watched.cancellable:
            watched.cancelled = True
            watched.stop.set()
