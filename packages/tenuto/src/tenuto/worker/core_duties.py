"""The core's duties, in one table, and those of them that need only a few lines."""

import time
from collections.abc import Callable
from functools import partial

from tenuto.db.database import Transaction
from tenuto.host.host import HostNotReady
from tenuto.job import chunks, finish, queue
from tenuto.kind import operations as catalog
from tenuto.kind.kinds import kinds
from tenuto.kind.presence import Presence
from tenuto.logs import get_logger
from tenuto.worker import locks, retention, sweep
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import Duty, Turn
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import CLOCK_JUMP_MS, Heartbeat
from tenuto.worker.rescue import Rescue

MEASURE_S, MINUTE_S, SWEEP_S = 5.0, 60.0, 600.0
FORGOTTEN_S = 600.0
"""A worker is forgotten when we have not seen its row change for this long, whatever its clock says."""
CHANGED_MIB = 16
"""The smallest change of an engine's memory that is reported."""

_log = get_logger("tenuto.worker")


def core_duties(
    context: WorkerContext, engines: "EngineDuties", heartbeat: Heartbeat, wake_slots: Callable[[], None]
) -> tuple[Duty, ...]:
    """In the order in which a round does them."""
    rescue = Rescue(context, heartbeat, wake_slots).rescue
    forget = Forgetting(context).forget
    broken = engines.are_broken
    # fmt: off
    return (
        Duty("rescue", rescue),
        Duty("clock", partial(compare_clocks, heartbeat), MINUTE_S),
        Duty("expire", Expiry().expire, MINUTE_S, clock="trusted"),
        Duty("retention", retention.apply, MINUTE_S, clock="trusted", thread="retention"),
        Duty("workers", forget, MINUTE_S),
        Duty("context", forget_chunks, MINUTE_S),
        Duty("engine", engines.start, MINUTE_S, thread="engine-starts", is_needed=broken, is_awaited=False),
        Duty("weigh", engines.measure, MEASURE_S),
        Duty("sweep", sweep.sweep, SWEEP_S, clock="steady", thread="sweep"),
        Duty("remove", sweep.remove, MINUTE_S, thread="sweep"),
    )
    # fmt: on


def compare_clocks(heartbeat: Heartbeat, turn: Turn) -> None:
    """Distrust our clock if it differs from that of the database's server. If it were years ahead, every
    job of every machine would look overdue.
    """
    context = turn.context
    if context.database_clock is None:
        return
    before_ms = context.clock()
    theirs_ms = context.database_clock()
    ahead_ms = max(before_ms - theirs_ms, 0) or min(context.clock() - theirs_ms, 0)
    if abs(ahead_ms) > CLOCK_JUMP_MS:
        turn.clock_trust.distrust(turn.now)
        heartbeat.clock_trust.distrust(time.monotonic())
        _log.warning("clock.differs", ahead_s=ahead_ms / 1000)


class Expiry:
    """Fails the jobs that are past their deadline."""

    def __init__(self) -> None:
        # By lane: the last overdue job seen, if more follow. The next round continues after it.
        self._seen_up_to: dict[str, str] = {}

    def expire(self, turn: Turn) -> None:
        for lane in kinds():
            turn.do("expire", partial(self._expire, lane, turn), lane=lane)

    def _expire(self, lane: str, turn: Turn) -> None:
        """Each job in a transaction of its own: one that cannot be expired does not hold up the others."""
        context, now_ms = turn.context, turn.now_ms
        expired: list[str] = []

        def end(job_id: str) -> None:
            if context.database.write(
                lambda tx: finish.expire(tx, context.ids, job_id=job_id, now_ms=now_ms)
            ):
                expired.append(job_id)

        after = self._seen_up_to.get(lane, "")
        jobs = context.database.read(lambda tx: finish.overdue(tx, lane=lane, now_ms=now_ms, after=after))
        self._seen_up_to[lane] = jobs[-1] if len(jobs) == finish.EXPIRY_BATCH else ""
        for job_id in jobs:
            turn.do("expire_job", partial(end, job_id), job_id=job_id)
        if expired:
            _log.warning("jobs.expired", lane=lane, count=len(expired))


class Forgetting:
    """Forgets workers that are long away and have no open attempt."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._machine = locks.machine(context.locks)
        self._presence = Presence(away_s=FORGOTTEN_S, observe_s=MINUTE_S)

    def forget(self, turn: Turn) -> None:
        database = self._context.database
        self._presence.observe(database.read(catalog.workers), now_s=turn.now)
        for worker in database.read(self._gone):
            turn.do("worker", partial(self._forget, *worker), worker_id=worker[0])

    def _gone(self, tx: Transaction) -> list[tuple[str, str, str]]:
        return [
            (row.id, row.machine, row.lock_name)
            for row in catalog.workers(tx)
            if row.id != self._context.worker_id
            and row.id in self._presence.away
            and not queue.has_open_attempts(tx, row.id)
        ]

    def _forget(self, worker_id: str, machine: str, lock_name: str) -> None:
        context = self._context
        if machine == self._machine:
            if locks.is_held(context.locks, lock_name):
                return
            locks.remove(context.locks, lock_name)
        context.database.write(lambda tx: catalog.forget_worker(tx, worker_id))
        _log.info("worker.forgotten", worker_id=worker_id)


def forget_chunks(turn: Turn) -> None:
    """Those of jobs that are final."""
    turn.context.database.write(chunks.forget_final)


class EngineDuties:
    """Retries engines that did not start, and measures those that did."""

    def __init__(self, engines: Engines, wake_slots: Callable[[], None]) -> None:
        self._engines = engines
        self._wake_slots = wake_slots
        # MiB by engine, as last reported; replaced as a whole.
        self.measured: dict[str, int] = {}

    def are_broken(self, turn: Turn) -> bool:
        return bool(self._engines.broken())

    def start(self, turn: Turn) -> None:
        """Retry engines that failed to start too often: a load may take ten minutes, or hang. After each try
        it rests as long as the try took, so that other engines can use the memory.
        """
        for model in self._engines.broken():
            began = time.monotonic()
            turn.do("engine", partial(self._try, model), model=model)
            if turn.stopping.wait(time.monotonic() - began):
                return

    def _try(self, model: str) -> None:
        try:
            self._engines.ready(model)
        except HostNotReady:
            return
        self._wake_slots()

    def measure(self, turn: Turn) -> None:
        """Enforce the memory limit of the engines and report how much they use."""
        measured, before = self._engines.measure(), self.measured
        changed = max((abs(mib - before.get(engine, 0)) for engine, mib in measured.items()), default=0)
        if measured.keys() != before.keys() or changed >= CHANGED_MIB:
            context = turn.context
            context.database.write(lambda tx: catalog.engines_measured(tx, context.worker_id, measured))
            self.measured = measured
