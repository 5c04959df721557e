"""What workers do: claim, beat, pass the fence, show, record, end an attempt; late, twice, two at once."""

import copy

from hypothesis import strategies as st
from hypothesis.stateful import rule

from properties.ground import FATES, PICKS, SLOTS, WORKERS, Ground
from properties.model import Attempt, Late, Model
from servers.world import EVERY_MODEL, LANE, at_once
from tenuto.db.database import Transaction
from tenuto.errors import Stale
from tenuto.job import audio_segments, chunks, finish, queue
from tenuto.job.queue import Claim
from tenuto.job.rows import ChunkKey, NewSegment

ENDINGS = (
    *("succeed", "fail", "cancelled", "release", "try_again", "unforeseen", "unknown"),
    *("damage", "settle"),
)
CHUNK = ChunkKey("segment_text", 0, 0, 160_000, "fake/segment-text", "1")


class Workers(Ground):
    """Three workers, and the ghosts of those that have lost their attempts."""

    @rule(worker=st.sampled_from(WORKERS), fate=FATES)
    def claim(self, worker: str, fate: str) -> None:
        """A claim whose answer is lost leaves an attempt that nobody works on."""
        if worker == "worker_b" and not self.lock_held:
            worker = "worker_far"
        if fate == "undone":
            self.undone(lambda tx: self.claiming(tx, worker))
            return
        expected = self.model.next_job(self.world.now_ms)
        claim = self.world.write(lambda tx: self.claiming(tx, worker))
        assert (claim.job_id if claim else None) == (expected.job_id if expected else None)
        if claim is not None and expected is not None:
            self.begun(expected, claim.attempt_id, worker)

    @rule()
    def claim_at_once(self) -> None:
        """Two workers: never the same job, never one slot too many, and never nobody."""
        now = self.world.now_ms
        due = [job for job in self.model.in_state("queued") if not now < job.not_before_at <= now + 600_000]
        free = SLOTS - len(self.model.in_state("running"))
        names = ("worker_us", "worker_far")
        answers = at_once(2, lambda nth: self.world.write(lambda tx: self.claiming(tx, names[nth])))
        claims = [
            (claim, name) for claim, name in zip(answers, names, strict=True) if isinstance(claim, Claim)
        ]
        assert len(claims) + answers.count(None) == 2, answers
        assert min(1, len(due), free) <= len(claims) <= min(len(due), free)
        for claim, worker in claims:
            self.begun(self.model.jobs[claim.job_id], claim.attempt_id, worker)
        rows = self.world.all("select account_id, served from turn")
        self.model.served = {row["account_id"]: row["served"] for row in rows}

    @rule(pick=PICKS)
    def beat(self, pick: int) -> None:
        attempt = self.attempt(pick)
        expected = None if attempt.state == "ended" else attempt.job.is_cancel_asked

        assert expected == self.world.beat(attempt.attempt_id)
        self.heard[attempt.attempt_id] = self.mono

    @rule(pick=PICKS, fate=FATES)
    def fence(self, pick: int, fate: str) -> None:
        attempt = self.attempt(pick)
        if attempt.job.is_metered:
            self.call(fate, self.operation("fence", attempt), lambda: self.model.fence(attempt))

    @rule(pick=PICKS, is_same=st.booleans(), fate=FATES)
    def record(self, pick: int, is_same: bool, fate: str) -> None:
        """Bytes first, then the row; killed between them they are the sweep's."""
        world, attempt = self.world, self.attempt(pick)
        self.forget_result(attempt)
        if not is_same:
            self.results.pop(attempt.attempt_id, None)
        result = self.result(attempt)
        self.call(
            fate,
            lambda tx: finish.record_result(tx, attempt.attempt_id, result, now_ms=world.now_ms),
            lambda: self.model.record(attempt, result.blob.blob_id),
        )

    @rule(pick=PICKS, ending=st.sampled_from(ENDINGS), fate=FATES)
    def end(self, pick: int, ending: str, fate: str) -> None:
        attempt = self.attempt(pick)
        self.forget_result(attempt)
        self.call(fate, self.operation(ending, attempt), lambda: self.expected(ending, attempt))

    @rule(pick=PICKS, endings=st.tuples(st.sampled_from(ENDINGS), st.sampled_from(ENDINGS)))
    def end_at_once(self, pick: int, endings: tuple[str, str]) -> None:
        """Two processes end an attempt at one moment: as if one had come after the other."""
        attempt = self.attempt(pick)
        self.forget_result(attempt)
        operations = [self.operation(ending, attempt) for ending in endings]
        orders = [self.in_order(attempt, endings, order) for order in ((0, 1), (1, 0))]
        answers = at_once(2, lambda number: self.world.write(operations[number]))
        late = tuple(isinstance(answer, Stale) for answer in answers)
        assert not [one for one in answers if isinstance(one, Exception) and not isinstance(one, Stale)]
        state = self.world.state(attempt.job.job_id)
        fitting = [
            model
            for model, were_late in orders
            if were_late == late and model.jobs[attempt.job.job_id].state == state
        ]
        assert fitting, (endings, late, state)
        self.model = fitting[0]

    @rule(pick=PICKS, is_late=st.booleans(), fate=FATES)
    def rescue(self, pick: int, is_late: bool, fate: str) -> None:
        world, attempt = self.world, self.attempt(pick)
        beat = world.attempt(attempt.attempt_id)["beat"] - is_late

        def operation(tx: Transaction) -> str:
            return finish.rescue(tx, world.ids, attempt.attempt_id, beat=beat, now_ms=world.now_ms)

        def expected() -> None:
            job = attempt.job
            if is_late or job.newest is not attempt:
                raise Late
            if attempt.state != "recorded" or job.state not in ("running", "recovery_required"):
                self.model.rescue(attempt, world.now_ms)

        self.call(fate, operation, expected)

    @rule(pick=PICKS, is_same=st.booleans(), fate=FATES)
    def show(self, pick: int, is_same: bool, fate: str) -> None:
        """A segment in its order, or one said again."""
        world, attempt = self.world, self.attempt(pick)
        again = is_same and bool(attempt.segments)
        segment_id = attempt.segments[-1] if again else world.ids.new("segment")
        sequence = len(attempt.segments) - again
        new = NewSegment(segment_id, sequence, self.stored(b"a segment"), 10)
        self.call(
            fate,
            lambda tx: audio_segments.save(tx, attempt.attempt_id, new, now_ms=world.now_ms),
            lambda: self.model.show(attempt, segment_id),
        )

    @rule(pick=PICKS, fate=FATES)
    def keep_part(self, pick: int, fate: str) -> None:
        """A part of the attempt that has the job; said again it is one."""
        world, attempt = self.world, self.attempt(pick)

        def expected() -> None:
            if attempt.job.newest is not attempt or attempt.job.state != "running":
                raise Late

        self.call(
            fate,
            lambda tx: chunks.add(tx, attempt.attempt_id, CHUNK, {}, now_ms=world.now_ms),
            expected,
        )

    def claiming(self, tx: Transaction, worker: str) -> Claim | None:
        return queue.claim(
            tx,
            self.world.ids,
            worker_id=worker,
            lane=LANE,
            slots=SLOTS,
            models=EVERY_MODEL,
            now_ms=self.world.now_ms,
        )

    def in_order(
        self, attempt: Attempt, endings: tuple[str, str], order: tuple[int, int]
    ) -> tuple[Model, tuple[bool, bool]]:
        """The model after both endings in this order, and which of the two came too late."""
        model = copy.deepcopy(self.model)
        late = [False, False]
        for number in order:
            before = copy.deepcopy(model)
            try:
                self.expected(endings[number], model.attempts[attempt.attempt_id], model)
            except Late:
                model, late[number] = before, True
        return model, (late[0], late[1])
