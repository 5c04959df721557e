"""Every transition that a worker causes, what it writes, and that nothing else is possible."""

import threading
from collections.abc import Callable

import pytest

from servers.speed import HANG_S
from servers.world import METERED, PRICE_MICROS, World, offered, wait_until_somebody_waits
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.errors import Stale, Swept
from tenuto.job import finish, states
from tenuto.job.fate import UNFORESEEN_PAUSE_MS
from tenuto.job.queue import Claim

CREDIT = 100 * PRICE_MICROS
HELD = (CREDIT - PRICE_MICROS, PRICE_MICROS)
GIVEN_BACK = (CREDIT, 0)
CHARGED = (CREDIT - PRICE_MICROS, 0)


def test_a_job_that_goes_well(world: World) -> None:
    """queued → running → succeeded: one charge, one artifact, an event each, the slot free (P3, P8). A
    recorded result changes neither the job's state nor its money until it is settled (P5).
    """
    claim = world.running()

    assert "running" == world.state(claim.job_id)
    assert HELD == world.balance(claim.account_id)
    assert [claim.attempt_id] == busy(world)

    world.now_ms += 1234
    world.record(claim.attempt_id)

    assert "running" == world.state(claim.job_id)
    assert HELD == world.balance(claim.account_id)
    assert [] == world.all("select * from artifact")

    world.succeed(claim.attempt_id)
    job = world.job(claim.job_id)

    assert ("succeeded", PRICE_MICROS, world.now_ms) == (
        job["state"],
        job["charged_micros"],
        job["finished_at"],
    )
    assert CHARGED == world.balance(claim.account_id)
    assert ["hold", "settle"] == world.entries(claim.job_id)
    assert ["queued", "running", "succeeded"] == world.events(claim.job_id)
    assert [] == busy(world)


@pytest.mark.parametrize(("duration_ms", "charged"), [(0, 0), (90_001, 75_001), (7_200_000, 5_000_000)])
def test_a_charge_by_the_minute_gives_the_rest_back(world: World, duration_ms: int, charged: int) -> None:
    """What was measured, rounded up to a micro, never above the hold; the rest is available again (P3)."""
    world.models = offered(Price("audio_minute", 50_000, 5_000_000))
    claim = world.running(credit_micros=5_000_000)
    assert (0, 5_000_000) == world.balance(claim.account_id)
    world.record(claim.attempt_id, world.result(duration_ms))
    world.succeed(claim.attempt_id)

    assert charged == world.job(claim.job_id)["charged_micros"]
    assert (5_000_000 - charged, 0) == world.balance(claim.account_id)


def test_an_engines_fault_fails_the_job(world: World) -> None:
    """running → failed: the code stays with the job, the hold is voided (P3)."""
    claim = world.running()
    world.fail(claim.attempt_id, "nothing_to_speak")

    assert ("failed", "nothing_to_speak") == (
        world.state(claim.job_id),
        world.job(claim.job_id)["error_code"],
    )
    assert GIVEN_BACK == world.balance(claim.account_id)
    assert ["hold", "void"] == world.entries(claim.job_id)
    assert [] == busy(world)


def test_a_host_that_is_lost_three_times_fails_the_job(world: World) -> None:
    """Twice it is tried again; the third time the job fails with engine_crashed, the hold voided."""
    claim = world.running()
    seen = []
    for _ in range(2):
        world.try_again(claim.attempt_id)
        seen.append(world.state(claim.job_id))
        claim = claimed(world)
    world.try_again(claim.attempt_id)

    assert ["queued", "queued"] == seen
    assert ("failed", "engine_crashed") == (world.state(claim.job_id), world.job(claim.job_id)["error_code"])
    assert 3 == world.job(claim.job_id)["attempts"]
    assert GIVEN_BACK == world.balance(claim.account_id)


