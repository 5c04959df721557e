"""Claiming: never more than the lane's slots, turns between accounts, order within one."""

import threading
import time
from collections import Counter

import pytest

from servers.speed import HANG_S
from servers.world import EVERY_MODEL, LANE, METERED, SPEECH, World, at_once
from tenuto.job import queue
from tenuto.job.queue import ACCOUNTS_LOOKED_AT, Claim

THREADS = 8


@pytest.mark.parametrize("limit", [1, 8])
def test_a_lane_never_runs_more_than_its_slots(world: World, limit: int) -> None:
    """Eight threads claim and end concurrently: at most `limit` at once, every job once (P8)."""
    jobs = 24
    world.slots(limit)
    callers = [world.caller() for _ in range(4)]
    for number in range(jobs):
        world.submit(callers[number % 4], f"key {number}")
    counting = threading.Lock()
    counts = {"now": 0, "most": 0}
    claimed: list[str] = []

    def work(number: int) -> None:
        end = time.monotonic() + HANG_S
        while len(claimed) < jobs and time.monotonic() < end:
            claim = world.claim(f"worker_{number}")
            if claim is None:
                continue
            with counting:
                claimed.append(claim.job_id)
                counts["now"] += 1
                counts["most"] = max(counts.values())
            # Long enough for the others to run into it.
            assert world.beat(claim.attempt_id) is False
            with counting:
                counts["now"] -= 1
            if number % 2:
                world.finish(claim.attempt_id)
            else:
                world.fail(claim.attempt_id)

    answers = at_once(THREADS, work)

    assert [None] * THREADS == answers
    assert counts["most"] <= limit
    assert jobs == len(claimed) == len(set(claimed))
    assert Counter({"queued": jobs, "running": jobs}) == Counter(
        row["type"] for row in world.all("select type from event where type in ('queued', 'running')")
    )


def test_a_full_lane_gives_nothing_more(world: World) -> None:
    """All threads claim at once and keep what they get: exactly so many jobs run, each in its own slot."""
    limit = 8
    world.slots(limit)
    caller = world.caller()
    for number in range(16):
        world.submit(caller, f"key {number}")

    def work(number: int) -> list[Claim]:
        tried = [world.claim(f"worker_{number}") for _ in range(4)]
        return [claim for claim in tried if claim is not None]

    answers = at_once(THREADS, work)
    claims = [claim for answer in answers if isinstance(answer, list) for claim in answer]
    taken = world.all("select attempt_id from slot where job_id is not null")

    assert limit == len(claims) == len({claim.job_id for claim in claims})
    assert {claim.attempt_id for claim in claims} == {row["attempt_id"] for row in taken}
    assert limit == len(world.all("select id from job where state = 'running'"))


def test_accounts_take_turns(world: World) -> None:
    """An account with many jobs waits for its turn behind one with few; each in its own order."""
    many, few, late = world.caller(), world.caller(), world.caller()
    a = [world.submit(many, f"a{number}").job_id for number in range(4)]
    b = [world.submit(few, f"b{number}").job_id for number in range(2)]
    first = [run_next(world) for _ in range(3)]
    c = [world.submit(late, "c").job_id]
    rest = [run_next(world) for _ in range(4)]

    assert [a[0], b[0], a[1], c[0], b[1], a[2], a[3]] == first + rest


def test_more_accounts_than_a_claim_looks_at_take_turns(world: World) -> None:
    """Each has had a turn before any has its second; those that a claim does not look at are not last."""
    callers = [world.caller() for _ in range(ACCOUNTS_LOOKED_AT + 2)]
    jobs = {world.submit(caller, f"{n}").job_id: caller.account_id for caller in callers for n in range(2)}
    served = [jobs[str(run_next(world))] for _ in callers]

    assert sorted(set(jobs.values())) == sorted(served)


def test_first_in_first_out_within_an_account(world: World) -> None:
    """By acceptance, also when the wall clock goes back between two submissions."""
    caller = world.caller()
    jobs = []
    for number in range(6):
        jobs.append(world.submit(caller, f"key {number}").job_id)
        world.now_ms -= 60_000

    assert jobs == [run_next(world) for _ in jobs]


def test_a_paused_job_lets_others_pass(world: World) -> None:
    """Until `not_before` it is skipped, for others of its account too; then it is first again."""
    caller = world.caller()
    paused, other, third = (world.submit(caller, f"key {number}").job_id for number in range(3))
    claim = world.claim()
    assert claim is not None
    world.release(claim.attempt_id, pause_ms=5000)

    assert other == run_next(world)
    world.now_ms += 5000
    assert [paused, third] == [run_next(world), run_next(world)]


