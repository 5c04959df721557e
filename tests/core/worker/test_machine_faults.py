"""What the machine lacks is not the job's fault: it is tried again, uncounted; what was paid for is kept."""

import errno
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from servers.rig import Rig, failing, full_disk, hanging, run
from servers.world import METERED, World
from tenuto.errors import StoreUnreachable, causes, is_of_the_machine
from tenuto.job.queue import Claim
from tenuto.worker import attempt, storage_retries
from tenuto.worker.context import FIRST_SETBACK_MS, LONGEST_SETBACK_MS, Setbacks
from tenuto.worker.engines import Engines


@contextmanager
def no_descriptors() -> Iterator[None]:
    """This process can open nothing while the block lasts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("error", ["ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "EMFILE", "ENFILE", "ENOMEM"])
def test_what_is_the_machines_fault(error: str) -> None:
    """Whatever wraps it; no room for memory or a thread is one, too. A missing file is not."""
    number = getattr(errno, error)
    wrapped = StoreUnreachable()
    wrapped.__cause__ = OSError(number, os.strerror(number))

    assert is_of_the_machine(wrapped)
    assert is_of_the_machine(MemoryError())
    assert is_of_the_machine(RuntimeError("can't start new thread"))
    assert is_of_the_machine(ImportError("lib.so: cannot open shared object file: Too many open files"))
    assert is_of_the_machine(ImportError("no wrapper\n- 'binary': [Errno 24] Too many open files: '/x.py'"))
    assert not is_of_the_machine(ImportError("lib.so: cannot open shared object file: No such file"))
    assert not is_of_the_machine(FileNotFoundError(errno.ENOENT, "no such file"))
    assert not is_of_the_machine(RuntimeError("something else"))


def test_an_error_that_was_raised_from_itself_is_looked_at_once() -> None:
    """As a lost host's is by each of the runs in it; a slot that looked for ever would hold its lane."""
    lost = RuntimeError("lost")
    lost.__cause__ = lost

    assert not is_of_the_machine(lost)
    assert "RuntimeError: lost" == causes(lost)


def test_pauses_grow_and_end() -> None:
    """A second, doubling up to a minute, for each job alone; a success begins anew."""
    setbacks = Setbacks()
    pauses = [setbacks.pause_ms("job_a") for _ in range(9)]
    other = setbacks.pause_ms("job_b")
    setbacks.forget("job_a")

    assert [min(LONGEST_SETBACK_MS, FIRST_SETBACK_MS << n) for n in range(9)] == pauses
    assert [FIRST_SETBACK_MS] * 2 == [other, setbacks.pause_ms("job_a")]


