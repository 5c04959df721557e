"""Keeping house: rescue silent attempts, finish recorded results, deadlines, the sweep, the audit.

Every worker does it; that several do is harmless, because each step is fenced. Nothing here trusts
wall time for a lease: a worker is dead when its lock is free (same machine), or when its attempt's
beat has stood still under our own eyes for `silence_s` on our own monotonic clock.
"""

import threading
import time
from dataclasses import dataclass

import structlog

from tenuto import failpoints
from tenuto.artifacts import backups
from tenuto.artifacts import operations as artifacts
from tenuto.catalog import operations as catalog
from tenuto.catalog.rules import WORKER_AWAY_MS
from tenuto.db.database import Transaction
from tenuto.errors import ArtifactUnavailable, CorruptBlob, Stale, StoreAway, Unavailable
from tenuto.hosts.host import HostNotReady
from tenuto.jobs import lanes, lifecycle, waiting
from tenuto.jobs import parts as job_parts
from tenuto.jobs.lanes import OpenAttempt
from tenuto.worker import locks, retention
from tenuto.worker.auditing import Auditor
from tenuto.worker.clocks import ClockAgreement
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Heartbeat
from tenuto.worker.parts import Bell, Parts
from tenuto.worker.sweep import Sweeper

LOOK_S = 0.5
HOUSEKEEPING_S = 60.0
SWEEP_S = 600.0
WEIGH_S = 5.0
CHANGED_MIB = 16
"""A change of what an engine takes is told when it is at least so large."""

_log = structlog.get_logger("tenuto.worker")


@dataclass(slots=True)
class _Seen:
    """What was seen of another's attempt, and since when on our monotonic clock."""

    beat: int
    since: float


