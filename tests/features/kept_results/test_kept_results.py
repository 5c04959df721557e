"""What was paid for and cannot be stored: kept in the database, then in a file."""

import threading
from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from structlog.typing import EventDict

from servers.rig import Rig, eventually, full_disk, hanging, run
from servers.speed import HANG_S
from servers.world import METERED, World
from tenuto.db.database import Transaction
from tenuto.errors import StoreUnreachableForWrites
from tenuto.features.kept_results import keeper, results
from tenuto.features.kept_results.results import KeptResult
from tenuto.file.blob import BlobRecord
from tenuto.file.directory import DirectoryBlobs
from tenuto.job import finish, recover
from tenuto.job.queue import Claim
from tenuto.job.states import OUTCOME_UNKNOWN, Decision
from tenuto.worker import storage_retries
from tenuto.worker.engines import Engines


def is_told(logs: list[EventDict], event: str, attempt_id: str) -> bool:
    """Whether the log has the event, of this attempt."""
    return any((event, attempt_id) == (line["event"], line.get("attempt_id")) for line in list(logs))


@pytest.mark.parametrize("takes_files", [True, False])
def test_a_worker_that_stops_leaves_what_it_was_paid_for_in_a_file(
    world: World, rig: Rig, engines: Engines, takes_files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is too large for the database: the operator sees that the call was made, why its result is not
    stored, and where it is; if the data folder takes nothing either, that it is lost (P10).
    """
    monkeypatch.setattr(keeper, "MAX_BYTES", 0)
    if not takes_files:
        (rig.folder / keeper.RESCUED).write_bytes(b"")
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
    kept = rig.folder / keeper.RESCUED / claim.attempt_id
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
    assert not (rig.folder / keeper.RESCUED).exists()


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
    assert not (rig.folder / keeper.RESCUED).exists()


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
        monkeypatch.setattr(keeper, "FIRST_PAUSE_S", pause_s)
        monkeypatch.setattr(keeper, "LONGEST_PAUSE_S", pause_s)
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
    (rig.folder / keeper.RESCUED).mkdir()
    for name in names:
        (rig.folder / keeper.RESCUED / name).write_bytes(b"RIFF")
    upkeep = rig.upkeep()
    upkeep.do_due(1000.0)
    upkeep.threads["kept-files"].join(20)

    assert set(names[1:]) == {path.name for path in (rig.folder / keeper.RESCUED).iterdir()}


@pytest.mark.parametrize("stores", [True, False])
def test_what_was_paid_for_is_in_a_file_if_the_database_hangs(
    world: World, rig: Rig, engines: Engines, monkeypatch: pytest.MonkeyPatch, stores: bool
) -> None:
    """Whether or not the store has the bytes, which no row names: before the worker ends, and said (P10)."""
    monkeypatch.setattr(keeper, "ROW_S", 0.01)
    claim = rig.running("worker_us", METERED)
    place = "result.after_bytes" if stores else "blob.before_write"
    kept = rig.folder / keeper.RESCUED / claim.attempt_id
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


@pytest.mark.parametrize("decision", ["complete", "requeue", "void"])
def test_a_decision_removes_what_the_database_kept_of_a_result(world: World, decision: str) -> None:
    """It is a caller's content, and nobody will store it any more."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    made = KeptResult(b"sound" * 100_000, "audio/wav", {"sample_rate": 24_000}, 10)
    world.write(lambda tx: results.keep(tx, claim.attempt_id, made, now_ms=world.now_ms))
    found = world.read(lambda tx: results.find(tx, claim.attempt_id))
    now_ms, by = world.now_ms, Decision("alice", "ticket 7")
    lost = {"code": "unforeseen", "message": "x", "evidence": "x"}
    world.write(lambda tx: finish.hand_over(tx, claim.attempt_id, **lost, now_ms=now_ms))

    def decide(tx: Transaction) -> None:
        if decision == "complete":
            recover.complete(tx, world.ids, claim.job_id, world.result(), by=by, now_ms=now_ms)
        elif decision == "requeue":
            recover.requeue(tx, world.ids, claim.job_id, by=by, now_ms=now_ms)
        else:
            recover.void(tx, world.ids, claim.job_id, cancel=False, by=by, now_ms=now_ms)

    world.write(decide)

    if decision == "void":
        why = "the service could not run the job; nothing is charged"
        assert why == world.job(claim.job_id)["error_message"]
    assert made == found
    assert [] == world.read(lambda tx: tx.all("select job_id from kept_result"))
