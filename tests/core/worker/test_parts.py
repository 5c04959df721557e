"""Lock files that outlive no process, a condition that forgets nothing, a heartbeat in its own thread."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from servers.rig import Rig, eventually
from servers.speed import HANG_S
from servers.world import METERED, OPEN, World, at_once
from tenuto.kind import operations as catalog
from tenuto.worker import locks
from tenuto.worker.context import WorkCondition
from tenuto.worker.heartbeat import Heartbeat
from tenuto.worker.locks import LifeLock
from tenuto.worker.supervisor import POLL_S

HOLDER = """
import sys
from pathlib import Path
from tenuto.worker.locks import LifeLock
lock = LifeLock(Path(sys.argv[1]), "worker_x.lock")
print("held", flush=True)
sys.stdin.read()
"""


# --- locks ----------------------------------------------------------------------------------------


def test_a_lock_is_held_until_its_release(tmp_path: Path) -> None:
    """And a missing file is a dead worker's."""
    assert not locks.is_held(tmp_path, "worker_x.lock")
    lock = LifeLock(tmp_path, "worker_x.lock")
    assert locks.is_held(tmp_path, "worker_x.lock")
    with pytest.raises(BlockingIOError):
        LifeLock(tmp_path, "worker_x.lock")
    lock.release()

    assert not locks.is_held(tmp_path, "worker_x.lock")
    locks.remove(tmp_path, "worker_x.lock")
    LifeLock(tmp_path, "worker_x.lock").release()


def test_looking_at_a_lock_does_not_take_it(tmp_path: Path) -> None:
    """Many look at once while its owner comes and goes."""
    for _ in range(20):
        lock = LifeLock(tmp_path, "worker_x.lock")
        assert [True] * 4 == at_once(4, lambda _: locks.is_held(tmp_path, "worker_x.lock"))
        lock.release()


