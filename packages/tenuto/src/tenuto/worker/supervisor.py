"""A worker from start to end: takes its lock, registers, starts its slots and threads, drains on SIGTERM."""

import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import asdict

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.errors import Unavailable
from tenuto.file.apart import Apart
from tenuto.host.host import HostNotReady
from tenuto.job import queue
from tenuto.job.queue import Claim
from tenuto.kind import operations as catalog
from tenuto.kind.kinds import slots
from tenuto.logs import get_logger, log_failure
from tenuto.worker import attempt, locks
from tenuto.worker.abilities import Ability
from tenuto.worker.context import WorkCondition, WorkerContext
from tenuto.worker.core_duties import EngineDuties, core_duties
from tenuto.worker.duties import Duty, Upkeep
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Heartbeat
from tenuto.worker.locks import LifeLock

STOP_S = 5.0
WITHDRAW_AGAIN_S = 0.5
POLL_S = 1.0
"""The safety net behind wake-ups: work is looked for at least this often."""
EARLY_S = 0.1
"""A wait may end slightly early; the check that is due then is not put off to the next one."""
LISTEN_AGAIN_S = 0.5

_log = get_logger("tenuto.worker")


class Worker:
    """One worker process's threads. It claims jobs of the models that `abilities` says it can run."""

    def __init__(
        self,
        context: WorkerContext,
        abilities: Sequence[Ability],
        duties: Sequence[Duty] = (),
        *,
        withdraws: bool = True,
    ) -> None:
        """`duties`: those of features, done with the core's."""
        self._context = context
        self._abilities = abilities
        self._withdraws = withdraws
        self._draining = False
        offered = self._offered = [ability.model for ability in abilities if ability.reason is None]
        self._lock = LifeLock(context.locks, f"{context.worker_id}.lock")
        lanes = slots(context.settings)
        self._work = WorkCondition(lanes)
        self._stopping = threading.Event()
        self._engines = Engines(context, offered, self._work)
        self._heartbeat = Heartbeat(context, self._register)
        self._engine_duties = EngineDuties(self._engines, self._work.announce)
        own = core_duties(context, self._engine_duties, self._heartbeat, self._work.announce)
        self._upkeep = Upkeep(context, [*own, *duties])
        self._topics = {
            queue.topic(lane): lane
            for lane in lanes
            if any(context.models[name].lane == lane for name in offered)
        }
        # `once`: while all slots of a lane are busy, none needs to know what is queued there.
        self._listener = context.database.listen(*self._topics, once=True)
        arm = self._listener.arm
        self._slots = [
            Slot(context, lane, self._engines, self._heartbeat, self._work, arm=partial(arm, topic))
            for topic, lane in self._topics.items()
            for _ in range(lanes[lane])
        ]
        self._listening = threading.Thread(target=self._listen, name="listening", daemon=True)

    def start(self) -> None:
        """Register, give the lanes their slots, and begin to work."""
        context = self._context

        def register(tx: Transaction) -> None:
            self._register(tx)
            for lane, count in slots(context.settings).items():
                queue.set_slots(tx, lane, count)
            self._upkeep.register(tx)

        context.database.write(register)
        failpoints.hit("register.after_commit")
        # Before any work: if its first import runs out of descriptors, numpy can never be imported again.
        importlib.import_module("numpy")
        self._heartbeat.start()
        self._listening.start()
        for slot in self._slots:
            slot.start()
        self._upkeep.start()
        threading.Thread(target=self._warm, name="warm", daemon=True).start()
        _log.info("worker.started", worker_id=context.worker_id, models=self._offered)

    def stop(self) -> None:
        """Claim nothing more, let attempts end within the grace, release the others, end the hosts."""
        settings = self._context.settings
        self._draining = True
        for slot in self._slots:
            slot.stop()
        self._work.announce()
        until = time.monotonic() + settings.drain_s
        # In a thread of its own, because the database may hang. The heartbeat continues meanwhile, so we do
        # not count as lost.
        withdrawing = Apart(partial(self._withdraw, until)) if self._withdraws else None
        self._join_slots(until)
        for watched in self._heartbeat.active():
            watched.makes_no_more = True
            if watched.cancellable:
                watched.stop.set()
        self._join_slots(time.monotonic() + settings.host_grace_s + STOP_S)
        left = self._heartbeat.active()
        for watched in left:
            watched.leave.set()
        if left:
            self._join_slots(time.monotonic() + STOP_S)
        self._stopping.set()
        if withdrawing is not None:
            withdrawing.ended.wait(STOP_S)
        self._upkeep.stop()
        self._heartbeat.stop()
        self._engines.close()
        # The thread waits on the listener's socket: if that were closed first, it would end with an error.
        for topic in self._topics:
            self._listener.arm(topic)
            self._context.database.wake(topic)
        self._listening.join(STOP_S)
        self._listener.close()
        if not self._heartbeat.active():
            self._forget()
        _log.info("worker.stopped", worker_id=self._context.worker_id)

    def heartbeat_at(self) -> float:
        """When its heartbeat last ran, on the monotonic clock."""
        return self._heartbeat.ran_at

    def dead_slots(self) -> int:
        """How many slots take no more jobs although they were not stopped."""
        return sum(slot.is_dead() for slot in self._slots)

    def engines(self) -> Mapping[str, int]:
        """The loaded engines, and the MiB that each took when last measured."""
        return self._engine_duties.measured

    def running(self) -> int:
        """How many attempts run here."""
        return len(self._heartbeat.active())

    def _register(self, tx: Transaction) -> None:
        context, is_leaving = self._context, self._draining and self._withdraws
        catalog.register_worker(
            tx,
            context.worker_id,
            machine=locks.machine(context.locks),
            pid=os.getpid(),
            lock_name=self._lock.name,
            models=[] if is_leaving else self._offered,
            now_ms=context.clock(),
            abilities=[asdict(ability) for ability in self._abilities],
            engine_memory_mib=context.settings.engine_memory_mib,
        )

    def _withdraw(self, until: float) -> None:
        """From now on no job is accepted because of this worker. Retried until it must end: if the database
        does not answer by then, the worker counts as away within a minute.
        """
        worker_id = self._context.worker_id
        while True:
            try:
                self._context.database.write(lambda tx: catalog.withdraw_offers(tx, worker_id))
                return
            except Unavailable as error:
                _log.warning("worker.not_withdrawn", worker_id=worker_id, reason=error.message)
            if time.monotonic() >= until or self._stopping.wait(WITHDRAW_AGAIN_S):
                return

    def _forget(self) -> None:
        """Release the lock, as no attempt of ours is open. The row stays until other workers remove it."""
        self._lock.release()

    def _join_slots(self, until: float) -> bool:
        """Wait for the slots; returns whether all have ended by then."""
        return all(slot.join(max(0.0, until - time.monotonic())) for slot in self._slots)

    def _listen(self) -> None:
        """Wake slots where work is announced, or where a check each second, one for all of them, finds it."""
        poll_at = 0.0
        while not self._stopping.is_set():
            try:
                if woken := self._listener.wait(POLL_S):
                    self._work.announce(*(self._topics[topic] for topic in woken))
                if time.monotonic() >= poll_at:
                    poll_at = time.monotonic() + POLL_S - EARLY_S
                    if lanes := self._lanes_with_work():
                        self._work.announce(*lanes)
            except Unavailable:
                self._stopping.wait(LISTEN_AGAIN_S)
            except Exception as error:
                # A bug; this thread must live on, as slots wait for nothing but this.
                log_failure(_log, "claim.failed", error)
                self._stopping.wait(LISTEN_AGAIN_S)

    def _lanes_with_work(self) -> list[str]:
        """The lanes in which a slot is idle although a job waits that it could run."""
        idle = {slot.lane: slot.offered() for slot in self._slots if slot.is_idle}
        if not idle:
            return []
        # Armed before the check, as slots do; every second, as the process that should wake us may have died.
        for topic, lane in self._topics.items():
            if lane in idle:
                self._listener.arm(topic)
        now_ms = self._context.clock()
        return self._context.database.read(lambda tx: queue.lanes_with_work(tx, idle, now_ms=now_ms))

    def _warm(self) -> None:
        """Load the models marked `warm` before the first job needs them."""
        for name in self._offered:
            own = self._context.settings.models.get(name)
            if own is not None and own.warm:
                try:
                    self._engines.warm(name)
                except HostNotReady:
                    continue
                except Exception as error:
                    log_failure(_log, "model.not_warmed", error, model=name)