def test_a_worker_claims_only_models_that_it_offers(world: World) -> None:
    """A name that is part of another's is another; without models nothing is claimed."""
    caller = world.caller()
    metered = world.submit(caller, "a", model=METERED).job_id
    speech = world.submit(caller, "b", model=SPEECH).job_id

    for models in ((), ("fake",), ("fake/speec",), ("ake/speech",), ("fake/speech2", "x"), ("%",), ("_",)):
        assert world.claim(models=frozenset(models)) is None
    only = world.claim(models=frozenset({"other", SPEECH}))
    assert only is not None
    assert speech == only.job_id
    world.finish(only.attempt_id)
    assert metered == run_next(world)


def test_an_account_without_offered_models_loses_no_turn_for_others(world: World) -> None:
    """Work that this worker cannot run does not block the lane."""
    first, second = world.caller(), world.caller()
    world.submit(first, "a", model=METERED)
    job_id = world.submit(second, "b", model=SPEECH).job_id

    claim = world.claim(models=frozenset({SPEECH}))
    assert claim is not None
    assert job_id == claim.job_id


def test_a_job_that_cannot_be_read_is_handed_over_although_no_other_waits(broken_world: World) -> None:
    """The claim finds nothing more, and that is no error: the operator has the job (P8)."""
    job_id = broken_world.submit(broken_world.caller(), "key").job_id
    broken_world.run("update job set parameters = '{' where id = :id", id=job_id)

    assert broken_world.claim() is None
    assert "recovery_required" == broken_world.state(job_id)


def test_slots_are_added_and_taken_away(world: World) -> None:
    """Free slots above the count go at once; a busy one keeps its job and takes no other one."""
    world.slots(3)
    caller = world.caller()
    for number in range(6):
        world.submit(caller, f"key {number}")
    claims = [world.claim(f"worker_{number}") for number in range(3)]
    assert None not in claims
    world.slots(1)

    assert 3 == len(world.all("select number from slot where job_id is not null"))
    for claim in claims[1:]:
        assert claim is not None
        world.finish(claim.attempt_id)
    assert world.claim() is None
    world.slots(1)
    assert [1] == [row["number"] for row in world.all("select number from slot order by number")]
    assert world.claim() is None
    world.slots(2)
    assert world.claim() is not None
    assert world.claim() is None


def test_setting_the_same_slots_again_changes_nothing(world: World) -> None:
    """Every worker that starts does it, also while jobs run."""
    world.running()
    before = world.everything()
    at_once(4, lambda _: world.slots(1))

    assert before == world.everything()


def test_lanes_say_how_full_they_are(world: World) -> None:
    """Queued, running and waiting for an operator, for metrics; and whether a claim could find something."""
    caller = world.caller()
    for number in range(3):
        world.submit(caller, f"key {number}", model=METERED)
    claim = world.claim()
    assert claim is not None
    world.fence(claim.attempt_id)
    world.unknown(claim.attempt_id)
    world.claim()

    assert {
        "queued": {LANE: 1, "other": 0},
        "running": {LANE: 1, "other": 0},
        "recovery_required": {LANE: 1, "other": 0},
    } == world.read(lambda tx: queue.depths(tx, [LANE, "other"]))
    assert world.read(lambda tx: queue.has_work(tx, LANE, models=EVERY_MODEL, now_ms=world.now_ms))
    assert not world.read(lambda tx: queue.has_work(tx, "other", models=EVERY_MODEL, now_ms=world.now_ms))
    assert not world.read(
        lambda tx: queue.has_work(tx, LANE, models=frozenset({SPEECH}), now_ms=world.now_ms)
    )


def run_next(world: World) -> str | None:
    """The job that is claimed next; it succeeds at once."""
    claim = world.claim(models=EVERY_MODEL)
    if claim is None:
        return None
    world.finish(claim.attempt_id)
    return claim.job_id


@pytest.mark.parametrize("back_ms", [2 * 3_600_000, World.now_ms])
def test_a_clock_that_goes_back_prolongs_no_pause(world: World, back_ms: int) -> None:
    """A pause of seconds is not one of hours, or of half a century, because the clock was ahead (P20)."""
    world.submit(world.caller(), "key")
    claim = world.claim("worker_1")
    assert claim is not None
    world.release(claim.attempt_id, pause_ms=5000)
    world.now_ms -= back_ms
    has_work = world.database.read(
        lambda tx: queue.has_work(tx, LANE, models=EVERY_MODEL, now_ms=world.now_ms)
    )
    again = world.claim("worker_1")

    assert has_work
    assert again is not None
    assert claim.job_id == again.job_id
