"""The loop of one slot: claim, run, again; asleep while there is nothing to do."""

import threading

from tenuto import failpoints
from tenuto.catalog.kinds import slots
from tenuto.db.database import Transaction
from tenuto.errors import Unavailable
from tenuto.jobs import queue
from tenuto.jobs.queue import Claim
from tenuto.logs import get_logger
from tenuto.worker import attempt
from tenuto.worker.context import Bell, WorkerContext
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Heartbeat

POLL_S = 1.0
"""The safety net behind wake-ups: work is looked for at least as often."""

_log = get_logger("tenuto.worker")


class Slot:
    """A thread that runs one attempt at a time of a lane."""

    def __init__(
        self, context: WorkerContext, lane: str, engines: Engines, heartbeat: Heartbeat, bell: Bell
    ) -> None:
        self._context = context
        self._lane = lane
        self._slots = slots(context.settings)[lane]
        self._engines = engines
        self._heartbeat = heartbeat
        self._bell = bell
        self._stopping = threading.Event()
        self.faults = 0  # claims that failed in a way that nobody has foreseen
        self._thread = threading.Thread(target=self._run, name=f"slot-{lane}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Claim nothing more; an attempt that runs goes on."""
        self._stopping.set()

    def is_dead(self) -> bool:
        """Whether its thread has ended though nobody has stopped it."""
        return not (self._thread.is_alive() or self._stopping.is_set())

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended by then."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        claim: Claim | None = None
        while claim is not None or not self._stopping.is_set():
            since = self._bell.rung
            claim = claim or self._claim(since)
            if claim is None:
                self._bell.wait(since, POLL_S)
                continue
            claim = attempt.run(self._context, self._engines, self._heartbeat, claim, self._take)

    def _claim(self, since: int) -> Claim | None:
        """A claim, or None. A look is taken before a transaction is opened: the bell rings for every lane,
        and to lock a slot for nothing would be a write, in the way of those who submit.
        """
        context, now_ms = self._context, self._context.clock()

        def look(tx: Transaction) -> bool:
            return queue.has_work(tx, self._lane, models=self._offered(), now_ms=now_ms)

        with self._engines.claiming:
            try:
                if not self._offered() or self._bell.rang_in_vain(self._lane, since):
                    return None
                if not context.database.read(look):
                    self._bell.found_nothing(self._lane, since)
                    return None
                claim = context.database.write(lambda tx: self._take(tx, now_ms))
            except Unavailable:
                _log.warning("claim.not_possible", lane=self._lane)
                return None
            except Exception:
                # A fault of ours; a slot whose thread has ended would leave its lane standing still.
                _log.exception("claim.failed", lane=self._lane)
                self.faults += 1
                return None
            if claim is not None:
                failpoints.hit("claim.after_commit")
                context.database.wake("changes")
                self._engines.begin(claim.model)
            return claim

    def _take(self, tx: Transaction, now_ms: int) -> Claim | None:
        models = self._offered()
        if self._stopping.is_set() or not models:
            return None
        claim = queue.claim(
            tx,
            self._context.ids,
            worker_id=self._context.worker_id,
            lane=self._lane,
            slots=self._slots,
            models=models,
            now_ms=now_ms,
        )
        if claim is not None:
            failpoints.hit("claim.before_commit")
        return claim

    def _offered(self) -> frozenset[str]:
        """The lane's models that this worker claims now."""
        models = self._context.models
        return frozenset(name for name in self._engines.offered() if models[name].lane == self._lane)
