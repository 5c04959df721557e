"""What an operator does by name with a job whose paid call has an unknown outcome."""

import pytest

from servers.world import METERED, PRICE_MICROS, World, any_key, at_once
from tenuto.errors import IdempotencyConflict, OperatorError, Stale
from tenuto.job import finish, queue, read, recover
from tenuto.job.queue import Claim
from tenuto.job.states import Decision

CREDIT = 100 * PRICE_MICROS
HELD = (CREDIT - PRICE_MICROS, PRICE_MICROS)
CHARGED = (CREDIT - PRICE_MICROS, 0)
BY = Decision("alice", "asked the upstream: ticket 7")


@pytest.mark.parametrize(
    ("how", "written", "end"),
    [
        ("complete", ("settle", "succeeded", "completed by the operator"), ("succeeded", CHARGED)),
        ("requeue", ("adjust", "requeued", "requeued by the operator"), ("queued", HELD)),
        ("void", ("void", "failed", "voided by the operator"), ("failed", (CREDIT, 0))),
        ("cancel", ("void", "cancelled", "voided by the operator"), ("cancelled", (CREDIT, 0))),
    ],
)
def test_a_decision_stands_in_the_ledger_and_in_the_events(
    world: World, how: str, written: tuple[str, str, str], end: tuple[str, tuple[int, int]]
) -> None:
    """Each exit is written with who decided and why; the caller sees no name. A late result changes nothing
    any more (P8, P10).
    """
    claim, (entry, event, detail) = waiting(world), written
    decide(world, how, claim.job_id)
    before = world.everything()
    with pytest.raises(Stale):
        world.record(claim.attempt_id)
    assert before == world.everything()
    assert end == (world.state(claim.job_id), world.balance(claim.account_id))
    last = world.all("select * from event where job_id = :id order by sequence", id=claim.job_id)[-1]
    ledger = world.all("select type, note from entry where job_id = :id order by id", id=claim.job_id)
    seen = world.read(lambda tx: read.events(tx, any_key(claim.account_id), claim.job_id))

    assert (event, "alice", "asked the upstream: ticket 7", detail) == (
        last["type"],
        last["operator"],
        last["note"],
        last["detail"],
    )
    line = detail.replace("the operator", "alice: asked the upstream: ticket 7")
    assert {"type": entry, "note": line} == ledger[-1]
    assert "alice" not in repr(seen)
    assert [] == world.findings()


@pytest.mark.parametrize("how", ["complete", "requeue", "void"])
def test_a_decision_that_is_repeated_decides_once(world: World, how: str) -> None:
    """After a lost answer it finds its own ledger line, also where the job waits once more (P3, P10).

    The same id for another decision is a conflict.
    """
    claim = waiting(world)
    by = Decision("alice", "ticket 7", world.ids.new("entry"))
    decide(world, how, claim.job_id, by=by)
    if how == "requeue":
        again = world.claim()
        assert again is not None
        world.fence(again.attempt_id)
        world.unknown(again.attempt_id)
    before = world.everything()
    decide(world, how, claim.job_id, by=by)

    assert before == world.everything()
    assert 1 == len(world.all("select 1 from entry where id = :id", id=by.entry_id))
    with pytest.raises(IdempotencyConflict):
        decide(world, "void" if how != "void" else "requeue", claim.job_id, by=by)
    assert [] == world.findings()


def test_of_operators_who_decide_at_once_one_does(world: World) -> None:
    """The others are told that the job does not wait any more; one resolution, one decision (P3, P8)."""
    claim = waiting(world)
    ways = ("complete", "requeue", "void", "void")
    answers = at_once(len(ways), lambda number: decide(world, ways[number], claim.job_id))
    refused = [answer for answer in answers if isinstance(answer, OperatorError)]
    signed = world.all("select 1 from event where operator is not null")

    assert [None] == [answer for answer in answers if answer not in refused]
    assert {True} == {"does not wait for recovery" in answer.message for answer in refused}
    assert 1 == len(signed)
    assert [] == world.findings()


def test_a_job_past_its_deadline_is_not_requeued(world: World) -> None:
    """It would fail at once; the refusal says what there is instead, and nothing changes."""
    claim = waiting(world)
    world.now_ms += 15 * 24 * 3600 * 1000
    before = world.everything()

    with pytest.raises(OperatorError, match=r"deadline.*complete or void it"):
        decide(world, "requeue", claim.job_id)
    assert before == world.everything()


@pytest.mark.parametrize("operator", ["", "  ", "a\0b", "x" * 1001])
def test_a_decision_has_a_name(operator: str) -> None:
    """Nobody decides without one."""
    with pytest.raises(OperatorError):
        Decision(operator)


