"""Upkeep: who is rescued, when, and what becomes of the job; deadlines, the sweep, forgotten workers.

`do_due` is given its monotonic seconds, so no test waits for time to pass.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from servers.rig import SILENCE_S, Rig, eventually
from servers.speed import HANG_S
from servers.world import METERED, OPEN, PRICE_MICROS, SPEECH, World, at_once
from tenuto.config import ModelSettings
from tenuto.errors import StorageFailed
from tenuto.file import operations as artifacts
from tenuto.file.directory import DirectoryBlobs
from tenuto.file.operations import ORPHAN_AGE_MS
from tenuto.host.host import HostNotReady
from tenuto.job import recover
from tenuto.job.states import DEADLINE_MS, Decision
from tenuto.kind import operations as catalog
from tenuto.kind.model import MAX_START_FAILURES
from tenuto.worker.duties import Upkeep
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import CLOCK_TRUST_S, ClockTrust
from tenuto.worker.locks import is_held
from tenuto.worker.sweep import remove_condemned

MINUTE_MS = 60_000


def rounds(upkeep: Upkeep, start: float, end: float, step: float = 5.0) -> None:
    """Rounds from `start` to `end` monotonic seconds, both included."""
    now = start
    while now < end:
        upkeep.do_due(now)
        now += step
    upkeep.do_due(end)


# --- leases ---------------------------------------------------------------------------------------


def test_an_engine_that_hangs_at_its_start_holds_up_no_rescue(
    world: World, rig: Rig, interpreter: Callable[[str], ModelSettings]
) -> None:
    """It failed to start before, so upkeep tries it again; other workers' attempts do not wait for that."""
    settings = replace(rig.context.settings, models={SPEECH: interpreter("exit 1")})
    context = replace(rig.context, settings=settings)
    world.register("worker_far", machine="elsewhere")
    claim = rig.running("worker_far")
    with closing(Engines(context, [SPEECH], rig.work_condition)) as engines:
        for _ in range(MAX_START_FAILURES):
            with pytest.raises(HostNotReady):
                engines.ready(SPEECH)
        interpreter("exec sleep 600")
        rig.context = context
        upkeep = rig.upkeep(engines=engines)
        running = threading.Thread(target=rounds, args=(upkeep, 1000.0, 1000.0 + SILENCE_S), daemon=True)
        running.start()
        running.join(HANG_S)
        is_tried = eventually(lambda: engines.host(SPEECH).pid is not None)

    assert (False, True) == (running.is_alive(), is_tried)
    assert "queued" == world.state(claim.job_id)


def test_a_silent_attempt_elsewhere_is_rescued(world: World, rig: Rig) -> None:
    """After silence_s seen by ourselves and not earlier; one beat starts the silence anew (P9)."""
    world.register("worker_far", machine="elsewhere")
    claim = rig.running("worker_far")
    upkeep = rig.upkeep()
    for start in (1000.0, 1000.0 + SILENCE_S):
        assert world.beat(claim.attempt_id) is False
        rounds(upkeep, start, start + SILENCE_S - 0.1)
    assert "running" == world.state(claim.job_id)
    announced = rig.work_condition.count("speech")
    upkeep.do_due(1000.0 + 2 * SILENCE_S)

    assert "queued" == world.state(claim.job_id)
    assert 1 == world.job(claim.job_id)["workers_lost"]
    assert rig.work_condition.count("speech") > announced


def test_a_rescuer_that_has_just_started_waits_for_itself(world: World, rig: Rig) -> None:
    """How long others have seen the beat stand still is nothing to it."""
    world.register("worker_far", machine="elsewhere")
    claim = rig.running("worker_far")
    rounds(rig.upkeep(), 0.0, SILENCE_S - 1)
    fresh = rig.upkeep("worker_fresh")
    rounds(fresh, SILENCE_S, 2 * SILENCE_S - 1)

    assert "running" == world.state(claim.job_id)


@pytest.mark.parametrize("jump_ms", [-World.now_ms, 10 * DEADLINE_MS])
def test_jumps_of_the_wall_clock_steal_nothing(world: World, rig: Rig, jump_ms: int) -> None:
    """Leases are beats and monotonic time; a deadline needs clocks that agree (P20)."""
    world.register("worker_far", machine="elsewhere")
    claim = rig.running("worker_far")
    queued = world.submit(world.caller(), "key").job_id
    upkeep = rig.upkeep()
    start = time.monotonic()
    upkeep.do_due(start)
    world.now_ms += jump_ms
    rounds(upkeep, start + 5, start + SILENCE_S - 1)

    assert ("running", "queued") == (world.state(claim.job_id), world.state(queued))


