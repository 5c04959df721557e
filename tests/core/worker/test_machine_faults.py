"""What the machine lacks is not the job's fault: it is tried again, uncounted; what was paid for is kept."""

import errno
import os
import resource
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from structlog.typing import EventDict

from servers.rig import Rig, eventually, failing, full_disk, hanging, run
from servers.speed import HANG_S
from servers.world import METERED, World
from tenuto.errors import StoreUnreachable, StoreUnreachableForWrites, causes, is_of_the_machine
from tenuto.features.kept_results import paid as paid_results
from tenuto.features.kept_results import results
from tenuto.features.kept_results.results import KeptResult
from tenuto.file.blob import BlobRecord
from tenuto.file.directory import DirectoryBlobs
from tenuto.host.host import Cancelled
from tenuto.job import recover
from tenuto.job.queue import Claim
from tenuto.job.states import OUTCOME_UNKNOWN, Decision
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


def is_told(logs: list[EventDict], event: str, attempt_id: str) -> bool:
    """Whether the log has the event, of this attempt."""
    return any((event, attempt_id) == (line["event"], line.get("attempt_id")) for line in list(logs))


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
    with failing("blob.before_write", "ENOSPC", times=20 * storage_retries.STORE_TRIES):
        run(rig, engines, claim)

    assert ("succeeded", 1) == (world.state(claim.job_id), world.job(claim.job_id)["attempts"])
    assert ["hold", "settle"] == world.entries(claim.job_id)


