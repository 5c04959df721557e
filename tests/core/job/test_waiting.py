"""The deadline of jobs that nobody took."""

from servers.world import LANE, PRICE_MICROS, World
from tenuto.job import finish
from tenuto.job.states import DEADLINE_MS


def expire(world: World, lane: str = LANE) -> int:
    """What upkeep does: one transaction for each job that is overdue."""

    def end(job_id: str) -> bool:
        return world.write(lambda tx: finish.expire(tx, world.ids, job_id=job_id, now_ms=world.now_ms))

    return sum(map(end, world.read(lambda tx: finish.overdue(tx, lane=lane, now_ms=world.now_ms))))


def test_a_queued_job_fails_at_its_deadline(world: World) -> None:
    """After 14 days and not a millisecond earlier; the hold is voided, once."""
    caller = world.caller()
    job_id = world.submit(caller, "key").job_id
    world.now_ms += DEADLINE_MS - 1

    assert 0 == expire(world)
    world.now_ms += 1
    assert 0 == expire(world, "other")
    assert [1, 0] == [expire(world), expire(world)]
    assert ("failed", "deadline_exceeded") == (world.state(job_id), world.job(job_id)["error_code"])
    assert (100 * PRICE_MICROS, 0) == world.balance(caller.account_id)
    assert ["queued", "failed"] == world.events(job_id)


def test_running_final_and_recovering_jobs_are_left_alone(world: World) -> None:
    """A running job's deadline is its attempt's business; a paid call's is an operator's."""
    recovering = world.running("fake/metered-speech")
    world.fence(recovering.attempt_id)
    world.unknown(recovering.attempt_id)
    done = world.running()
    world.finish(done.attempt_id)
    world.running()
    world.now_ms += 2 * DEADLINE_MS
    before = world.everything()

    assert 0 == expire(world)
    assert before == world.everything()


def test_many_overdue_jobs_go_in_bounded_steps(world: World) -> None:
    """No transaction ends more than a batch."""
    caller = world.caller(1_000_000_000)
    for number in range(finish.EXPIRY_BATCH + 5):
        world.submit(caller, f"key {number}")
    world.now_ms += DEADLINE_MS

    assert [finish.EXPIRY_BATCH, 5, 0] == [expire(world) for _ in range(3)]
    assert (1_000_000_000, 0) == world.balance(caller.account_id)