def test_an_outage_of_the_database_starts_the_silence_anew(world: World, rig: Rig) -> None:
    """What was seen before it proves nothing: nobody could beat."""
    world.register("worker_far", machine="elsewhere")
    claim = rig.running("worker_far")
    upkeep = rig.upkeep()
    rounds(upkeep, 0.0, 20.0)
    rig.database.is_away = True
    assert not upkeep.do_due(25.0)
    rig.database.is_away = False
    rounds(upkeep, 26.0, 26.0 + SILENCE_S - 0.1)
    assert "running" == world.state(claim.job_id)

    upkeep.do_due(26.0 + SILENCE_S)
    assert "queued" == world.state(claim.job_id)


def test_a_gap_between_two_rounds_proves_nothing(world: World, rig: Rig) -> None:
    """A machine that stood still, or a network: its rescuer wakes up before the beat of the other."""
    world.register("worker_far", machine="elsewhere")
    claim = rig.running("worker_far")
    upkeep = rig.upkeep()
    upkeep.do_due(0.0)
    upkeep.do_due(1000.0)

    assert "running" == world.state(claim.job_id)


def test_a_neighbour_that_holds_its_lock_is_never_rescued(world: World, rig: Rig) -> None:
    """However silent: it may be stopped, or busy, and its work is not lost."""
    rig.neighbour()
    lock = rig.lock("worker_b")
    claim = rig.running("worker_b")
    upkeep = rig.upkeep()
    rounds(upkeep, 0.0, 10 * SILENCE_S)
    assert "running" == world.state(claim.job_id)

    lock.release()
    upkeep.do_due(10 * SILENCE_S + 1)
    assert "queued" == world.state(claim.job_id)


def test_our_own_attempts_are_left_alone_while_we_are_at_work_on_them(world: World, rig: Rig) -> None:
    """An attempt that no thread of ours runs any more is rescued like a silent one."""
    lock = rig.lock("worker_us")
    claim = rig.running("worker_us")
    rig.heartbeat.watch(claim.attempt_id, cancellable=True)
    upkeep = rig.upkeep()
    rounds(upkeep, 0.0, 3 * SILENCE_S)
    assert "running" == world.state(claim.job_id)

    rig.heartbeat.forget(claim.attempt_id)
    upkeep.do_due(100.0)
    rounds(upkeep, 100.0, 100.0 + SILENCE_S - 0.1)
    assert "running" == world.state(claim.job_id)
    upkeep.do_due(100.0 + SILENCE_S)
    assert "queued" == world.state(claim.job_id)
    lock.release()


def test_many_rescuers_rescue_once(world: World, rig: Rig) -> None:
    """Every worker keeps house; the loss is counted once."""
    rig.neighbour()
    claim = rig.running("worker_b")
    keepers = [rig.upkeep(f"worker_{number}") for number in range(6)]
    answers = at_once(6, lambda number: keepers[number].do_due(0.0))

    assert [True] * 6 == answers
    assert 1 == world.job(claim.job_id)["workers_lost"]
    assert ["queued", "running", "worker_lost"] == world.events(claim.job_id)


# --- what becomes of the job ----------------------------------------------------------------------


@pytest.mark.parametrize("model", ["fake/speech", METERED])
def test_a_recorded_result_is_finished_from_its_bytes(world: World, rig: Rig, model: str) -> None:
    """Its worker died between record and success: nothing runs again, one charge (P1, P3)."""
    rig.neighbour()
    claim = rig.running("worker_b", model)
    rig.record(claim)
    rig.upkeep().do_due(0.0)

    assert "succeeded" == world.state(claim.job_id)
    assert (99 * PRICE_MICROS, 0) == world.balance(claim.account_id)
    assert 1 == world.job(claim.job_id)["attempts"]


@pytest.mark.parametrize("fault", ["missing", "flipped", "shorter", "longer"])
def test_damaged_bytes_are_never_a_success(world: World, rig: Rig, fault: str) -> None:
    """They wait for an operator, and the job is not made again (P5, P6)."""
    rig.neighbour()
    claim = rig.running("worker_b")
    blob_id = rig.record(claim)
    (file,) = (rig.folder / "blobs").glob(f"*/{blob_id}")
    file.chmod(0o600)
    content = {"flipped": b"sounD", "shorter": b"soun", "longer": b"sound!"}.get(fault)
    file.unlink() if content is None else file.write_bytes(content)
    rig.upkeep().do_due(0.0)

    assert "recovery_required" == world.state(claim.job_id)


# --- other duties ---------------------------------------------------------------------------------