class Upkeep:
    """The thread that keeps house."""

    def __init__(self, parts: Parts, engines: Engines, heartbeat: Heartbeat, bell: Bell) -> None:
        self._parts = parts
        self._engines = engines
        self._heartbeat = heartbeat
        self._bell = bell
        self._machine = locks.machine(parts.locks)
        self._seen: dict[str, _Seen] = {}
        self._looked_at = float("-inf")
        self._agreement = ClockAgreement(parts.clock(), time.monotonic())
        self._auditor = Auditor(parts)
        self.sweeper = Sweeper(parts)
        self._due = dict.fromkeys(("house", "sweep", "weigh"), 0.0)
        # MiB by engine, as they were told; replaced as a whole.
        self.weighed: dict[str, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=10)
        self._auditor.stop()
        self.sweeper.stop()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look(time.monotonic())
            except Unavailable:
                _log.warning("upkeep.not_possible")
            except Exception:
                _log.exception("upkeep.failed")
            self._stopping.wait(LOOK_S)

    def look(self, now: float) -> None:
        """One round; `now` is monotonic seconds.

        What was seen before the database went away proves nothing after it, nor does what was seen
        before a long gap: a machine or a network that stood still may have kept the beats from coming.
        """
        if now - self._looked_at > max(2 * LOOK_S, self._parts.settings.silence_s / 3):
            self._seen.clear()
        self._looked_at = now
        try:
            self._round(now)
        except Unavailable:
            self._seen.clear()
            raise

    def _round(self, now: float) -> None:
        self._rescue(now)
        is_house_due = now >= self._due["house"]
        if is_house_due:
            self._due["house"] = now + HOUSEKEEPING_S
            self._keep_house(now)
        if now >= self._due["weigh"]:
            self._due["weigh"] = now + WEIGH_S
            self._weigh()
        if now >= self._due["sweep"] and self._agreement.is_steady(now):
            self._due["sweep"] = now + SWEEP_S
            self.sweeper.look()
        elif is_house_due:
            self.sweeper.remove()

    def _rescue(self, now: float) -> None:
        ours = {watched.attempt_id for watched in self._heartbeat.active()}
        others = [
            attempt
            for attempt in self._parts.database.read(lanes.open_attempts)
            if attempt.attempt_id not in ours
        ]
        self._seen = {
            attempt.attempt_id: self._seen[attempt.attempt_id]
            for attempt in others
            if attempt.attempt_id in self._seen
        }
        for attempt in others:
            if self._is_silent(attempt, now):
                self._rescue_one(attempt)

    def _is_silent(self, attempt: OpenAttempt, now: float) -> bool:
        elsewhere = attempt.machine != self._machine or attempt.worker_id == self._parts.worker_id
        if not elsewhere and attempt.lock_name is not None:
            return not locks.is_held(self._parts.locks, attempt.lock_name)
        seen = self._seen.get(attempt.attempt_id)
        if seen is None or seen.beat != attempt.beat:
            self._seen[attempt.attempt_id] = _Seen(attempt.beat, now)
            return False
        return now - seen.since >= self._parts.settings.silence_s

    def _rescue_one(self, attempt: OpenAttempt) -> None:
        parts, now_ms = self._parts, self._parts.clock()

        def rescue(tx: Transaction) -> str:
            done = lifecycle.rescue(tx, parts.ids, attempt.attempt_id, beat=attempt.beat, now_ms=now_ms)
            failpoints.hit("rescue.before_commit")
            return done

        try:
            done = parts.database.write(rescue)
            failpoints.hit("rescue.after_commit")
            if done == "recorded":
                done = self._finish(attempt)
        except Stale:
            return
        except StoreAway as error:
            _log.warning("store.away", attempt_id=attempt.attempt_id, reason=error.message)
            return  # Whether the recorded bytes are there is not known; it is looked at again.
        _log.warning("attempt.rescued", job_id=attempt.job_id, attempt_id=attempt.attempt_id, outcome=done)
        self._bell.ring()
        parts.database.wake("jobs")
        parts.database.wake("changes")

    def _finish(self, attempt: OpenAttempt) -> str:
        """A result was recorded before its worker died: verify the bytes and succeed with them."""
        parts, now_ms = self._parts, self._parts.clock()
        record = parts.database.read(lambda tx: artifacts.recorded_blob(tx, attempt.attempt_id))
        try:
            if record is None:
                raise CorruptBlob
            parts.blobs.read_all(record)
        except StoreAway:
            raise
        except (CorruptBlob, ArtifactUnavailable):
            parts.database.write(
                lambda tx: lifecycle.result_unusable(
                    tx,
                    attempt.attempt_id,
                    message="the recorded result's bytes are missing or damaged",
                    now_ms=now_ms,
                )
            )
            return "recovery_required"
        failpoints.hit("rescue.verified")
        parts.database.write(lambda tx: lifecycle.succeed(tx, parts.ids, attempt.attempt_id, now_ms=now_ms))
        return "succeeded"

    def _keep_house(self, now: float) -> None:
        parts, now_ms = self._parts, self._parts.clock()
        clocks_agree = self._agreement.holds(now_ms, now)
        if clocks_agree:
            for lane in parts.settings.slots():
                expired = parts.database.write(
                    lambda tx, lane=lane: waiting.expire(tx, parts.ids, lane=lane, now_ms=now_ms)  # type: ignore[misc]
                )
                if expired:
                    _log.warning("jobs.expired", lane=lane, count=expired)
            retention.keep_to(parts, now_ms=now_ms)
        if parts.database.write(lambda tx: backups.forget_dead(tx, now_ms=now_ms)):
            _log.warning("backup.forgotten")
        self._forget_workers(now_ms)
        parts.database.write(job_parts.forget_final)
        for model in self._engines.broken():
            self._try_engine(model)
        self._auditor.look(trusts_the_clock=clocks_agree)

    def _weigh(self) -> None:
        """Keep the engines within what they may take, and tell the operator what they do take."""
        weighed, before = self._engines.weigh(), self.weighed
        changed = max((abs(mib - before.get(engine, 0)) for engine, mib in weighed.items()), default=0)
        if weighed.keys() != before.keys() or changed >= CHANGED_MIB:
            worker_id = self._parts.worker_id
            self._parts.database.write(lambda tx: catalog.engines_weighed(tx, worker_id, weighed))
            self.weighed = weighed

    def _forget_workers(self, now_ms: int) -> None:
        parts = self._parts

        def gone(tx: Transaction) -> list[tuple[str, str, str]]:
            return [
                (row["id"], row["machine"], row["lock_name"])
                for row in catalog.workers(tx)
                if row["id"] != parts.worker_id
                and row["seen_at"] < now_ms - WORKER_AWAY_MS
                and not lanes.has_open_attempts(tx, row["id"])
            ]

        for worker_id, machine, lock_name in parts.database.read(gone):
            if machine == self._machine:
                if locks.is_held(parts.locks, lock_name):
                    continue
                locks.remove(parts.locks, lock_name)
            parts.database.write(lambda tx, worker_id=worker_id: catalog.forget_worker(tx, worker_id))  # type: ignore[misc]
            _log.info("worker.forgotten", worker_id=worker_id)

    def _try_engine(self, model: str) -> None:
        try:
            self._engines.ready(model)
        except HostNotReady:
            return
        self._bell.ring()
