"""Duties: what every worker does beside its jobs, now and then, and the one runner that does it.

Several workers at once are harmless: each step is fenced, or is one worker's at a time. With millions of
jobs, or a store that stalls, some duties take minutes. They have a thread of their own, so that rescues
continue, and rest for as long as they work, so that requests do. The core's are in `core_duties`.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tenuto.db.database import Transaction
from tenuto.errors import Unavailable
from tenuto.feature import features
from tenuto.logs import get_logger, log_failure
from tenuto.worker.context import WorkerContext
from tenuto.worker.heartbeat import ClockTrust
from tenuto.worker.watch import Watch

ROUND_S = 0.5
STOP_S = 5.0

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc's function that returns the free memory of all arenas to the system; other C libraries lack it."""
_log = get_logger("tenuto.worker")


class Turn(Struct):
    """What a duty may use when it is its turn. All duties of a round share one."""

    context: WorkerContext
    now: float
    """Seconds on the monotonic clock."""
    now_ms: int
    """Wall time when the round began."""
    clock_trust: ClockTrust
    stopping: threading.Event
    """Set when the worker stops: abandon what is running. Another worker does it when it is due again."""
    after_outage: bool = False
    """Whether the database was unavailable to a duty of the round before."""
    kept: list[str] = []
    """The attempts that the rescue leaves to whoever stores the results that their workers have kept."""
    is_away: bool = False
    """Whether the database was unavailable to a duty of this round."""

    def trusts_clock(self) -> bool:
        """Whether the wall clock may end or remove something."""
        return self.clock_trust.is_trusted(self.now_ms, self.now)

    def do(self, duty: str, work: Callable[[], object], **ids: str) -> None:
        """Do a duty, or a part of one. If it fails, the error is logged and all others are still done."""
        try:
            work()
        except Unavailable as error:
            self.is_away = True
            _log.warning("upkeep.not_possible", duty=duty, reason=error.message, **ids)
        except Exception as error:
            log_failure(_log, "upkeep.failed", error, duty=duty, **ids)


class Duty(NamedTuple):
    """Something that every worker does now and then."""

    name: str
    """In the log."""
    work: Callable[[Turn], object]
    every_s: float = 0.0
    """0: in every round."""
    clock: Literal["any", "steady", "trusted"] = "any"
    """What it needs of the wall clock: that it has not jumped for ten minutes, or has been watched for ten
    without a jump. Until then it waits."""
    thread: str = ""
    """The name of its own thread, which it may share with another duty: then only one of them runs."""
    is_needed: Callable[[Turn], bool] | None = None
    """Whether there is anything to do, once it is due and its thread is free."""
    is_awaited: bool = True
    """Whether a worker that stops waits for its thread."""
    register: Callable[[Transaction], object] | None = None
    """What it writes with the worker's registration, before anything is claimed."""


def of_features(watch: Watch) -> list[Duty]:
    """The duties that features add; for a process that begins, whose database may not be there yet."""
    found: list[Duty] = []
    for feature in features().values():
        if feature.duties:
            found += feature.part(feature.duties)(watch)
    return found


class Pace:
    """Paces long work done in portions: a rest after each, as long as it took, and a limit on the total."""

    def __init__(self, stopping: threading.Event, *, most_s: float = float("inf")) -> None:
        self._stopping = stopping
        self._left_s = most_s
        self._resumed_at: float | None = None

    def rest(self) -> bool:
        """Rest, except before the first portion. False: end now, as time is up or the worker stops."""
        if self._resumed_at is None:
            self._resumed_at = time.monotonic()
            return not self._stopping.is_set()
        worked_s = time.monotonic() - self._resumed_at
        self._left_s -= worked_s
        if self._left_s <= 0 or self._stopping.wait(worked_s):
            return False
        self._resumed_at = time.monotonic()
        return True


class BackgroundThread:
    """At most one piece of work at a time, in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, work: Callable[[], None]) -> None:
        """Start the work, unless the last piece is still running."""
        if self.is_running():
            return
        # What a finished thread had cached stays in its arena, and there can be eight arenas for each core.
        if _trim is not None:
            _trim(0)
        thread = threading.Thread(target=work, name=self._name, daemon=True)
        thread.start()
        # Set only once it runs, as only then it can be joined.
        self._thread = thread

    def join(self, timeout_s: float) -> None:
        """Wait for the work that is running, if any."""
        if self._thread is not None:
            self._thread.join(timeout_s)


class Upkeep:
    """Does the duties: in a thread of its own, those that are due in each round."""

    def __init__(self, context: WorkerContext, duties: Sequence[Duty]) -> None:
        self._context = context
        self._duties = duties
        self._due = [0.0] * len(duties)
        self._clock_trust = ClockTrust(context.clock(), time.monotonic())
        self._was_away = False
        self.threads = {duty.thread: BackgroundThread(duty.thread) for duty in duties if duty.thread}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def register(self, tx: Transaction) -> None:
        """Write what duties need written before the worker claims anything."""
        for duty in self._duties:
            if duty.register is not None:
                duty.register(tx)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Abandon what is running; nothing is lost, and another worker does it when it is due again."""
        self._stopping.set()
        # One limit for all: the store that they wait for may hang.
        until = time.monotonic() + STOP_S
        self._thread.join(STOP_S)
        for duty in self._duties:
            if duty.thread and duty.is_awaited:
                self.threads[duty.thread].join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.do_due(time.monotonic())
            except Exception as error:
                log_failure(_log, "upkeep.failed", error, duty="round")
            self._stopping.wait(ROUND_S)

    def do_due(self, now: float) -> bool:
        """One round; `now` is monotonic seconds. Returns whether the database was there for every duty."""
        context = self._context
        turn = Turn(context, now, context.clock(), self._clock_trust, self._stopping, self._was_away)
        for number, duty in enumerate(self._duties):
            if now >= self._due[number] and _may_begin(duty, turn):
                self._due[number] = now + duty.every_s
                turn.do(duty.name, partial(self._do, duty, turn))
        self._was_away = turn.is_away
        return not turn.is_away

    def _do(self, duty: Duty, turn: Turn) -> None:
        thread = self.threads.get(duty.thread)
        if thread is not None and thread.is_running():
            return
        if duty.is_needed is not None and not duty.is_needed(turn):
            return
        if thread is None:
            duty.work(turn)
        else:
            own = replace(turn)
            thread.begin(lambda: own.do(duty.name, lambda: duty.work(own)))


def _may_begin(duty: Duty, turn: Turn) -> bool:
    if duty.clock == "any" or turn.trusts_clock():
        return True
    return duty.clock == "steady" and turn.clock_trust.is_steady(turn.now)