def test_overdue_jobs_fail_when_the_clocks_agree(world: World, rig: Rig) -> None:
    """Ten minutes side by side, then the deadline counts; a jump starts them anew (P20)."""
    job_id = world.submit(world.caller(), "key").job_id
    world.run("update job set deadline_at = :at", at=world.now_ms)
    upkeep = rig.upkeep()
    start = time.monotonic()

    def pass_s(seconds: float) -> None:
        world.now_ms += round(seconds * 1000)
        nonlocal start
        start += seconds
        upkeep.do_due(start)

    upkeep.do_due(start)
    for _ in range(9):
        pass_s(61)
    assert "queued" == world.state(job_id)
    world.now_ms += 2 * MINUTE_MS
    for _ in range(9):
        pass_s(61)
    assert "queued" == world.state(job_id)
    for _ in range(2):
        pass_s(61)
    assert ("failed", "deadline_exceeded") == (world.state(job_id), world.job(job_id)["error_code"])


def test_a_job_that_was_accepted_before_the_clock_was_set_is_not_overdue(world: World, rig: Rig) -> None:
    """Its deadline is in 1970, as the machine had no time yet: it still runs, and may be run again (P20)."""
    today_ms, world.now_ms = world.now_ms, 3000
    claimed = rig.running("worker_us", METERED)
    waiting = world.submit(world.caller(), "key").job_id
    world.fence(claimed.attempt_id)
    world.now_ms = today_ms
    upkeep, start = rig.upkeep(), time.monotonic()
    for minute in range(12):
        upkeep.do_due(start + minute * 61)
        world.now_ms += 61_000
    world.unknown(claimed.attempt_id)
    by = Decision("an operator")
    world.write(lambda tx: recover.requeue(tx, world.ids, claimed.job_id, by=by, now_ms=world.now_ms))

    assert ("queued", "queued") == (world.state(waiting), world.state(claimed.job_id))


def test_clocks_that_agree() -> None:
    """After ten minutes; a slow drift is agreement, a jump is not, forward or back."""
    agreement = ClockTrust(0, 100.0)
    wait = CLOCK_TRUST_S

    assert [False, False, True] == [
        agreement.is_trusted(round(s * 1000), 100 + s) for s in (0, wait - 1, wait)
    ]
    assert agreement.is_trusted(round((wait + 1) * 1000) + 59_000, 101 + wait)
    assert not agreement.is_trusted(round((wait + 2) * 1000) + 61_000, 102 + wait)
    jumped = round((wait + 2) * 1000) + 61_000
    assert not agreement.is_trusted(jumped + 599_000, 102 + wait + 599)
    assert agreement.is_trusted(jumped + 600_000, 102 + wait + 600)
    assert not agreement.is_trusted(jumped - 7_200_000, 102 + wait + 601)


def test_a_worker_whose_clock_is_wrong_ends_and_removes_nothing(world: World, rig: Rig) -> None:
    """What looks years late is left alone until its clock and that of the database's server, which all
    machines share, have agreed for ten minutes (P20).
    """
    years_ms = 3 * 365 * 24 * 3600 * 1000
    ahead_ms = [years_ms]
    settings = replace(rig.context.settings, retention_days=30)
    rig.context = replace(rig.context, settings=settings, database_clock=lambda: world.now_ms - ahead_ms[0])
    done, waiting = rig.running("worker_us"), world.submit(world.caller(), "key").job_id
    rig.record(done)
    world.succeed(done.attempt_id)
    world.now_ms += years_ms
    in_flight = rig.context.blobs.write(world.ids.new("blob"), b"its row comes next").blob_id
    os.utime(next((rig.folder / "blobs").glob(f"*/{in_flight}")), (0, 0))
    upkeep, start = rig.upkeep(), time.monotonic()

    def pass_time(rounds: range) -> tuple[str, bool, bool]:
        for minute in rounds:
            swept(upkeep, start + minute * 61)
            upkeep.threads["retention"].join(HANG_S)
            world.now_ms += 61_000
        erased_at = world.job(done.job_id)["erased_at"]
        return world.state(waiting), erased_at is not None, in_flight in there(rig)

    with capture_logs() as logs:
        wrong = pass_time(range(15))
        ahead_ms[0] = 59_000
        right = pass_time(range(15, 30))

    assert ("queued", False, True) == wrong
    assert ("failed", True, False) == right
    assert [years_ms / 1000] * 15 == [log["ahead_s"] for log in logs if log["event"] == "clock.differs"]


