"""Any calls in any order: the audit finds nothing, slots are never exceeded, states only go forward.

The machine submits, claims, beats, records, ends, loses and repeats, with late and doubled calls among
them, on a real database; what it expects of money and states it works out itself.
"""

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobs.world import METERED, PRICE_MICROS, SPEECH, World
from tenuto.accounts.rules import Caller
from tenuto.db.database import Database
from tenuto.errors import IdempotencyConflict, InsufficientBalance, OperatorError, Stale
from tenuto.jobs import lifecycle, recover, waiting
from tenuto.jobs.lifecycle import RecordedResult
from tenuto.jobs.queue import Claim
from tenuto.jobs.states import FINAL, TRANSITIONS

SLOTS = 2
BY = recover.Decision("an operator")
ENDINGS = ("succeed", "fail", "cancelled", "release", "try_again", "unknown")


class Machine(RuleBasedStateMachine):
    """Two accounts, two workers, two slots."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.database)
        empty(self.world)
        self.world.slots(SLOTS)
        self.callers: list[Caller] = [
            self.world.caller(6 * PRICE_MICROS),
            self.world.caller(3 * PRICE_MICROS),
        ]
        self.claims: list[Claim] = []
        self.results: dict[str, RecordedResult] = {}
        self.states: dict[str, tuple[str, int]] = {}
        self.keys: dict[tuple[str, int], tuple[str, str]] = {}
        self.fenced: set[str] = set()
        self.allowed: set[str] = set()

    @rule(who=st.integers(0, 1), key=st.integers(0, 9), model=st.sampled_from([SPEECH, METERED]))
    def submit(self, who: int, key: int, model: str) -> None:
        caller = self.callers[who]
        before = self.world.balance(caller.account_id)
        bound = self.keys.get((caller.account_id, key))
        try:
            accepted = self.world.submit(caller, f"key {key}", model=model)
        except IdempotencyConflict:
            assert bound is not None and bound[1] != model
        except InsufficientBalance:
            assert bound is None and before[0] < PRICE_MICROS
        else:
            assert accepted.replayed == (bound is not None)
            assert bound in (None, (accepted.job_id, model))
            self.keys[caller.account_id, key] = (accepted.job_id, model)

    @rule(worker=st.sampled_from(["worker_a", "worker_b"]))
    def claim(self, worker: str) -> None:
        claim = self.world.claim(worker)
        running = len(self.in_state("running"))
        if claim is None:
            assert running == SLOTS or not self.in_state("queued", due=True)
            return
        # Nothing is called a second time unless an operator has said so by name.
        assert claim.job_id not in self.fenced or claim.job_id in self.allowed
        self.fenced.discard(claim.job_id)
        self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 5), ending=st.sampled_from(ENDINGS))
    def end(self, pick: int, ending: str) -> None:
        self.fenced_call(self.pick(pick), ending)

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 5), twice=st.booleans())
    def record(self, pick: int, twice: bool) -> None:
        claim = self.pick(pick)
        result = self.results.get(claim.attempt_id) if twice else None
        made = result or self.world.result()
        if self.fenced_call(claim, "record", made):
            self.results[claim.attempt_id] = made

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 5))
    def finish(self, pick: int) -> None:
        claim = self.pick(pick)
        if self.fenced_call(claim, "record", self.results.get(claim.attempt_id) or self.world.result()):
            self.fenced_call(claim, "succeed")

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 5))
    def fence(self, pick: int) -> None:
        claim = self.pick(pick)
        if not claim.rerunnable and self.fenced_call(claim, "fence"):
            self.fenced.add(claim.job_id)

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 5))
    def beat(self, pick: int) -> None:
        claim = self.pick(pick)
        is_over = self.world.attempt(claim.attempt_id)["state"] == "ended"

        assert (self.world.beat(claim.attempt_id) is None) == is_over

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 5), is_late=st.booleans())
    def rescue(self, pick: int, is_late: bool) -> None:
        claim = self.pick(pick)
        beat = self.world.attempt(claim.attempt_id)["beat"]
        self.fenced_call(claim, "rescue", beat - 1 if is_late else beat)

    @precondition(lambda self: self.states)
    @rule(pick=st.integers(0, 9), whose=st.integers(0, 1))
    def cancel(self, pick: int, whose: int) -> None:
        job = self.world.job(sorted(self.states)[pick % len(self.states)])
        self.world.cancel(job["account_id"], job["id"])

    @precondition(lambda self: self.in_state("recovery_required"))
    @rule(pick=st.integers(0, 5), how=st.sampled_from(["requeue", "void", "cancel", "complete", "bring"]))
    def decide(self, pick: int, how: str) -> None:
        world, jobs = self.world, self.in_state("recovery_required")
        job_id = jobs[pick % len(jobs)]
        result = world.result() if how == "bring" else None
        try:
            if how == "requeue":
                world.write(lambda tx: recover.requeue(tx, world.ids, job_id, by=BY, now_ms=world.now_ms))
                self.allowed.add(job_id)
            elif how in ("void", "cancel"):
                world.write(
                    lambda tx: recover.void(
                        tx, world.ids, job_id, cancel=how == "cancel", by=BY, now_ms=world.now_ms
                    )
                )
            else:
                world.write(
                    lambda tx: recover.complete(tx, world.ids, job_id, result, by=BY, now_ms=world.now_ms)
                )
        except OperatorError:
            assert how == "complete"

    @rule(minutes=st.sampled_from([1, 11, 60 * 24 * 3]))
    def pass_time(self, minutes: int) -> None:
        self.world.now_ms += minutes * 60_000

    @rule()
    def expire(self) -> None:
        world = self.world
        world.write(lambda tx: waiting.expire(tx, world.ids, lane="speech", now_ms=world.now_ms))

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 5))
    def damage(self, pick: int) -> None:
        self.fenced_call(self.pick(pick), "damage")

    @invariant()
    def records_and_money_agree(self) -> None:
        assert [] == self.world.findings()

    @invariant()
    def the_lane_is_not_exceeded(self) -> None:
        assert len(self.in_state("running")) <= SLOTS

    @invariant()
    def states_only_go_forward(self) -> None:
        for job in self.world.all("select id, state, event_sequence from job"):
            state, sequence = self.states.get(job["id"], (job["state"], job["event_sequence"]))
            assert job["event_sequence"] >= sequence
            assert job["state"] in reachable(state, job["event_sequence"] - sequence)
            self.states[job["id"]] = (job["state"], job["event_sequence"])

    @invariant()
    def accounts_have_what_they_should(self) -> None:
        for caller, given in zip(self.callers, (6, 3), strict=True):
            jobs = self.world.all("select state from job where account_id = :id", id=caller.account_id)
            charged = sum(job["state"] == "succeeded" for job in jobs)
            held = sum(job["state"] not in FINAL for job in jobs)
            expected = ((given - charged - held) * PRICE_MICROS, held * PRICE_MICROS)
            assert expected == self.world.balance(caller.account_id)

    def fenced_call(self, claim: Claim, name: str, *more: Any) -> bool:
        """Make the call; true when it was carried out. A stale one writes nothing."""
        world = self.world
        job, attempt = world.job(claim.job_id), world.attempt(claim.attempt_id)
        is_ours = job["attempt_id"] == claim.attempt_id and job["state"] in ("running", "recovery_required")
        before = world.everything()
        try:
            if name == "damage":
                world.write(
                    lambda tx: lifecycle.result_unusable(
                        tx, claim.attempt_id, message="damaged", now_ms=world.now_ms
                    )
                )
            else:
                getattr(world, name)(claim.attempt_id, *more)
        except Stale:
            assert before == world.everything()
            assert not (is_ours and job["state"] == "running" and attempt["state"] == "running") or (
                name in ("succeed", "damage") or (name == "rescue" and more != (attempt["beat"],))
            )
            return False
        assert is_ours
        if attempt["fenced_at"] is not None and name in ("rescue", "try_again"):
            assert world.state(claim.job_id) != "queued"
        return True

    def pick(self, number: int) -> Claim:
        """One of the newest claims, mostly the newest."""
        return self.claims[-1 - number % len(self.claims)]

    def in_state(self, state: str, *, due: bool = False) -> list[str]:
        now = self.world.now_ms if due else 2**62
        rows = self.world.all(
            "select id from job where state = :state and not_before_at <= :now order by id",
            state=state,
            now=now,
        )
        return [row["id"] for row in rows]


def reachable(state: str, steps: int) -> set[str]:
    """The states that a job can be in after at most so many events."""
    found = {state}
    for _ in range(steps):
        found |= {then for before in found for then in TRANSITIONS[before]}
    return found


def empty(world: World) -> None:
    """Take out every row, children first."""
    for table in ("slot", "turn", "event", "attempt", "idempotency", "entry"):
        world.run(f"delete from {table}")
    world.run("update job set artifact_id = null")
    for table in ("artifact", "job", "blob", "api_key_secret", "api_key", "account"):
        world.run(f"delete from {table}")


def test_any_calls_in_any_order(database: Database) -> None:
    """Whatever happens in whatever order, records and money agree (P2, P3, P4, P8, P9, P10)."""
    machine: type[Machine] = type("MachineOnThisDatabase", (Machine,), {"database": database})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