class Slot:
    """A thread that runs a lane's attempts, one at a time."""

    def __init__(
        self,
        context: WorkerContext,
        lane: str,
        engines: Engines,
        heartbeat: Heartbeat,
        work: WorkCondition,
        *,
        arm: Callable[[], None],
    ) -> None:
        """`arm` asks for the lane's next wake-up."""
        self._context = context
        self.lane = lane
        self.is_idle = False
        """Whether it waits for work."""
        self._arm = arm
        self._slots = slots(context.settings)[lane]
        self._engines = engines
        self._heartbeat = heartbeat
        self._work = work
        self._stopping = threading.Event()
        self.faults = 0  # claims that failed in an unforeseen way
        self._thread = threading.Thread(target=self._run, name=f"slot-{lane}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Claim nothing more; a running attempt continues."""
        self._stopping.set()

    def is_dead(self) -> bool:
        """Whether its thread has ended although it was not stopped."""
        return not (self._thread.is_alive() or self._stopping.is_set())

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread; returns whether it has ended by then."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def offered(self) -> frozenset[str]:
        """The lane's models that this worker claims now."""
        models = self._context.models
        return frozenset(name for name in self._engines.offered() if models[name].lane == self.lane)

    def _run(self) -> None:
        claim: Claim | None = None
        while claim is not None or not self._stopping.is_set():
            since = self._work.count(self.lane)
            claim = claim or self._claim(since)
            if claim is None:
                self.is_idle = True
                self._work.wait(self.lane, since)
                self.is_idle = False
                continue
            claim = attempt.run(self._context, self._engines, self._heartbeat, claim, self._take)

    def _claim(self, since: int) -> Claim | None:
        """Claim a job if there is one: at once in the first slot of the lane that is woken.
        The others check before they open a write transaction, which would get in the way of submissions.
        """
        context, now_ms = self._context, self._context.clock()

        def has_work(tx: Transaction) -> bool:
            return queue.has_work(tx, self.lane, models=self.offered(), now_ms=now_ms)

        with self._engines.claiming:
            try:
                if not self.offered() or self._work.was_in_vain(self.lane, since):
                    return None
                # In this order: a job that is queued after the check is announced again.
                self._arm()
                if not self._work.is_first(self.lane, since) and not context.database.read(has_work):
                    self._work.found_nothing(self.lane, since)
                    return None
                claim = context.database.write(lambda tx: self._take(tx, now_ms))
            except Unavailable as error:
                _log.warning("claim.not_possible", lane=self.lane, reason=error.message)
                return None
            except Exception as error:
                # A bug; if the slot's thread ended, its lane would stand still.
                log_failure(_log, "claim.failed", error, lane=self.lane)
                self.faults += 1
                return None
            if claim is not None:
                failpoints.hit("claim.after_commit")
                context.database.wake("changes")
                self._engines.begin(claim.model)
            return claim

    def _take(self, tx: Transaction, now_ms: int) -> Claim | None:
        models = self.offered()
        if self._stopping.is_set() or not models:
            return None
        claim = queue.claim(
            tx,
            self._context.ids,
            worker_id=self._context.worker_id,
            lane=self.lane,
            slots=self._slots,
            models=models,
            now_ms=now_ms,
        )
        if claim is not None:
            failpoints.hit("claim.before_commit")
        return claim