def test_completing_without_a_result_is_refused(world: World) -> None:
    """The error says what to bring; nothing changes."""
    claim = waiting(world)
    before = world.everything()

    with pytest.raises(OperatorError, match="--file"):
        world.write(
            lambda tx: recover.complete(tx, world.ids, claim.job_id, None, by=BY, now_ms=world.now_ms)
        )
    assert before == world.everything()


def test_requeueing(world: World) -> None:
    """It runs again under its old hold, as a new attempt; the old one's result comes too late."""
    claim = waiting(world)
    world.write(lambda tx: recover.requeue(tx, world.ids, claim.job_id, by=BY, now_ms=world.now_ms))

    again = world.claim()
    assert again is not None
    assert (claim.job_id, 2) == (again.job_id, again.number)
    with pytest.raises(Stale):
        world.record(claim.attempt_id)
    world.finish(again.attempt_id)
    assert ["hold", "adjust", "settle"] == world.entries(claim.job_id)


def test_a_damaged_job_that_names_no_attempt_can_be_voided(broken_world: World) -> None:
    """There is nothing to complete, and the operator is told so; the hold comes back all the same (P3)."""
    world = broken_world
    claim = waiting(world)
    world.run("update job set attempt_id = null where id = :id", id=claim.job_id)
    before = world.everything()
    with pytest.raises(OperatorError, match="names no attempt; void it"):
        decide(world, "complete", claim.job_id)

    assert before == world.everything()
    decide(world, "void", claim.job_id)
    assert ("failed", ["hold", "void"]) == (world.state(claim.job_id), world.entries(claim.job_id))
    assert (CREDIT, 0) == world.balance(claim.account_id)


@pytest.mark.parametrize("how", ["requeue", "void"])
def test_the_operators_word_ends_an_attempt_whose_result_had_come(world: World, how: str) -> None:
    """A late result that was recorded and not settled is not left behind as an open attempt."""
    claim = waiting(world)
    world.record(claim.attempt_id)
    decide(world, how, claim.job_id)
    if how == "requeue":
        assert world.claim() is not None

    assert [] == world.findings()
    assert "ended" == world.attempt(claim.attempt_id)["state"]
    with pytest.raises(Stale):
        world.succeed(claim.attempt_id)


@pytest.mark.parametrize("brought", [True, False])
def test_completing_after_a_late_result(world: World, brought: bool) -> None:
    """The result that had come is used, or the one that the operator brings instead."""
    claim = waiting(world)
    world.record(claim.attempt_id)
    result = world.result() if brought else None
    late = world.attempt(claim.attempt_id)["blob_id"]
    world.write(lambda tx: recover.complete(tx, world.ids, claim.job_id, result, by=BY, now_ms=world.now_ms))

    used = world.row("select blob_id from artifact")["blob_id"]
    assert "succeeded" == world.state(claim.job_id)
    assert (late if result is None else result.blob.blob_id) == used


def test_a_late_result_that_is_damaged_goes_on_waiting(world: World) -> None:
    """It is looked at once, not again and again; the operator still decides."""
    claim = waiting(world)
    world.record(claim.attempt_id)
    world.write(
        lambda tx: finish.result_unusable(tx, claim.attempt_id, message="damaged", now_ms=world.now_ms)
    )

    assert "recovery_required" == world.state(claim.job_id)
    assert [] == world.read(queue.open_attempts)
    decide(world, "void", claim.job_id)


@pytest.mark.parametrize("state", ["queued", "running", "succeeded", "failed", "unknown id"])
def test_only_a_job_that_waits_is_decided_on(world: World, state: str) -> None:
    """Any other is refused and unchanged; a decision is made once."""
    claim = world.running()
    if state == "succeeded":
        world.finish(claim.attempt_id)
    elif state == "failed":
        world.fail(claim.attempt_id)
    elif state == "queued":
        world.rescue(claim.attempt_id)
    before = world.everything()

    for how in ("complete", "requeue", "void"):
        with pytest.raises(OperatorError):
            decide(world, how, "job_0" if state == "unknown id" else claim.job_id)
        assert before == world.everything(), how


def waiting(world: World) -> Claim:
    """A metered job that waits for an operator."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.unknown(claim.attempt_id)
    return claim


def decide(world: World, how: str, job_id: str, *, by: Decision = BY) -> None:
    result = world.result()
    if how == "complete":
        world.write(lambda tx: recover.complete(tx, world.ids, job_id, result, by=by, now_ms=world.now_ms))
    elif how == "requeue":
        world.write(lambda tx: recover.requeue(tx, world.ids, job_id, by=by, now_ms=world.now_ms))
    else:
        cancel = how == "cancel"
        world.write(lambda tx: recover.void(tx, world.ids, job_id, cancel=cancel, by=by, now_ms=world.now_ms))
