"""Rescue: what becomes of attempts whose workers are silent. Every worker looks after all others' attempts.

Nothing here trusts wall time: a worker is dead when its lock is free (same machine), or when this worker
itself has seen no heartbeat of its attempt for `silence_s` on its own monotonic clock.
"""

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
from tenuto.file import operations as artifacts
from tenuto.file.apart import Apart
from tenuto.job import finish, queue
from tenuto.job.queue_sql import OpenAttempt
from tenuto.job.states import UNFORESEEN, UNSETTLED
from tenuto.logs import get_logger
from tenuto.worker import locks
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import ROUND_S, Turn
from tenuto.worker.heartbeat import Heartbeat

FINISH_S, FINISHING = 2.0, 8
"""How long a round waits for a recorded result that it reads, and how many may be read at once."""
FIRST_TROUBLE_S, LONGEST_TROUBLE_S = 5.0, 600.0
"""The pauses between two tries of a rescue that hits an unexpected error."""

_log = get_logger("tenuto.worker")


class _Seen(Struct):
    """The last heartbeat seen of an attempt that does not run here, and since when on our monotonic clock."""

    beat: int
    since: float


class _Trouble(Struct, frozen=True):
    """An attempt whose rescue met an unforeseen error, and when it is retried."""

    pause_s: float
    until: float


class Rescue:
    """One worker's rescues, and what it has seen of others' attempts."""

    def __init__(self, context: WorkerContext, heartbeat: Heartbeat, wake_slots: Callable[[], None]) -> None:
        self._context = context
        self._heartbeat = heartbeat
        self._wake_slots = wake_slots
        self._machine = locks.machine(context.locks)
        self._checked_at = float("-inf")
        self._seen: dict[str, _Seen] = {}
        self._troubles: dict[str, _Trouble] = {}
        # By attempt: what reads a recorded result now, from a store that may hang.
        self._finishing: dict[str, Apart[str]] = {}

    def rescue(self, turn: Turn) -> None:
        """Rescue the attempts that are silent.

        What was seen before the database went away proves nothing afterwards, nor does what was seen
        before a long gap: a machine or a network that stood still may have kept the heartbeats from coming.
        """
        gap_s, self._checked_at = turn.now - self._checked_at, turn.now
        if turn.after_outage or gap_s > max(2 * ROUND_S, self._context.settings.silence_s / 3):
            self._seen.clear()
        ours = {watched.attempt_id for watched in self._heartbeat.active()}
        others = {
            attempt.attempt_id: attempt
            for attempt in self._context.database.read(queue.open_attempts)
            if attempt.attempt_id not in ours
        }
        self._seen = {id_: seen for id_, seen in self._seen.items() if id_ in others}
        self._troubles = {id_: trouble for id_, trouble in self._troubles.items() if id_ in others}
        self._finishing = {
            id_: finishing
            for id_, finishing in self._finishing.items()
            if id_ in others or not finishing.ended.is_set()
        }
        for attempt in others.values():
            turn.do(
                "rescue_attempt",
                partial(self._check, attempt, turn),
                job_id=attempt.job_id,
                attempt_id=attempt.attempt_id,
            )

    def _check(self, attempt: OpenAttempt, turn: Turn) -> None:
        """Rescue it if its worker is silent; one that cannot be rescued is retried less and less often."""
        trouble = self._troubles.get(attempt.attempt_id)
        if not self._is_silent(attempt, turn.now) or (trouble is not None and turn.now < trouble.until):
            return
        try:
            self._rescue_one(attempt, turn)
        except Unavailable:
            raise
        except Exception as error:
            pause_s = FIRST_TROUBLE_S if trouble is None else min(2 * trouble.pause_s, LONGEST_TROUBLE_S)
            self._troubles[attempt.attempt_id] = _Trouble(pause_s, turn.now + pause_s)
            if is_of_the_machine(error):
                raise
            self._hand_over(attempt, error, "unforeseen", UNFORESEEN)
            raise

    def _is_silent(self, attempt: OpenAttempt, now: float) -> bool:
        elsewhere = attempt.machine != self._machine or attempt.worker_id == self._context.worker_id
        if not elsewhere and attempt.lock_name is not None:
            return not locks.is_held(self._context.locks, attempt.lock_name)
        seen = self._seen.get(attempt.attempt_id)
        if seen is None or seen.beat != attempt.beat:
            self._seen[attempt.attempt_id] = _Seen(attempt.beat, now)
            return False
        return now - seen.since >= self._context.settings.silence_s

    def _rescue_one(self, attempt: OpenAttempt, turn: Turn) -> None:
        context, now_ms = self._context, self._context.clock()

        def rescue(tx: Transaction) -> str:
            done = finish.rescue(tx, context.ids, attempt.attempt_id, beat=attempt.beat, now_ms=now_ms)
            failpoints.hit("rescue.before_commit")
            return done

        try:
            done: str | None = context.database.write(rescue)
            failpoints.hit("rescue.after_commit")
            if done == "kept":
                turn.kept.append(attempt.attempt_id)
                return  # A later round finds it recorded.
            if done == "recorded":
                done = self._finish_soon(attempt)
            if done is None:
                return
        except Stale:
            return
        except StoreUnreachable as error:
            _log.warning("store.away", attempt_id=attempt.attempt_id, reason=error.message)
            return  # Whether the recorded bytes are there is not known; a later round tries again.
        _log.warning("attempt.rescued", job_id=attempt.job_id, attempt_id=attempt.attempt_id, outcome=done)
        self._wake_slots()
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