def test_workers_are_lost_without_limit(world: World) -> None:
    """Lost workers never fail a job; from the fifth on it pauses, doubling up to ten minutes."""
    claim = world.running()
    pauses = []
    for _ in range(16):
        assert "queued" == world.rescue(claim.attempt_id)
        pause = max(0, world.job(claim.job_id)["not_before_at"] - world.now_ms)
        pauses.append(pause)
        if pause:
            world.now_ms += pause - 1
            assert world.claim() is None
            world.now_ms += 1
        claim = claimed(world)

    assert [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] == [p // 1000 for p in pauses]
    assert 17 == world.job(claim.job_id)["attempts"]
    assert HELD == world.balance(claim.account_id)


def test_an_unforeseen_error_is_tried_twice_again(world: World) -> None:
    """After a little pause each time; the third time an operator decides, and the hold stays."""
    claim = world.running()
    for _ in range(2):
        world.unforeseen(claim.attempt_id)
        assert world.claim() is None
        world.now_ms += UNFORESEEN_PAUSE_MS
        claim = claimed(world)
    world.unforeseen(claim.attempt_id)

    job = world.job(claim.job_id)
    assert ("recovery_required", "unforeseen") == (job["state"], job["error_code"])
    assert (3, 0, 2) == (job["attempts"], job["hosts_lost"], job["unforeseen_errors"])
    again = ["running", "unforeseen"]
    assert ["queued", *again, *again, "running", "recovery_required"] == world.events(claim.job_id)
    assert HELD == world.balance(claim.account_id)


def test_a_loss_that_was_shared_fails_no_job(world: World) -> None:
    """However often others may have been the cause, the job is tried again; from the third time on alone."""
    claim, alone = world.running(), []
    for _ in range(20):
        world.try_again(claim.attempt_id, shared=True)
        claim = claimed(world)
        alone.append(claim.is_suspect)

    assert [False, *[True] * 19] == alone
    job = world.job(claim.job_id)
    assert ("running", 0, 20) == (job["state"], job["hosts_lost"], job["losses_shared"])


def test_a_job_that_is_lost_alone_fails_whatever_it_shared_before(world: World) -> None:
    """Losses with others in the process neither save a job that crashes alone nor bring it nearer to that."""
    claim = world.running()
    for shared in (True, False, True, False, True):
        world.try_again(claim.attempt_id, shared=shared)
        claim = claimed(world)
    world.try_again(claim.attempt_id)

    assert ("failed", 6) == (world.job(claim.job_id)["state"], world.job(claim.job_id)["attempts"])


def test_a_released_job_is_not_counted(world: World) -> None:
    """A worker that drains gives the job back unharmed; with a pause it waits so long."""
    claim = world.running()
    world.release(claim.attempt_id)
    again = claimed(world)
    world.release(again.attempt_id, pause_ms=2000)

    assert world.claim() is None
    world.now_ms += 2000
    assert claim.job_id == claimed(world).job_id
    job = world.job(claim.job_id)
    assert (0, 0, 3) == (job["hosts_lost"], job["workers_lost"], job["attempts"])
    assert ["queued", "running", "released", "running", "released", "running"] == world.events(claim.job_id)


def test_the_late_result_of_the_same_attempt_ends_a_recovery(world: World) -> None:
    """recovery_required → succeeded when its own attempt comes back with what it made (P8)."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.unknown(claim.attempt_id)
    world.record(claim.attempt_id)

    assert "recovery_required" == world.state(claim.job_id)
    world.succeed(claim.attempt_id)
    assert "succeeded" == world.state(claim.job_id)
    assert CHARGED == world.balance(claim.account_id)


def test_a_recorded_result_is_finished_by_whoever_finds_it(world: World) -> None:
    """A rescuer is told so, changes nothing, and succeeds with it; the caller's cancel comes too late."""
    claim = world.running()
    world.record(claim.attempt_id)
    world.cancel(claim.account_id, claim.job_id)
    before = world.everything()

    assert "recorded" == world.rescue(claim.attempt_id)
    assert before == world.everything()
    world.succeed(claim.attempt_id)
    assert "succeeded" == world.state(claim.job_id)


def test_a_result_is_recorded_once(world: World) -> None:
    """The same record again is no error, because its first answer may be lost; another one is stale."""
    claim = world.running()
    first, second = world.result(), world.result()
    world.record(claim.attempt_id, first)
    before = world.everything()
    world.record(claim.attempt_id, first)

    with pytest.raises(Stale):
        world.record(claim.attempt_id, second)
    assert before == world.everything()


def test_a_recorded_result_that_is_damaged_waits_for_an_operator(world: World) -> None:
    """It can't be verified, and is never made again by itself."""
    claim = world.running()
    world.record(claim.attempt_id)
    world.write(
        lambda tx: finish.result_unusable(tx, claim.attempt_id, message="damaged", now_ms=world.now_ms)
    )

    assert "recovery_required" == world.state(claim.job_id)
    assert HELD == world.balance(claim.account_id)
    assert world.claim() is None


def test_a_condemned_blob_refuses_a_late_commit(world: World) -> None:
    """Bytes that the sweep has marked can't become a result any more; the job is tried again (P5)."""
    claim = world.running()
    result = world.result()
    swept = result.blob.blob_id
    world.run(
        """insert into blob (id, size_bytes, sha256, block_crcs, condemned_at, created_at)
           values (:id, 0, '', '', 1, 1)""",
        id=swept,
    )
    before = world.everything()

    with pytest.raises(Swept):
        world.record(claim.attempt_id, result)
    assert before == world.everything()


def test_a_recorded_blob_that_is_condemned_makes_no_artifact(world: World) -> None:
    """`succeed` takes no bytes that are about to go."""
    claim = world.running()
    world.record(claim.attempt_id)
    world.run("update blob set condemned_at = 1")

    with pytest.raises(Stale):
        world.succeed(claim.attempt_id)
    assert "running" == world.state(claim.job_id)
    assert HELD == world.balance(claim.account_id)
    world.run("update blob set condemned_at = null")


# --- cancelling -----------------------------------------------------------------------------------


def test_a_queued_job_is_cancelled_at_once(world: World) -> None:
    """No worker has to be told; the hold is voided; it is never claimed."""
    caller = world.caller()
    job_id = world.submit(caller, "key").job_id

    assert not world.cancel(caller.account_id, job_id)
    assert "cancelled" == world.state(job_id)
    assert GIVEN_BACK == world.balance(caller.account_id)
    assert world.claim() is None


def test_a_running_job_is_cancelled_by_its_worker(world: World) -> None:
    """The request is noted once; the job ends when its attempt says so."""
    claim = world.running()

    assert world.beat(claim.attempt_id) is False
    assert world.cancel(claim.account_id, claim.job_id)
    assert world.cancel(claim.account_id, claim.job_id)
    assert world.beat(claim.attempt_id) is True
    assert "running" == world.state(claim.job_id)
    world.cancelled(claim.attempt_id)
    assert "cancelled" == world.state(claim.job_id)
    assert GIVEN_BACK == world.balance(claim.account_id)
    assert ["queued", "running", "cancel_requested", "cancelled"] == world.events(claim.job_id)


@pytest.mark.parametrize("ending", ["rescue", "try_again", "release"])
def test_a_job_that_was_cancelled_does_not_run_again(world: World, ending: str) -> None:
    """Whatever becomes of its attempt, it is cancelled instead of queued again."""
    claim = world.running()
    world.cancel(claim.account_id, claim.job_id)
    getattr(world, ending)(claim.attempt_id)

    assert "cancelled" == world.state(claim.job_id)
    assert GIVEN_BACK == world.balance(claim.account_id)


def test_a_metered_job_is_cancelled_before_its_call(world: World) -> None:
    """The fence is not passed: no call is made, the hold is voided."""
    claim = world.running(METERED)
    world.cancel(claim.account_id, claim.job_id)

    assert not world.fence(claim.attempt_id)
    assert "cancelled" == world.state(claim.job_id)
    assert world.attempt(claim.attempt_id)["fenced_at"] is None


@pytest.mark.parametrize("end", ["release", "cancelled", "try_again", "rescue", "unknown"])
@pytest.mark.parametrize("is_cancel_asked", [False, True])
def test_a_metered_call_with_a_lost_outcome_waits_for_an_operator(
    world: World, end: str, is_cancel_asked: bool
) -> None:
    """Given back, stopped, lost: after the fence an operator decides, whoever asked for what. The hold is
    kept, the slot is free, and nothing runs again (P10). The fence may be passed twice: an answer may be
    lost.
    """
    claim = world.running(METERED)
    assert [True, True] == [world.fence(claim.attempt_id) for _ in range(2)]
    if is_cancel_asked:
        world.cancel(claim.account_id, claim.job_id)
    getattr(world, end)(claim.attempt_id)

    assert "recovery_required" == world.state(claim.job_id)
    assert HELD == world.balance(claim.account_id)
    assert "unknown" == world.attempt(claim.attempt_id)["outcome"]
    assert [] == busy(world)
    world.now_ms += 10 * states.DEADLINE_MS
    assert world.claim() is None


# --- what may not happen --------------------------------------------------------------------------

CALLS: dict[str, Callable[[World, str], object]] = {
    "fence": World.fence,
    "record": World.record,
    "succeed": World.succeed,
    "fail": World.fail,
    "cancelled": World.cancelled,
    "release": World.release,
    "try_again": World.try_again,
    "unknown": World.unknown,
    "rescue": World.rescue,
}


@pytest.mark.parametrize(
    ("state", "possible"),
    [
        *((state, "") for state in ("queued", "another's", "succeeded", "failed", "cancelled")),
        # Its own late result may still come.
        ("recovery_required", "record"),
        ("recorded", "succeed rescue"),
        ("recovery_required, recorded", "succeed rescue"),
    ],
)
def test_a_stale_call_changes_no_row(world: World, state: str, possible: str) -> None:
    """An attempt that is over, or whose job another has, is told so and writes nothing; the slot of the next
    job is not freed. A recorded result is finished by whoever finds it, never lost or made again (P1, P8,
    P9).
    """
    claim = job_in(world, state)
    if state in (*states.FINAL, "recovery_required"):
        next_job(world)
    before = world.everything()

    for name in CALLS.keys() - possible.split():
        with pytest.raises(Stale):
            CALLS[name](world, claim.attempt_id)
        assert before == world.everything(), name
    if state in (*states.FINAL, "recovery_required"):
        assert not world.cancel(claim.account_id, claim.job_id)
        assert before == world.everything()
    if "succeed" in possible:
        world.succeed(claim.attempt_id)


def test_there_is_no_success_without_a_result(world: World) -> None:
    """Neither of an attempt that runs, nor of one that never was (P5)."""
    claim = world.running()
    before = world.everything()

    for attempt_id in (claim.attempt_id, "attempt_0"):
        with pytest.raises(Stale):
            world.succeed(attempt_id)
    assert before == world.everything()


def test_a_beat_after_the_end_is_answered_with_none(world: World) -> None:
    """A worker hears that the attempt is not its own any more, and the beat stands still."""
    claim = world.running()
    world.beat(claim.attempt_id, {"stage": "speaking"})
    world.rescue(claim.attempt_id)
    before = world.everything()

    assert world.beat(claim.attempt_id) is None
    assert before == world.everything()


def test_a_beating_attempt_is_not_rescued(world: World) -> None:
    """The rescuer names the beat that stood still; a newer one refuses it."""
    claim = world.running()
    world.beat(claim.attempt_id)
    before = world.everything()

    with pytest.raises(Stale):
        world.rescue(claim.attempt_id, beat=0)
    assert before == world.everything()


def test_states_are_what_transitions_allow(world: World) -> None:
    """The table of transitions has every state, and final states lead nowhere."""
    assert set(states.ALL) == set(states.TRANSITIONS)
    assert states.FINAL == {state for state in states.ALL if not states.TRANSITIONS[state]}


@pytest.mark.parametrize(("first", "then"), [("fence", "recovery_required"), ("record", "recorded")])
def test_a_rescuer_that_had_to_wait_sees_what_was_written(world: World, first: str, then: str) -> None:
    """The worker passes the fence, or records, while the rescuer already waits for the row (P9, P10)."""
    claim = world.running(METERED)
    done: list[str] = []
    rescuer = threading.Thread(target=lambda: done.append(world.rescue(claim.attempt_id, beat=0)))
    result = world.result()

    def late(tx: Transaction) -> None:
        if first == "fence":
            finish.pass_fence(tx, world.ids, claim.attempt_id, now_ms=world.now_ms)
        else:
            finish.record_result(tx, claim.attempt_id, result, now_ms=world.now_ms)
        if rescuer.ident is None:  # It may run again.
            rescuer.start()
        wait_until_somebody_waits(world)

    world.write(late)
    rescuer.join(HANG_S)

    assert [then] == done


# --- helpers --------------------------------------------------------------------------------------


def busy(world: World) -> list[str]:
    """The attempts that have a slot."""
    rows = world.all("select attempt_id from slot where job_id is not null order by number")
    return [row["attempt_id"] for row in rows]


def claimed(world: World) -> Claim:
    claim = world.claim()
    assert claim is not None
    return claim


def next_job(world: World) -> None:
    """Another job takes the lane's slot, when it is free."""
    world.submit(world.caller(), "key")
    world.claim("worker_b")


def job_in(world: World, state: str) -> Claim:
    """A job whose claim ended so: in a state, or with another attempt running."""
    claim = world.running(METERED if state.startswith("recovery_required") else "fake/speech")
    if state == "succeeded":
        world.finish(claim.attempt_id)
    elif state == "failed":
        world.fail(claim.attempt_id)
    elif state == "cancelled":
        world.cancelled(claim.attempt_id)
    elif state.startswith("recovery_required"):
        world.fence(claim.attempt_id)
        world.unknown(claim.attempt_id)
    elif state != "recorded":
        world.rescue(claim.attempt_id)
        if state == "another's":
            assert claim.job_id == claimed(world).job_id
    if state.endswith("recorded"):
        world.record(claim.attempt_id)
    return claim
