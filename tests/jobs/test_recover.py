"""What an operator does by name with a job whose paid call has an unknown outcome."""

import pytest

from jobs.world import METERED, PRICE_MICROS, World
from tenuto.errors import OperatorError, Stale
from tenuto.jobs import lanes, lifecycle, recover
from tenuto.jobs.queue import Claim

CREDIT = 100 * PRICE_MICROS


def test_the_operator_sees_all_the_evidence(world: World) -> None:
    """The job, its attempts with their fences, its events; jobs that wait are listed (P10)."""
    claim = waiting(world)
    shown = world.write(lambda tx: recover.show(tx, claim.job_id))

    assert [claim.job_id] == [row["id"] for row in world.read(recover.waiting)]
    assert ("recovery_required", "outcome_unknown") == (shown["job"]["state"], shown["job"]["error_code"])
    assert [world.now_ms] == [attempt["fenced_at"] for attempt in shown["attempts"]]
    assert ["queued", "running", "recovery_required"] == [event["type"] for event in shown["events"]]


def test_completing_with_a_file(world: World) -> None:
    """The call had succeeded: the bytes that the operator brings are the result, and are charged."""
    claim = waiting(world)
    result = world.result()
    world.write(lambda tx: recover.complete(tx, world.ids, claim.job_id, result, now_ms=world.now_ms))

    assert "succeeded" == world.state(claim.job_id)
    assert (CREDIT - PRICE_MICROS, 0) == world.balance(claim.account_id)


def test_completing_with_the_recorded_result(world: World) -> None:
    """A result that could not be verified then is used now."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.record(claim.attempt_id)
    world.write(
        lambda tx: lifecycle.result_unusable(tx, claim.attempt_id, message="no disk", now_ms=world.now_ms)
    )
    world.write(lambda tx: recover.complete(tx, world.ids, claim.job_id, None, now_ms=world.now_ms))

    assert "succeeded" == world.state(claim.job_id)


def test_completing_without_a_result_is_refused(world: World) -> None:
    """The error says what to bring; nothing changes."""
    claim = waiting(world)
    before = world.everything()

    with pytest.raises(OperatorError, match="--file"):
        world.write(lambda tx: recover.complete(tx, world.ids, claim.job_id, None, now_ms=world.now_ms))
    assert before == world.everything()


def test_requeueing(world: World) -> None:
    """It runs again under its old hold, as a new attempt; the old one's result comes too late."""
    claim = waiting(world)
    world.write(lambda tx: recover.requeue(tx, claim.job_id, now_ms=world.now_ms))

    assert "queued" == world.state(claim.job_id)
    with pytest.raises(Stale):
        world.record(claim.attempt_id)
    again = world.claim()
    assert again is not None
    assert (claim.job_id, 2) == (again.job_id, again.number)
    with pytest.raises(Stale):
        world.record(claim.attempt_id)
    world.finish(again.attempt_id)
    assert ["hold", "settle"] == world.entries(claim.job_id)


@pytest.mark.parametrize(("cancel", "state"), [(False, "failed"), (True, "cancelled")])
def test_voiding(world: World, cancel: bool, state: str) -> None:
    """Given up: the hold is released, nothing is charged, and a late result changes nothing."""
    claim = waiting(world)
    world.write(lambda tx: recover.void(tx, world.ids, claim.job_id, cancel=cancel, now_ms=world.now_ms))
    before = world.everything()

    assert state == world.state(claim.job_id)
    assert (CREDIT, 0) == world.balance(claim.account_id)
    with pytest.raises(Stale):
        world.record(claim.attempt_id)
    assert before == world.everything()


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
    world.write(lambda tx: recover.complete(tx, world.ids, claim.job_id, result, now_ms=world.now_ms))

    used = world.row("select blob_id from artifact")["blob_id"]
    assert "succeeded" == world.state(claim.job_id)
    assert (late if result is None else result.blob.blob_id) == used


def test_a_late_result_that_is_damaged_goes_on_waiting(world: World) -> None:
    """It is looked at once, not again and again; the operator still decides."""
    claim = waiting(world)
    world.record(claim.attempt_id)
    world.write(
        lambda tx: lifecycle.result_unusable(tx, claim.attempt_id, message="damaged", now_ms=world.now_ms)
    )

    assert "recovery_required" == world.state(claim.job_id)
    assert [] == world.read(lanes.open_attempts)
    decide(world, "void", claim.job_id)


@pytest.mark.parametrize("how", ["complete", "requeue", "void"])
@pytest.mark.parametrize("state", ["queued", "running", "succeeded", "failed", "unknown id"])
def test_only_a_job_that_waits_is_decided_on(world: World, how: str, state: str) -> None:
    """Any other is refused and unchanged; a decision is made once."""
    claim = world.running()
    if state == "succeeded":
        world.finish(claim.attempt_id)
    elif state == "failed":
        world.fail(claim.attempt_id)
    elif state == "queued":
        world.rescue(claim.attempt_id)
    before = world.everything()

    with pytest.raises(OperatorError):
        decide(world, how, "job_0" if state == "unknown id" else claim.job_id)
    assert before == world.everything()


def waiting(world: World) -> Claim:
    """A metered job that waits for an operator."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.unknown(claim.attempt_id)
    return claim


def decide(world: World, how: str, job_id: str) -> None:
    result = world.result()
    if how == "complete":
        world.write(lambda tx: recover.complete(tx, world.ids, job_id, result, now_ms=world.now_ms))
    elif how == "requeue":
        world.write(lambda tx: recover.requeue(tx, job_id, now_ms=world.now_ms))
    else:
        world.write(lambda tx: recover.void(tx, world.ids, job_id, cancel=False, now_ms=world.now_ms))