@pytest.mark.timeout(60)
def test_a_disk_that_stays_full_fails_no_job(
    world: World, rig: Rig, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is tried: released, with growing pauses, uncounted; with room it succeeds (P1)."""
    monkeypatch.setattr(storage_retries, "STORE_PAUSE_S", 0.001)
    monkeypatch.setattr(attempt, "PATIENCE_S", 0.01)
    claim = rig.running("worker_us")
    job_id = claim.job_id
    pauses = []
    for _ in range(5):
        with full_disk():
            run(rig, engines, claim)
        assert "queued" == world.state(job_id)
        pauses.append(world.job(job_id)["not_before_at"] - world.now_ms)
        assert world.claim("worker_us") is None
        world.now_ms += pauses[-1]
        claim = world.claim("worker_us")  # type: ignore[assignment]
    run(rig, engines, claim)

    assert [1_000, 2_000, 4_000, 8_000, 16_000] == pauses
    assert ("succeeded", 0, 0) == tuple(
        world.job(job_id)[name] for name in ("state", "hosts_lost", "workers_lost")
    )
    assert ["hold", "settle"] == world.entries(job_id)


def test_what_was_paid_for_is_kept_until_there_is_room(
    world: World, rig: Rig, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far beyond any patience, in memory; one call, one charge (P3, P10)."""
    monkeypatch.setattr(storage_retries, "STORE_PAUSE_S", 0.001)
    monkeypatch.setattr(attempt, "PATIENCE_S", 0.01)
    claim = rig.running("worker_us", METERED)
    with failing("blob.before_write", "ENOSPC", times=3 * storage_retries.STORE_TRIES):
        run(rig, engines, claim)

    assert ("succeeded", 1) == (world.state(claim.job_id), world.job(claim.job_id)["attempts"])
    assert ["hold", "settle"] == world.entries(claim.job_id)


def started(rig: Rig, engines: Engines, claim: Claim) -> threading.Thread:
    """The attempt, in a slot's thread."""
    thread = threading.Thread(target=run, args=(rig, engines, claim))
    thread.start()
    return thread


def test_a_cancel_ends_the_wait_for_a_store_that_hangs(world: World, rig: Rig, engines: Engines) -> None:
    """Its slot is free again; the call that hangs is left to itself (P7)."""
    claim = rig.running("worker_us")
    with hanging("blob.before_write") as reached:
        thread = started(rig, engines, claim)
        assert reached.wait(20)
        world.cancel(world.job(claim.job_id)["account_id"], claim.job_id)
        [watched] = rig.heartbeat.active()
        watched.cancelled = True
        watched.stop.set()
        thread.join(20)

    assert not thread.is_alive()
    assert ("cancelled", ["hold", "void"]) == (world.state(claim.job_id), world.entries(claim.job_id))


def test_without_descriptors_no_job_fails_and_no_engine_is_blamed(
    world: World, rig: Rig, engines: Engines
) -> None:
    """The engine's process cannot be started: the job waits, its model stays callable (P1)."""
    claim = rig.running("worker_us")
    with no_descriptors():
        run(rig, engines, claim)
    row = world.job(claim.job_id)

    assert ("queued", 0) == (row["state"], row["hosts_lost"])
    assert row["not_before_at"] - world.now_ms == FIRST_SETBACK_MS
    assert [] == engines.broken()
    world.now_ms += FIRST_SETBACK_MS
    again = world.claim("worker_us")
    assert again is not None
    run(rig, engines, again)
    assert "succeeded" == world.state(claim.job_id)


@pytest.mark.parametrize(("place", "error"), [("blob.before_open", "EMFILE"), ("blob.before_read", "EIO")])
def test_a_recorded_result_that_cannot_be_read_now_is_not_missing(
    world: World, rig: Rig, place: str, error: str
) -> None:
    """Its rescuer looks again later, and finishes it: only a file that is not there is missing (P5, P10)."""
    rig.neighbour()
    claim = rig.running("worker_b", METERED)
    world.fence(claim.attempt_id)
    rig.record(claim)
    upkeep = rig.upkeep()
    with failing(place, error):
        upkeep.do_due(1000.0)
        before = world.state(claim.job_id)
        upkeep.do_due(1000.5)

    assert ("running", "succeeded") == (before, world.state(claim.job_id))
    assert ["hold", "settle"] == world.entries(claim.job_id)


def test_an_input_that_cannot_be_read_gives_its_slot_back(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a minute of tries: one bad sector holds no lane up, and nothing is counted (P1)."""
    monkeypatch.setattr(storage_retries, "READ_PATIENCE_S", 0.01)
    monkeypatch.setattr(storage_retries, "READ_PAUSE_S", 0.001)
    record = rig.context.blobs.write(world.ids.new("blob"), b"sound")
    watched = rig.heartbeat.watch("attempt_x", cancellable=True)

    with failing("blob.before_read", "EIO", times=1000), pytest.raises(StoreUnreachable):
        storage_retries.when_back(watched, lambda: rig.context.blobs.read_all(record))
    assert b"sound" == storage_retries.when_back(watched, lambda: rig.context.blobs.read_all(record))