def test_the_sweep_takes_bytes_and_rows_that_nothing_refers_to(world: World, rig: Rig) -> None:
    """Old ones only; a result's bytes stay, however old (P5)."""
    rig.neighbour()
    claim = rig.running("worker_b")
    kept = rig.record(claim)
    world.succeed(claim.attempt_id)
    without_row = rig.context.blobs.write(world.ids.new("blob"), b"no row").blob_id
    orphan = rig.context.blobs.write(world.ids.new("blob"), b"row")
    world.run(
        "insert into blob (id, size_bytes, sha256, block_crcs, created_at) values (:id, 3, 'x', '', :now)",
        id=orphan.blob_id,
        now=world.now_ms,
    )
    for file in (rig.folder / "blobs").glob("*/*"):
        os.utime(file, (world.now_ms / 1000, world.now_ms / 1000))
    swept(rig.upkeep(), time.monotonic())
    assert {kept, without_row, orphan.blob_id} == there(rig)

    world.now_ms += ORPHAN_AGE_MS + 1000
    young = rig.context.blobs.write(world.ids.new("blob"), b"young").blob_id
    for file in (rig.folder / "blobs").glob(f"*/{young}"):
        os.utime(file, (world.now_ms / 1000, world.now_ms / 1000))
    swept(rig.upkeep(), time.monotonic())

    assert {kept, young} == there(rig)
    assert {kept: 0, without_row: 1} == {
        row["id"]: row["is_removed"] for row in world.all("select id, is_removed from blob")
    }


def test_bytes_that_cannot_be_removed_hold_up_no_others(world: World, rig: Rig) -> None:
    """Such as objects under an object lock, or files of another owner, however many there are (P14)."""
    kept = [world.ids.new("blob") for _ in range(artifacts.SWEEP_BATCH + 1)]
    world.write(lambda tx: artifacts.condemn_rowless(tx, kept, now_ms=world.now_ms))
    last = rig.context.blobs.write(world.ids.new("blob"), b"condemned last").blob_id
    world.now_ms += 1
    world.write(lambda tx: artifacts.condemn_rowless(tx, [last], now_ms=world.now_ms))

    class Locked(DirectoryBlobs):
        """The real store, which refuses to remove what is under a lock."""

        def delete(self, blob_id: str) -> None:
            if blob_id in kept:
                raise StorageFailed("the object is under a lock")
            super().delete(blob_id)

    context = replace(rig.context, blobs=Locked(rig.folder / "blobs"))
    with capture_logs() as logs:
        remove_condemned(context, rest=lambda: True)

    assert set() == there(rig)
    assert len(kept) == len(world.all("select id from blob where is_removed = 0"))
    assert artifacts.SWEEP_BATCH == len([log for log in logs if log["event"] == "blob.not_removed"])


def test_one_worker_of_all_looks_for_orphans(world: World, rig: Rig) -> None:
    """Once an hour, whichever comes first: to read every blob's name costs time, and money in a bucket."""
    ours, theirs = rig.upkeep(), rig.upkeep("worker_b")
    rig.context.blobs.write(world.ids.new("blob"), b"no row, long ago")
    swept(ours, time.monotonic())
    first = there(rig)
    second = rig.context.blobs.write(world.ids.new("blob"), b"none either").blob_id
    swept(theirs, time.monotonic())
    within_the_hour = there(rig)
    world.now_ms += 3_600_000
    swept(rig.upkeep("worker_b"), time.monotonic())

    assert (set(), {second}, set()) == (first, within_the_hour, there(rig))


def test_a_worker_that_is_long_away_is_forgotten(world: World, rig: Rig) -> None:
    """Not before ten minutes, not while its lock is held, not while something of its is open.

    Its clock says nothing: the one of a worker that lives is an hour behind.
    """
    world.forget(OPEN)
    rig.neighbour("worker_dead")
    rig.neighbour("worker_held")
    lock = rig.lock("worker_held")
    rig.lock("worker_dead_file").release()
    world.register("worker_far", machine="elsewhere")
    world.register("worker_open", machine="elsewhere")
    world.register("worker_behind", machine="elsewhere")
    claim = rig.running("worker_open")
    upkeep = rig.upkeep()
    for minute in range(10):
        _beat(world, "worker_behind", world.now_ms - 3_600_000 + minute)
        upkeep.do_due(minute * 60.0)
    assert 6 == len(workers(world))

    _beat(world, "worker_behind", world.now_ms - 3_600_000 + 10)
    upkeep.do_due(600.0)

    assert {"worker_us", "worker_held", "worker_open", "worker_behind"} == workers(world)
    assert is_held(rig.folder / "locks", "worker_held.lock")
    lock.release()
    world.finish(claim.attempt_id)


def _beat(world: World, worker_id: str, at_ms: int) -> None:
    world.write(lambda tx: catalog.see_worker(tx, worker_id, now_ms=at_ms))


def swept(upkeep: Upkeep, now: float) -> None:
    """One round, and the end of the sweep that it began."""
    upkeep.do_due(now)
    upkeep.threads["sweep"].join(HANG_S)
    assert not upkeep.threads["sweep"].is_running()


def there(rig: Rig) -> set[str]:
    """The blobs whose bytes lie in the folder."""
    return {*rig.context.blobs.ids(older_than_ms=2**62 // 10**6)}


def workers(world: World) -> set[str]:
    return {row["id"] for row in world.all("select id from worker")}
