"""A worker from start to end: takes its lock, registers, starts its threads, drains on SIGTERM."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from tenuto import failpoints
from tenuto.catalog import operations as catalog
from tenuto.catalog.kinds import slots
from tenuto.db.database import Transaction
from tenuto.errors import Unavailable
from tenuto.hosts.host import HostNotReady
from tenuto.jobs import queue
from tenuto.logs import get_logger
from tenuto.worker import locks
from tenuto.worker.abilities import Ability
from tenuto.worker.context import Bell, WorkerContext
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Heartbeat
from tenuto.worker.locks import LifeLock
from tenuto.worker.loop import Slot
from tenuto.worker.upkeep import Upkeep

STOP_S = 5.0
WITHDRAW_AGAIN_S = 0.5
_log = get_logger("tenuto.worker")


class Worker:
    """One worker process's threads. It claims jobs of the models that `abilities` says it can run."""

    def __init__(
        self, context: WorkerContext, abilities: Sequence[Ability], *, withdraws: bool = True
    ) -> None:
        self._context = context
        self._abilities = abilities
        self._withdraws = withdraws
        self._draining = False
        offered = self._offered = [ability.model for ability in abilities if ability.reason is None]
        self._lock = LifeLock(context.locks, f"{context.worker_id}.lock")
        self._bell = Bell()
        self._stopping = threading.Event()
        self._engines = Engines(context, offered, self._bell)
        self._heartbeat = Heartbeat(context, self._register)
        self._upkeep = Upkeep(context, self._engines, self._heartbeat, self._bell)
        self._slots = [
            Slot(context, lane, self._engines, self._heartbeat, self._bell)
            for lane, count in slots(context.settings).items()
            if any(context.models[name].lane == lane for name in offered)
            for _ in range(count)
        ]
        self._listener = context.database.listen("jobs")
        self._ear = threading.Thread(target=self._listen, name="ear", daemon=True)

    def start(self) -> None:
        """Register, give the lanes their slots, and begin to work."""
        context = self._context

        def register(tx: Transaction) -> None:
            self._register(tx)
            for lane, count in slots(context.settings).items():
                queue.set_slots(tx, lane, count)

        context.database.write(register)
        failpoints.hit("register.after_commit")
        self._heartbeat.start()
        self._ear.start()
        for slot in self._slots:
            slot.start()
        self._upkeep.start()
        threading.Thread(target=self._warm, name="warm", daemon=True).start()
        _log.info("worker.started", worker_id=context.worker_id, models=self._offered)

    def stop(self) -> None:
        """Claim nothing more, let attempts end within the grace, give back what is left, end the hosts."""
        settings = self._context.settings
        self._draining = True
        for slot in self._slots:
            slot.stop()
        self._bell.ring()
        until = time.monotonic() + settings.drain_s
        # Its heart beats while it drains, so nobody would take it for away: what fails is tried again.
        while self._withdraws and not self._withdraw() and time.monotonic() < until:
            if self._join_slots(min(until, time.monotonic() + WITHDRAW_AGAIN_S)):
                break
        self._join_slots(until)
        for watched in self._heartbeat.active():
            if watched.cancellable:
                watched.stop.set()
        self._join_slots(time.monotonic() + settings.host_grace_s + STOP_S)
        left = self._heartbeat.active()
        for watched in left:
            watched.leave.set()
        if left:
            self._join_slots(time.monotonic() + STOP_S)
        self._stopping.set()
        self._upkeep.stop()
        self._heartbeat.stop()
        self._engines.close()
        # It waits at its socket: closed under it, it would end with an error.
        self._context.database.wake("jobs")
        self._ear.join(STOP_S)
        self._listener.close()
        if not self._heartbeat.active():
            self._forget()
        _log.info("worker.stopped", worker_id=self._context.worker_id)

    def beaten_at(self) -> float:
        """When its heart last beat, on the monotonic clock."""
        return self._heartbeat.beaten_at

    def dead_slots(self) -> int:
        """How many slots take no job any more, though nobody has stopped them."""
        return sum(slot.is_dead() for slot in self._slots)

    def engines(self) -> Mapping[str, int]:
        """The engines that are loaded, and the MiB that each took when it was measured last."""
        return self._upkeep.weighed

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

    def _withdraw(self) -> bool:
        """From now on no job is accepted because of this worker. False: the database did not answer; a worker
        that ends before it does counts as away within a minute.
        """
        worker_id = self._context.worker_id
        try:
            self._context.database.write(lambda tx: catalog.withdraw_offers(tx, worker_id))
        except Unavailable:
            _log.warning("worker.not_withdrawn", worker_id=worker_id)
            return False
        return True

    def _forget(self) -> None:
        """Nothing of ours is open: the lock can go. The row stays until others forget it."""
        self._lock.release()

    def _join_slots(self, until: float) -> bool:
        """Whether all have ended by then."""
        return all(slot.join(max(0.0, until - time.monotonic())) for slot in self._slots)

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._listener.wait(1.0):
                    self._bell.ring()
            except Unavailable:
                self._stopping.wait(0.5)

    def _warm(self) -> None:
        """Load what is marked so before the first job asks for it."""
        for name in self._offered:
            own = self._context.settings.models.get(name)
            if own is not None and own.warm:
                try:
                    self._engines.warm(name)
                except HostNotReady:
                    continue
