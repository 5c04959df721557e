"""Upkeep: rescue silent attempts, finish recorded results, deadlines, the sweep, the audit.

Every worker does it; several at once are harmless, because each step is fenced. Nothing here trusts
wall time for a lease: a worker is dead when its lock is free (same machine), or when this
worker itself has seen no beat of its attempt for `silence_s` on its own monotonic clock.
"""

import threading
import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.errors import (
    ArtifactUnavailable,
    CorruptBlob,
    Stale,
    StoreUnreachable,
    Unavailable,
    causes,
    is_of_the_machine,
)
from tenuto.features.backup import backups
from tenuto.features.chat import priced_calls as calls
from tenuto.features.kept_results.paid import KeptResults
from tenuto.features.recognition import live_text
from tenuto.file import operations as artifacts
from tenuto.file.apart import Apart
from tenuto.host.host import HostNotReady
from tenuto.job import chunks, finish, queue
from tenuto.job.rows import OpenAttempt
from tenuto.job.states import UNFORESEEN, UNSETTLED
from tenuto.kind import operations as catalog
from tenuto.kind.kinds import kinds
from tenuto.kind.presence import Presence
from tenuto.logs import get_logger, log_failure
from tenuto.worker import locks
from tenuto.worker.context import Bell, WorkerContext
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import CLOCKS_AGREE_MS, ClockAgreement, Heartbeat
from tenuto.worker.housekeeping import Auditor, BackgroundThread, Retention, Sweeper

LOOK_S = 0.5
FINISH_S, FINISHING = 2.0, 8
"""How long a round waits for a recorded result that it reads, and how many may be read at once."""
STOP_S = 5.0
HOUSEKEEPING_S = 60.0
FORGOTTEN_S = 600.0
"""A worker is forgotten when we have not seen its row change for this long, whatever its clock says."""
SWEEP_S = 600.0
WEIGH_S = 5.0
FIRST_TROUBLE_S, LONGEST_TROUBLE_S = 5.0, 600.0
"""The pauses between two tries of a rescue that hits an unexpected error."""
CALLS_S = 5.0
ABANDONED_CALL_S = 30.0
"""A call that is still open this long after its time limit has lost its process."""
CHANGED_MIB = 16
"""The smallest change of an engine's memory that is reported."""

_log = get_logger("tenuto.worker")


class _Seen(Struct):
    """The last beat seen of an attempt that does not run here, and since when on our monotonic clock."""

    beat: int
    since: float


class _Trouble(Struct, frozen=True):
    """An attempt whose rescue met an unforeseen error, and when it is retried."""

    pause_s: float
    until: float


class Duties:
    """One round's duties. If one fails, the error is logged and the others still run."""

    def __init__(self) -> None:
        self._away: Unavailable | None = None

    def do(self, duty: str, work: Callable[[], object], **ids: str) -> None:
        """Run one duty. If the database is unavailable, `end` raises that after all duties have run."""
        try:
            work()
        except Unavailable as error:
            self._away = self._away or error
            _log.warning("upkeep.not_possible", duty=duty, reason=error.message, **ids)
        except Exception as error:
            log_failure(_log, "upkeep.failed", error, duty=duty, **ids)

    def end(self) -> None:
        """Raises Unavailable if a duty was not possible: then we cannot tell which workers were silent."""
        if self._away is not None:
            raise self._away


