"""What happens without callers and workers: upkeep on clocks that jump, bytes that rot, operators' decisions.

The upkeep is the shipped one. The machine says of each attempt whether it may be rescued, and if it must.
"""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from properties.ground import FATES, PICKS, Ground, Operation
from properties.model import Attempt, Job
from servers.rig import SILENCE_S
from servers.speed import HANG_S
from tenuto.errors import OperatorError
from tenuto.job import recover
from tenuto.job.states import Decision

BY = Decision("an operator")
LOOK_EVERY_S = 9.0
AGREE_S = 600.0
HOUSE_S = 60.0
BEGIN_MS = 1_767_225_600_000
"""2026: an earlier deadline is one of a clock that had not been set (P20)."""
JUMPS_MS = (3_600_000, -7_200_000, 3 * 24 * 3600 * 1000, 20 * 24 * 3600 * 1000, -20 * 24 * 3600 * 1000)


class Keepers(Ground):
    """One worker's upkeep, an operator, and time."""

    @rule(seconds=st.sampled_from([1, 12, 55, 800]), beating=st.booleans())
    def wait(self, seconds: int, beating: bool) -> None:
        """Time passes under the eyes of upkeep; other machines' workers beat meanwhile, or are silent."""
        until = self.mono + seconds
        while self.mono < until:
            step = min(LOOK_EVERY_S, until - self.mono)
            self.mono += step
            self.world.now_ms += round(step * 1000)
            for attempt in self.open_attempts() if beating else []:
                self.world.beat(attempt.attempt_id)
                self.heard[attempt.attempt_id] = self.mono
            self.upkeep.do_due(self.mono)
            # The sweep has a thread of its own; what it does is compared with the model, too.
            self.upkeep.threads["sweep"].join(HANG_S)
            self.follow()

    @rule(jump=st.sampled_from(JUMPS_MS))
    def jump(self, jump: int) -> None:
        """The wall clock is set; nothing else has happened (P20)."""
        self.world.now_ms += jump
        self.jumped_at = self.mono

    @rule()
    def start_in_1970(self) -> None:
        """The machine has lost the time."""
        self.world.now_ms = 1000
        self.jumped_at = self.mono

    @rule()
    def die_or_live(self) -> None:
        """The neighbour's process ends, and the kernel frees its lock; or it is there again."""
        if self.lock_held:
            self.lock.release()
        else:
            self.world.run("delete from worker_model where worker_id = 'worker_b'")
            self.world.run("delete from worker where id = 'worker_b'")
            self.rig.neighbour("worker_b")
            self.lock = self.rig.lock("worker_b")
        self.lock_held = not self.lock_held

    @rule()
    def rot(self) -> None:
        """A bit of a recorded result flips before it is settled."""
        recorded = {attempt.blob for attempt in self.open_attempts() if attempt.blob} - self.spoiled
        if not recorded:
            return
        blob_id = min(recorded)
        [file] = (self.place / "blobs").glob(f"*/{blob_id}")
        content = file.read_bytes()
        file.chmod(0o600)
        file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        self.spoiled.add(blob_id)

    @rule(
        pick=PICKS,
        how=st.sampled_from(["requeue", "failed", "cancelled", "complete", "bring"]),
        fate=FATES,
    )
    def decide(self, pick: int, how: str, fate: str) -> None:
        """An operator decides by name; about a job that waits for nobody there is nothing to decide (P10)."""
        waiting = self.model.in_state("recovery_required")
        job = self.job(pick, *(["recovery_required"] if waiting and pick < 5 else []))
        operation = self.deciding(job, how)
        can = job.state == "recovery_required" and job.newest is not None
        if how == "requeue":
            can = can and not BEGIN_MS <= job.deadline_at <= self.world.now_ms
        if how == "complete":
            can = can and job.newest is not None and job.newest.blob is not None
        if not can:
            self.refused(OperatorError, operation)
            return
        self.call(fate, operation, lambda: self.decided(job, how))

    def deciding(self, job: Job, how: str) -> Operation:
        world, now = self.world, self.world.now_ms
        job_id = job.job_id
        if how == "requeue":
            return lambda tx: recover.requeue(tx, world.ids, job_id, by=BY, now_ms=now)
        if how in ("failed", "cancelled"):
            return lambda tx: recover.void(
                tx, world.ids, job_id, cancel=how == "cancelled", by=BY, now_ms=now
            )
        result = world.result(blob=self.stored(b"brought by the operator")) if how == "bring" else None
        return lambda tx: recover.complete(tx, world.ids, job_id, result, by=BY, now_ms=now)

    def decided(self, job: Job, how: str) -> None:
        """The model's side of a decision."""
        if how == "requeue":
            self.model.requeue(job)
        else:
            self.model.void(job, how if how in ("failed", "cancelled") else "succeeded")

    # --- what upkeep has done -------------------------------------------------------------------------

    def open_attempts(self) -> list[Attempt]:
        return [attempt for attempt in self.model.attempts.values() if attempt.state != "ended"]

    def follow(self) -> None:
        """Take over what upkeep did, if it may do that; fail if it did not do what it must."""
        states = {row["id"]: row["state"] for row in self.world.all("select id, state from job")}
        ended = {row["id"] for row in self.world.all("select id from attempt where state = 'ended'")}
        for attempt in self.open_attempts():
            done = states[attempt.job.job_id] != attempt.job.state or attempt.attempt_id in ended
            assert done or not self.must_rescue(attempt), "nobody noticed"
            if done:
                assert self.may_rescue(attempt), "taken from a worker that lives"
                self.rescued(attempt)
        for job in self.model.in_state("queued"):
            overdue = BEGIN_MS <= job.deadline_at <= self.world.now_ms
            agreed_s = self.mono - self.jumped_at
            if states[job.job_id] == "failed":
                assert overdue and agreed_s >= AGREE_S, "failed by a clock that nobody may trust"
                job.finish("failed")
            else:
                assert not overdue or agreed_s < AGREE_S + 2 * HOUSE_S + 2 * LOOK_EVERY_S, "overdue for ever"

    def may_rescue(self, attempt: Attempt) -> bool:
        if attempt.worker == "worker_b":
            return not self.lock_held
        return self.mono - self.heard[attempt.attempt_id] >= SILENCE_S

    def must_rescue(self, attempt: Attempt) -> bool:
        if attempt.worker == "worker_b":
            return not self.lock_held
        return self.mono - self.heard[attempt.attempt_id] >= SILENCE_S + 2 * LOOK_EVERY_S

    def rescued(self, attempt: Attempt) -> None:
        if attempt.state != "recorded":
            self.model.rescue(attempt, self.world.now_ms)
        elif attempt.blob in self.spoiled:
            self.model.damage(attempt)
        else:
            self.model.succeed(attempt)