@pytest.mark.parametrize("takes_files", [True, False])
def test_a_worker_that_stops_leaves_what_it_was_paid_for_in_a_file(
    world: World, rig: Rig, engines: Engines, takes_files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is too large for the database: the operator sees that the call was made, why its result is not
    stored, and where it is; if the data folder takes nothing either, that it is lost (P10).
    """
    monkeypatch.setattr(paid_results, "MAX_BYTES", 0)
    if not takes_files:
        (rig.folder / paid_results.RESCUED).write_bytes(b"")
    claim = rig.running("worker_us", METERED)
    thread = threading.Thread(target=run, args=(rig, engines, claim))
    with full_disk(), capture_logs() as logs:
        thread.start()
        assert eventually(lambda: is_told(logs, "blob.not_stored", claim.attempt_id))
        for watched in rig.heartbeat.active():
            watched.leave.set()
        thread.join(HANG_S)
    row = world.job(claim.job_id)
    evidence = world.attempt(claim.attempt_id)["evidence"]

    assert not thread.is_alive()
    assert ("recovery_required", ["hold"]) == (row["state"], world.entries(claim.job_id))
    assert OUTCOME_UNKNOWN == row["error_message"]
    assert "had to stop" in evidence
    assert "the store fails: No space left on device" in evidence
    kept = rig.folder / paid_results.RESCUED / claim.attempt_id
    if takes_files:
        assert f"tenuto admin recover complete {claim.job_id} --file {kept}" in evidence
        fits = world.read(lambda tx: recover.fit(tx, claim.job_id, kept.read_bytes()))
        assert ("audio/wav", 0o600) == (fits.media_type, kept.stat().st_mode & 0o777)
        assert is_told(logs, "result.kept_aside", claim.attempt_id)
    else:
        assert "(File exists) and is lost" in evidence


def stop(rig: Rig, attempt_id: str) -> None:
    """As a worker that drains and has no more time: attempts that it may stop, and then all."""
    [watched] = [watched for watched in rig.heartbeat.active() if watched.attempt_id == attempt_id]
    if watched.cancellable:
        watched.stop.set()
    watched.leave.set()


def started(rig: Rig, engines: Engines, claim: Claim) -> threading.Thread:
    """The attempt, in a slot's thread."""
    thread = threading.Thread(target=run, args=(rig, engines, claim))
    thread.start()
    return thread


@pytest.mark.parametrize("hangs", [True, False])
def test_a_worker_that_stops_gives_a_free_job_back_while_the_store_takes_nothing(
    world: World, rig: Rig, engines: Engines, hangs: bool
) -> None:
    """Whether it hangs or refuses, and whichever flag is seen first: released, with no file, for no operator
    (P1, P14)."""
    claim = rig.running("worker_us")
    with hanging("blob.before_write") if hangs else full_disk(), capture_logs() as logs:
        thread = started(rig, engines, claim)
        assert eventually(lambda: world.attempt(claim.attempt_id)["state"] == "running")
        assert eventually(lambda: hangs or is_told(logs, "blob.not_stored", claim.attempt_id))
        stop(rig, claim.attempt_id)
        thread.join(20)

    assert not thread.is_alive()
    assert ("queued", ["hold"]) == (world.state(claim.job_id), world.entries(claim.job_id))
    assert not (rig.folder / paid_results.RESCUED).exists()


@pytest.mark.parametrize("place", ["blob.before_write", "blob.before_fsync"])
def test_another_worker_stores_what_was_paid_for_while_the_store_hung(
    world: World, rig: Rig, engines: Engines, place: str
) -> None:
    """The database keeps it: no operator, no second call, one charge, and nothing left behind, however many
    workers store it (P3, P10)."""
    claim = rig.running("worker_us", METERED)
    upkeeps = [rig.upkeep(name) for name in ("worker_b", "worker_c")]
    with capture_logs() as logs:
        with hanging(place) as reached:
            thread = started(rig, engines, claim)
            assert reached.wait(20)
            stop(rig, claim.attempt_id)
            thread.join(20)
            for now in (1000.0, 1031.0):
                for upkeep in upkeeps:
                    upkeep.do_due(now)
            meanwhile = world.state(claim.job_id)
        for upkeep in upkeeps:
            upkeep.threads["kept-results"].join(20)
            upkeep.do_due(1032.0)

    assert not thread.is_alive()
    assert is_told(logs, "result.kept", claim.attempt_id)
    assert "upkeep.failed" not in {line["event"] for line in logs}
    assert ("running", "succeeded") == (meanwhile, world.state(claim.job_id))
    assert (1, ["hold", "settle"]) == (world.job(claim.job_id)["attempts"], world.entries(claim.job_id))
    assert [] == world.read(lambda tx: tx.all("select job_id from kept_result"))
    assert not (rig.folder / paid_results.RESCUED).exists()


class Breaks(DirectoryBlobs):
    """A real folder whose first write fails, and whose second meets a bug."""

    writes = 0

    def write(self, blob_id: str, content: bytes | Iterable[bytes]) -> BlobRecord:
        self.writes += 1
        if self.writes == 1:
            raise StoreUnreachableForWrites
        if self.writes == 2:
            raise ValueError("a bug")
        return super().write(blob_id, content)


def test_what_the_database_keeps_is_stored_whatever_becomes_of_the_attempt(
    world: World, rig: Rig, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that nobody foresaw, after it was kept: no operator, no second call, one charge (P3, P10)."""
    monkeypatch.setattr(storage_retries, "STORE_PAUSE_S", 0.001)
    claim = rig.running("worker_us", METERED)
    rig.context = replace(rig.context, blobs=Breaks(rig.folder / "blobs"))
    run(rig, engines, claim)
    upkeep = rig.upkeep("worker_b")
    for now in (1000.0, 1031.0):
        upkeep.do_due(now)
    upkeep.threads["kept-results"].join(20)
    upkeep.do_due(1032.0)

    assert "succeeded" == world.state(claim.job_id)
    assert (1, ["hold", "settle"]) == (world.job(claim.job_id)["attempts"], world.entries(claim.job_id))


def test_a_store_that_is_away_is_not_asked_all_the_time_for_what_is_kept(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker would read each result from the database every second. It is stored at a later look."""
    rig.neighbour("worker_gone")
    claim = rig.running("worker_gone", METERED)
    world.fence(claim.attempt_id)
    made = KeptResult(b"sound", "audio/wav", {}, 10)
    world.write(lambda tx: results.keep(tx, claim.attempt_id, made, now_ms=world.now_ms))
    blobs = Breaks(rig.folder / "blobs")
    rig.context = replace(rig.context, blobs=blobs)
    tries = []
    for pause_s in (1000.0, 0.0):
        upkeep = rig.upkeep()
        monkeypatch.setattr(paid_results, "FIRST_PAUSE_S", pause_s)
        monkeypatch.setattr(paid_results, "LONGEST_PAUSE_S", pause_s)
        for now in range(5):
            upkeep.do_due(1000.0 + now)
            upkeep.threads["kept-results"].join(20)
        tries.append(blobs.writes)

    assert [1, 3] == tries
    assert ("succeeded", ["hold", "settle"]) == (world.state(claim.job_id), world.entries(claim.job_id))


@pytest.mark.parametrize(
    "damage",
    [
        "delete from kept_result where sequence = 2",
        "update kept_result set content = 'x' where sequence = 1",
        "update kept_result set content = '[]' where sequence = 0",
    ],
)
def test_a_kept_result_that_is_damaged_waits_for_its_operator(world: World, rig: Rig, damage: str) -> None:
    """It is not charged for, and its slot is free for the next job (P5, P10)."""
    rig.neighbour("worker_gone")
    claim = rig.running("worker_gone", METERED)
    world.fence(claim.attempt_id)
    made = KeptResult(bytes(600_000), "audio/wav", {}, 10)
    world.write(lambda tx: results.keep(tx, claim.attempt_id, made, now_ms=world.now_ms))
    world.write(lambda tx: tx.run(damage))
    upkeep = rig.upkeep()
    upkeep.do_due(1000.0)
    upkeep.threads["kept-results"].join(20)
    row = world.job(claim.job_id)

    assert ("recovery_required", "unforeseen") == (row["state"], row["error_code"])
    assert ["hold"] == world.entries(claim.job_id)
    assert rig.running("worker_us", METERED).job_id != claim.job_id


def test_a_file_is_removed_once_its_job_has_ended_without_it(world: World, rig: Rig) -> None:
    """Another worker was quicker, or an operator decided; until then it stays, as does what is nobody's."""
    claims = []
    for _ in range(2):
        claims.append(rig.running("worker_gone", METERED))
        world.fence(claims[-1].attempt_id)
        world.unknown(claims[-1].attempt_id)
    ended, waits = claims
    world.write(
        lambda tx: recover.void(
            tx, world.ids, ended.job_id, cancel=False, by=Decision("alice", "ticket 7"), now_ms=world.now_ms
        )
    )
    names = [ended.attempt_id, waits.attempt_id, "attempt_of_another_database"]
    (rig.folder / paid_results.RESCUED).mkdir()
    for name in names:
        (rig.folder / paid_results.RESCUED / name).write_bytes(b"RIFF")
    upkeep = rig.upkeep()
    upkeep.do_due(1000.0)
    upkeep.threads["kept-files"].join(20)

    assert set(names[1:]) == {path.name for path in (rig.folder / paid_results.RESCUED).iterdir()}


@pytest.mark.parametrize("stores", [True, False])
def test_what_was_paid_for_is_in_a_file_if_the_database_hangs(
    world: World, rig: Rig, engines: Engines, monkeypatch: pytest.MonkeyPatch, stores: bool
) -> None:
    """Whether or not the store has the bytes, which no row names: before the worker ends, and said (P10)."""
    monkeypatch.setattr(paid_results, "ROW_S", 0.01)
    claim = rig.running("worker_us", METERED)
    place = "result.after_bytes" if stores else "blob.before_write"
    kept = rig.folder / paid_results.RESCUED / claim.attempt_id
    with capture_logs() as logs:
        with hanging(place) as reached:
            thread = started(rig, engines, claim)
            assert reached.wait(20)
            rig.database.passes.clear()
        assert eventually(lambda: is_told(logs, "result.kept_aside", claim.attempt_id))
        saved = kept.read_bytes()
        rig.database.passes.set()
        thread.join(20)

    assert not thread.is_alive()
    assert saved.startswith(b"RIFF")
    assert ("succeeded", ["hold", "settle"]) == (world.state(claim.job_id), world.entries(claim.job_id))
    assert not kept.exists()


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


def test_an_input_that_hangs_does_not_hold_a_worker_that_stops(world: World, rig: Rig) -> None:
    """Nor a lane's slot for longer than a minute (P1)."""
    record = rig.context.blobs.write(world.ids.new("blob"), b"sound")
    watched = rig.heartbeat.watch("attempt_x", cancellable=True)
    ended: list[Exception] = []

    def read() -> None:
        try:
            storage_retries.when_back(watched, lambda: rig.context.blobs.read_all(record))
        except Cancelled as error:
            ended.append(error)

    with hanging("blob.before_read") as reached:
        thread = threading.Thread(target=read)
        thread.start()
        assert reached.wait(20)
        watched.stop.set()
        thread.join(20)

    assert not thread.is_alive()
    assert 1 == len(ended)


def test_a_cancel_ends_the_wait_for_room(world: World, rig: Rig, engines: Engines) -> None:
    """What can be made again is not held against its caller's will."""
    claim = rig.running("worker_us")
    thread = threading.Thread(target=run, args=(rig, engines, claim))
    with full_disk(), capture_logs() as logs:
        thread.start()
        assert eventually(lambda: is_told(logs, "blob.not_stored", claim.attempt_id))
        world.cancel(world.job(claim.job_id)["account_id"], claim.job_id)
        for watched in rig.heartbeat.active():
            watched.cancelled = True
            watched.stop.set()
        thread.join(HANG_S)

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