class Upkeep:
    """The upkeep thread."""

    def __init__(self, context: WorkerContext, engines: Engines, heartbeat: Heartbeat, bell: Bell) -> None:
        self._context = context
        self._engines = engines
        self._heartbeat = heartbeat
        self._bell = bell
        self._machine = locks.machine(context.locks)
        self._seen: dict[str, _Seen] = {}
        self._presence = Presence(away_s=FORGOTTEN_S, observe_s=HOUSEKEEPING_S)
        self._backups = Presence(away_s=backups.DEAD_AFTER_S, observe_s=HOUSEKEEPING_S)
        self._calls = Presence(away_s=context.settings.chat_timeout_s + ABANDONED_CALL_S, observe_s=CALLS_S)
        self._troubles: dict[str, _Trouble] = {}
        self._looked_at = float("-inf")
        # By lane: the last overdue job seen, if more follow. The next round continues after it.
        self._looked_up_to: dict[str, str] = {}
        self._agreement = ClockAgreement(context.clock(), time.monotonic())
        # By attempt: what reads a recorded result now, from a store that may hang.
        self._finishing: dict[str, Apart[str]] = {}
        self._auditor = Auditor(context)
        self.retention = Retention(context)
        self.sweeper = Sweeper(context)
        self.kept_results = KeptResults(context)
        self._starts = BackgroundThread(
            "engine-starts", partial(log_failure, _log, "upkeep.failed", duty="engine")
        )
        self._due = dict.fromkeys(("house", "sweep", "weigh", "calls"), 0.0)
        # MiB by engine, as last reported; replaced as a whole.
        self.weighed: dict[str, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Abandon what is running; nothing is lost, and another worker does it when it is due again."""
        self._stopping.set()
        self._starts.stopping.set()  # What it loads ends with the engines.
        threads = (self._auditor.thread, self.retention.thread, self.sweeper.thread, self.kept_results.thread)
        for thread in threads:
            thread.stopping.set()
        # One limit for all: the store that they wait for may hang.
        until = time.monotonic() + STOP_S
        self._thread.join(STOP_S)
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look(time.monotonic())
            except Unavailable:
                pass  # Each duty has logged it.
            except Exception as error:
                log_failure(_log, "upkeep.failed", error, duty="round")
            self._stopping.wait(LOOK_S)

    def look(self, now: float) -> None:
        """One round; `now` is monotonic seconds.

        What was seen before the database went away proves nothing afterwards, nor does what was seen
        before a long gap: a machine or a network that stood still may have kept the beats from coming.
        """
        if now - self._looked_at > max(2 * LOOK_S, self._context.settings.silence_s / 3):
            self._seen.clear()
        self._looked_at = now
        try:
            self._round(now)
        except Unavailable:
            self._seen.clear()
            raise

    def _round(self, now: float) -> None:
        duties = Duties()
        duties.do("rescue", lambda: self._rescue(duties, now))
        is_house_due = now >= self._due["house"]
        if is_house_due:
            self._due["house"] = now + HOUSEKEEPING_S
            self._keep_house(duties, now)
        if now >= self._due["weigh"]:
            self._due["weigh"] = now + WEIGH_S
            duties.do("weigh", self._weigh)
        if now >= self._due["calls"]:
            self._due["calls"] = now + CALLS_S
            duties.do("calls", lambda: self._release_calls(duties, now))
        if now >= self._due["sweep"] and self._agreement.is_steady(now):
            self._due["sweep"] = now + SWEEP_S
            duties.do("sweep", self.sweeper.look)
        elif is_house_due:
            duties.do("remove", self.sweeper.remove)
        duties.end()

    def _rescue(self, duties: "Duties", now: float) -> None:
        ours = {watched.attempt_id for watched in self._heartbeat.active()}
        others = [
            attempt
            for attempt in self._context.database.read(queue.open_attempts)
            if attempt.attempt_id not in ours
        ]
        self._seen = {
            attempt.attempt_id: self._seen[attempt.attempt_id]
            for attempt in others
            if attempt.attempt_id in self._seen
        }
        self._troubles = {
            attempt.attempt_id: self._troubles[attempt.attempt_id]
            for attempt in others
            if attempt.attempt_id in self._troubles
        }
        still_open = {attempt.attempt_id for attempt in others}
        self._finishing = {
            attempt_id: finishing
            for attempt_id, finishing in self._finishing.items()
            if attempt_id in still_open or not finishing.ended.is_set()
        }
        for attempt in others:
            duties.do(
                "rescue_attempt",
                lambda attempt=attempt: self._look_at(attempt, now),  # type: ignore[misc]
                job_id=attempt.job_id,
                attempt_id=attempt.attempt_id,
            )

    def _look_at(self, attempt: OpenAttempt, now: float) -> None:
        """Rescue it if its worker is silent; one that cannot be rescued is retried less and less often."""
        trouble = self._troubles.get(attempt.attempt_id)
        if not self._is_silent(attempt, now) or (trouble is not None and now < trouble.until):
            return
        try:
            self._rescue_one(attempt)
        except Unavailable:
            raise
        except Exception as error:
            pause_s = FIRST_TROUBLE_S if trouble is None else min(2 * trouble.pause_s, LONGEST_TROUBLE_S)
            self._troubles[attempt.attempt_id] = _Trouble(pause_s, now + pause_s)
            if is_of_the_machine(error):
                raise
            self._hand_over(attempt, error, "unforeseen", UNFORESEEN)
            raise

    def _hand_over(self, attempt: OpenAttempt, error: Exception, code: str, message: str) -> None:
        """An unexpected error in one attempt: record it for the operator."""
        context, now_ms, evidence = self._context, self._context.clock(), causes(error)
        context.database.write(
            lambda tx: finish.hand_over(
                tx, attempt.attempt_id, code=code, message=message, evidence=evidence, now_ms=now_ms
            )
        )
        _log.error("job.recovery_required", job_id=attempt.job_id, attempt_id=attempt.attempt_id)
        context.database.wake("changes")

    def _is_silent(self, attempt: OpenAttempt, now: float) -> bool:
        elsewhere = attempt.machine != self._machine or attempt.worker_id == self._context.worker_id
        if not elsewhere and attempt.lock_name is not None:
            return not locks.is_held(self._context.locks, attempt.lock_name)
        seen = self._seen.get(attempt.attempt_id)
        if seen is None or seen.beat != attempt.beat:
            self._seen[attempt.attempt_id] = _Seen(attempt.beat, now)
            return False
        return now - seen.since >= self._context.settings.silence_s

    def _rescue_one(self, attempt: OpenAttempt) -> None:
        context, now_ms = self._context, self._context.clock()

        def rescue(tx: Transaction) -> str:
            done = finish.rescue(tx, context.ids, attempt.attempt_id, beat=attempt.beat, now_ms=now_ms)
            failpoints.hit("rescue.before_commit")
            return done

        try:
            done: str | None = context.database.write(rescue)
            failpoints.hit("rescue.after_commit")
            if done == "kept":
                self.kept_results.store(attempt.attempt_id)
                return  # A later round finds it recorded.
            if done == "recorded":
                done = self._finish_soon(attempt)
            if done is None:
                return
        except Stale:
            return
        except StoreUnreachable as error:
            _log.warning("store.away", attempt_id=attempt.attempt_id, reason=error.message)
            return  # Whether the recorded bytes are there is not known; a later round looks again.
        _log.warning("attempt.rescued", job_id=attempt.job_id, attempt_id=attempt.attempt_id, outcome=done)
        self._bell.ring()
        queue.wake(context.database)
        context.database.wake("changes")

    def _finish_soon(self, attempt: OpenAttempt) -> str | None:
        """`_finish`, unless the store hangs: other attempts are rescued meanwhile. None: not finished yet."""
        finishing = self._finishing.get(attempt.attempt_id)
        if finishing is None:
            if len(self._finishing) >= FINISHING:
                return None
            finishing = self._finishing[attempt.attempt_id] = Apart(partial(self._finish, attempt))
            finishing.ended.wait(FINISH_S)
        if not finishing.ended.is_set():
            return None
        del self._finishing[attempt.attempt_id]
        return finishing.result()

    def _finish(self, attempt: OpenAttempt) -> str:
        """A result was recorded before its worker died: verify the bytes and succeed with them."""
        context, now_ms = self._context, self._context.clock()
        record = context.database.read(lambda tx: artifacts.recorded_blob(tx, attempt.attempt_id))
        try:
            if record is None:
                raise CorruptBlob
            context.blobs.read_all(record)
        except StoreUnreachable:
            raise
        except (CorruptBlob, ArtifactUnavailable):
            context.database.write(
                lambda tx: finish.result_unusable(
                    tx,
                    attempt.attempt_id,
                    message="the recorded result's bytes are missing or damaged",
                    now_ms=now_ms,
                )
            )
            return "recovery_required"
        failpoints.hit("rescue.verified")
        try:
            context.database.write(
                lambda tx: finish.succeed(tx, context.ids, attempt.attempt_id, now_ms=now_ms)
            )
        except (Stale, Unavailable):
            raise
        except Exception as error:
            if is_of_the_machine(error):
                raise
            _log.exception("job.unsettled", job_id=attempt.job_id, attempt_id=attempt.attempt_id)
            self._hand_over(attempt, error, "unsettled", UNSETTLED)
            return "recovery_required"
        return "succeeded"

    def _keep_house(self, duties: "Duties", now: float) -> None:
        context = self._context
        duties.do("clock", lambda: self._compare_clocks(now))
        now_ms = context.clock()
        clocks_agree = self._agreement.holds(now_ms, now)
        if clocks_agree:
            for lane in kinds():
                duties.do("expire", lambda lane=lane: self._expire(duties, lane, now_ms), lane=lane)  # type: ignore[misc]
            duties.do("retention", lambda: self.retention.look(now_ms=now_ms))
        duties.do("backups", lambda: self._forget_backups(now))
        duties.do("workers", lambda: self._forget_workers(duties, now))
        duties.do("context", lambda: context.database.write(chunks.forget_final))
        duties.do("context", lambda: context.database.write(live_text.forget_final))
        duties.do("rescued", self.kept_results.look_at_files)
        if self._engines.broken():
            duties.do("engine", lambda: self._starts.begin(self._start_engines))
        duties.do("audit", lambda: self._auditor.look(trusts_the_clock=clocks_agree))

    def _compare_clocks(self, now: float) -> None:
        """Distrust our clock if it differs from that of the database's server. If it were years ahead, every
        job of every machine would look overdue.
        """
        context = self._context
        if context.database_clock is None:
            return
        before_ms = context.clock()
        theirs_ms = context.database_clock()
        ahead_ms = max(before_ms - theirs_ms, 0) or min(context.clock() - theirs_ms, 0)
        if abs(ahead_ms) > CLOCKS_AGREE_MS:
            self._agreement.doubt(now)
            self._heartbeat.agreement.doubt(time.monotonic())
            _log.warning("clock.differs", ahead_s=ahead_ms / 1000)

    def _expire(self, duties: "Duties", lane: str, now_ms: int) -> None:
        """Each job in a transaction of its own: one that cannot be expired does not hold up the others."""
        context = self._context
        expired: list[str] = []

        def end(job_id: str) -> None:
            if context.database.write(
                lambda tx: finish.expire(tx, context.ids, job_id=job_id, now_ms=now_ms)
            ):
                expired.append(job_id)

        after = self._looked_up_to.get(lane, "")
        jobs = context.database.read(lambda tx: finish.overdue(tx, lane=lane, now_ms=now_ms, after=after))
        self._looked_up_to[lane] = jobs[-1] if len(jobs) == finish.EXPIRY_BATCH else ""
        for job_id in jobs:
            duties.do("expire_job", lambda job_id=job_id: end(job_id), job_id=job_id)  # type: ignore[misc]
        if expired:
            _log.warning("jobs.expired", lane=lane, count=len(expired))

    def _weigh(self) -> None:
        """Enforce the memory limit of the engines and report how much they use."""
        weighed, before = self._engines.weigh(), self.weighed
        changed = max((abs(mib - before.get(engine, 0)) for engine, mib in weighed.items()), default=0)
        if weighed.keys() != before.keys() or changed >= CHANGED_MIB:
            worker_id = self._context.worker_id
            self._context.database.write(lambda tx: catalog.engines_weighed(tx, worker_id, weighed))
            self.weighed = weighed

    def _release_calls(self, duties: "Duties", now: float) -> None:
        """Release priced calls that have been open for longer than any lasts: their processes died."""
        context, now_ms = self._context, self._context.clock()

        def release(call_id: str) -> None:
            if context.database.write(lambda tx: calls.release(tx, context.ids, call_id, now_ms=now_ms)):
                _log.warning("call.released", call_id=call_id)

        rows = context.database.read(calls.open_calls)
        self._calls.observe(rows, now_s=now)
        for row in rows:
            if row.id in self._calls.away:
                duties.do("call", lambda call_id=row.id: release(call_id), call_id=row.id)  # type: ignore[misc]

    def _forget_backups(self, now: float) -> None:
        """Forget backups whose rows have stopped changing: their processes were killed."""
        database = self._context.database
        rows = database.read(backups.under_way)
        self._backups.observe(rows, now_s=now)
        for row in rows:
            if row.id in self._backups.away:
                backup_id, seen_at = row.id, row.seen_at
                if database.write(lambda tx, i=backup_id, s=seen_at: backups.forget(tx, i, seen_at=s)):  # type: ignore[misc]
                    _log.warning("backup.forgotten", backup_id=backup_id)

    def _forget_workers(self, duties: "Duties", now: float) -> None:
        context = self._context
        self._presence.observe(context.database.read(catalog.workers), now_s=now)

        def gone(tx: Transaction) -> list[tuple[str, str, str]]:
            return [
                (row.id, row.machine, row.lock_name)
                for row in catalog.workers(tx)
                if row.id != context.worker_id
                and row.id in self._presence.away
                and not queue.has_open_attempts(tx, row.id)
            ]

        def forget(worker_id: str, machine: str, lock_name: str) -> None:
            if machine == self._machine:
                if locks.is_held(context.locks, lock_name):
                    return
                locks.remove(context.locks, lock_name)
            context.database.write(lambda tx: catalog.forget_worker(tx, worker_id))
            _log.info("worker.forgotten", worker_id=worker_id)

        for worker in context.database.read(gone):
            duties.do("worker", lambda worker=worker: forget(*worker), worker_id=worker[0])  # type: ignore[misc]

    def _start_engines(self) -> None:
        """Retry engines that failed to start too often, in a thread of its own: a load may take ten minutes,
        or hang. After each try it rests as long as the try took, so that other engines can use the memory.
        """
        duties = Duties()
        for model in self._engines.broken():
            began = time.monotonic()
            duties.do("engine", lambda model=model: self._try_engine(model), model=model)  # type: ignore[misc]
            if self._starts.stopping.wait(time.monotonic() - began):
                return

    def _try_engine(self, model: str) -> None:
        try:
            self._engines.ready(model)
        except HostNotReady:
            return
        self._bell.ring()