def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    """The kernel frees it; the file stays until it is removed."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert b"held\n" == holder.stdout.readline()
    assert locks.is_held(tmp_path, "worker_x.lock")
    holder.kill()
    holder.wait(10)
    holder.communicate()

    assert not locks.is_held(tmp_path, "worker_x.lock")
    assert (tmp_path / "worker_x.lock").exists()


def test_a_machine_is_a_host_and_a_folder(tmp_path: Path) -> None:
    """The same for all who see the same folder, by whatever path; another for another folder."""
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")

    assert locks.machine(tmp_path / "a") == locks.machine(tmp_path / "link")
    assert locks.machine(tmp_path / "a") != locks.machine(tmp_path / "b")


# --- the condition that slots wait for ---------------------------------------------------------------


def test_a_condition_remembers_for_who_was_about_to_wait() -> None:
    """Work announced between the check and the wait is not lost; without any, the wait ends by itself."""
    condition = WorkCondition(["speech"])
    since = condition.count("speech")

    assert not condition.wait("speech", since, 0.01)
    condition.announce()
    assert condition.wait("speech", since, 10)
    assert not condition.wait("speech", condition.count("speech"), 0.01)


def test_a_condition_wakes_everybody_in_a_lane() -> None:
    """All who wait there, each once; nobody in another lane, unless work is announced in all."""
    condition, ready = WorkCondition(["speech", "image"]), threading.Barrier(5)
    woken: list[bool] = []

    def sleep() -> None:
        since = condition.count("speech")
        ready.wait(10)
        woken.append(condition.wait("speech", since, 10))

    threads = [threading.Thread(target=sleep) for _ in range(4)]
    for thread in threads:
        thread.start()
    ready.wait(10)
    elsewhere = condition.count("image")
    condition.announce("speech")
    for thread in threads:
        thread.join(HANG_S)
    is_woken_elsewhere = condition.wait("image", elsewhere, 0)
    condition.announce()

    assert [True] * 4 == woken
    assert (False, True) == (is_woken_elsewhere, condition.wait("image", elsewhere, 0))


def test_one_look_in_vain_serves_all_slots_of_its_lane() -> None:
    """Until the next announcement, and for a moment alone: the next poll makes up for a lost one (P1)."""
    condition = WorkCondition(["speech", "image"])
    since = condition.count("speech")
    before = condition.was_in_vain("speech", since)
    condition.found_nothing("speech", since)
    at_once = [condition.was_in_vain(lane, since) for lane in ("speech", "image")]
    assert not condition.wait("speech", since, POLL_S)
    polled = condition.was_in_vain("speech", since)
    condition.found_nothing("speech", since)
    condition.announce()

    assert [True, False] == at_once
    assert [False, False, False] == [
        before,
        polled,
        condition.was_in_vain("speech", condition.count("speech")),
    ]


# --- the heartbeat --------------------------------------------------------------------------------


@pytest.fixture
def quick(rig: Rig) -> Rig:
    """A rig whose heart beats every 50 ms, running."""
    rig.heartbeat.stop()
    rig.context = replace(
        rig.context, settings=replace(rig.context.settings, heartbeat_s=0.05, engine_silence_s=1)
    )
    rig.heartbeat = Heartbeat(rig.context, rig.register)
    rig.heartbeat.start()
    return rig


def test_watched_attempts_beat(world: World, quick: Rig) -> None:
    """With what the engine said last, and so does the worker; an attempt that is not watched stands still."""
    world.slots(2)
    watched, other = quick.running("worker_us"), quick.running("worker_us")
    progress = {"stage": "speaking", "completed": 1, "total": 2, "unit": "segments"}
    quick.heartbeat.watch(watched.attempt_id, cancellable=True).hear(progress)
    world.now_ms += 5000

    assert eventually(lambda: world.attempt(watched.attempt_id)["beat"] >= 3)
    assert '"completed": 1' in world.attempt(watched.attempt_id)["progress"]
    assert 0 == world.attempt(other.attempt_id)["beat"]
    assert eventually(
        lambda: world.row("select seen_at from worker where id = 'worker_us'")["seen_at"] == world.now_ms
    )


def test_a_worker_that_was_forgotten_registers_again(world: World, quick: Rig) -> None:
    """A machine that slept for an hour comes back: its models can be called, without a restart."""
    for worker_id in ("worker_us", OPEN):
        world.forget(worker_id)

    assert eventually(lambda: ["worker_us"] == [row.id for row in world.read(catalog.workers)])
    assert {"fake/speech": None} == world.read(lambda tx: catalog.reasons(tx, ["fake/speech"], away=()))


def test_a_cancel_reaches_the_attempt(world: World, quick: Rig) -> None:
    """The switch is set, and says why; a paid call goes on."""
    world.slots(2)
    claim, paid = quick.running("worker_us"), quick.running("worker_us", METERED)
    watched = quick.heartbeat.watch(claim.attempt_id, cancellable=True)
    metered = quick.heartbeat.watch(paid.attempt_id, cancellable=False)
    for each in (paid, claim):
        world.cancel(each.account_id, each.job_id)
    world.database.wake("cancel")

    assert eventually(watched.stop.is_set)
    assert (True, False, False) == (watched.cancelled, watched.lost, watched.silent)
    beat = world.attempt(paid.attempt_id)["beat"]
    assert eventually(lambda: world.attempt(paid.attempt_id)["beat"] > beat + 2)
    assert not metered.stop.is_set()


def test_a_lost_attempt_is_stopped(world: World, quick: Rig) -> None:
    """Another has rescued it: nothing may be written for it any more (P9); a paid call hears of it, too."""
    claim = quick.running("worker_us", METERED)
    watched = quick.heartbeat.watch(claim.attempt_id, cancellable=False)
    assert eventually(lambda: rescued(world, claim.attempt_id))

    assert eventually(watched.stop.is_set)
    assert (True, False) == (watched.lost, watched.cancelled)


def test_a_worker_that_stood_still_blames_no_engine(world: World, rig: Rig) -> None:
    """Its machine slept, or it was stopped: nobody was to hear the engine, so silence begins now (P1). An
    engine that is silent is stopped after that, unless its call is paid for.
    """
    heartbeat = rig.heartbeat
    watched = heartbeat.watch(rig.running("worker_us").attempt_id, cancellable=True)
    paid = heartbeat.watch("attempt_paid", cancellable=False)
    watched.run_begins()
    paid.run_begins()
    long_ago = time.monotonic() - 2 * rig.context.settings.engine_silence_s
    watched.heard_at = heartbeat._listened_at = long_ago
    heartbeat._check_silence([watched])
    stood_still = watched.stop.is_set()
    watched.heard_at = paid.heard_at = long_ago
    heartbeat._check_silence([watched, paid])

    assert (False, True, False) == (stood_still, watched.stop.is_set(), paid.stop.is_set())


def test_the_heart_beats_on_after_an_outage(world: World, quick: Rig) -> None:
    """Nothing is stopped because the database was away."""
    claim = quick.running("worker_us")
    watched = quick.heartbeat.watch(claim.attempt_id, cancellable=True)
    assert eventually(lambda: world.attempt(claim.attempt_id)["beat"] >= 1)
    quick.database.is_away = True
    still = threading.Event()
    still.wait(0.2)
    beat = world.attempt(claim.attempt_id)["beat"]
    quick.database.is_away = False

    assert eventually(lambda: world.attempt(claim.attempt_id)["beat"] > beat)
    assert not watched.stop.is_set()


def rescued(world: World, attempt_id: str) -> bool:
    """Rescue the attempt between two of its beats."""
    try:
        return world.rescue(attempt_id) == "queued"
    except Exception:
        return False
