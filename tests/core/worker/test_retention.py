"""The operator's retention: what it erases, what it never touches, and when it does nothing at all."""

import json
import threading
import time
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from servers.rig import Rig
from servers.speed import HANG_S
from servers.world import METERED, World, any_key
from tenuto.db.database import Transaction
from tenuto.errors import Erased
from tenuto.file import inputs
from tenuto.file.blob import BlobRecord
from tenuto.file.directory import DirectoryBlobs
from tenuto.job import audio_segments, erasure, read
from tenuto.job.queue import Claim
from tenuto.job.rows import NewSegment
from tenuto.media.flac import FlacSummary
from tenuto.worker import retention

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
KEPT_DAYS = 30


@pytest.fixture
def keeping(rig: Rig) -> Rig:
    """A worker whose operator keeps content for thirty days."""
    rig.context = replace(rig.context, settings=replace(rig.context.settings, retention_days=KEPT_DAYS))
    return rig


def finished(rig: Rig) -> tuple[Claim, str]:
    """A job that has succeeded, with one segment; gives its claim and the blob of its result."""
    claim = rig.running("worker_us")
    blob = rig.context.blobs.write(rig.world.ids.new("blob"), b"a segment")
    new = NewSegment(rig.world.ids.new("segment"), 0, blob, 10)
    rig.world.write(lambda tx: audio_segments.save(tx, claim.attempt_id, new, now_ms=rig.world.now_ms))
    blob_id = rig.record(claim)
    rig.world.succeed(claim.attempt_id)
    return claim, blob_id


def uploaded(rig: Rig, account_id: str) -> str:
    blob = rig.context.blobs.write(rig.world.ids.new("blob"), b"an upload")

    def add(tx: Transaction) -> str:
        return inputs.add_input(
            tx,
            rig.world.ids,
            account_id=account_id,
            media_type="audio/flac",
            blob=blob,
            summary=FlacSummary(16_000, 1, 16_000),
            now_ms=rig.world.now_ms,
        )

    return rig.world.write(add)


def keep(rig: Rig) -> None:
    retention.retain(rig.context, now_ms=rig.world.now_ms)


def request(world: World, claim: Claim) -> str:
    return world.read(lambda tx: read.request_body(tx, any_key(claim.account_id), claim.job_id))


def files(rig: Rig) -> set[str]:
    return {path.name for path in (rig.folder / "blobs").glob("*/blob_*")}


def test_what_is_older_is_erased_and_its_bytes_are_gone(world: World, keeping: Rig) -> None:
    """Request and result of a job that ended more than thirty days ago; the record, its money and segments,
    which are readable for ever, stay (R64).
    """
    claim, blob_id = finished(keeping)
    world.now_ms += KEPT_DAYS * DAY_MS + 1
    newer, newer_blob = finished(keeping)
    before = world.operation(claim.account_id, claim.job_id)
    keep(keeping)

    assert {newer_blob} == {blob_id, newer_blob} & files(keeping)
    with pytest.raises(Erased):
        request(world, claim)
    assert "text" in json.loads(request(world, newer))["parameters"]
    after = world.operation(claim.account_id, claim.job_id)
    assert structs.replace(before, title=None, erased_at=after.erased_at) == after
    assert after.erased_at is not None
    assert ["hold", "settle"] == world.entries(claim.job_id)
    assert b"a segment" == keeping.context.blobs.read_all(segment(world, claim))


def segment(world: World, claim: Claim) -> BlobRecord:
    """The bytes of the job's one segment."""
    account_id, job_id = claim.account_id, claim.job_id
    [kept] = world.read(
        lambda tx: audio_segments.list_segments(tx, account_id=account_id, job_id=job_id, attempt_id=None)
    )
    return world.read(
        lambda tx: audio_segments.open_segment(
            tx, account_id=account_id, job_id=job_id, segment_id=kept.segment_id
        )
    ).blob


def test_open_jobs_are_kept_however_old(world: World, keeping: Rig) -> None:
    """Queued, running and waiting for an operator: nothing of them goes (P1)."""
    running = keeping.running("worker_us")
    queued = world.submit(world.caller(), "key").job_id
    world.now_ms += 10 * KEPT_DAYS * DAY_MS
    before = world.everything()
    keep(keeping)

    assert before == world.everything()
    assert ["running", "queued"] == [world.state(running.job_id), world.state(queued)]


def test_inputs_go_unless_an_open_job_needs_them(world: World, keeping: Rig) -> None:
    """An old upload is erased; one that a queued job names stays until that has ended."""
    caller = world.caller()
    unused, used = uploaded(keeping, caller.account_id), uploaded(keeping, caller.account_id)
    job_id = world.submit(caller, "key").job_id
    world.run(
        "update job set input_artifact_ids = :ids, lane = 'recognition' where id = :id",
        ids=json.dumps([used]),
        id=job_id,
    )
    world.now_ms += KEPT_DAYS * DAY_MS + 1
    keep(keeping)
    erased = [world.row("select erased_at from artifact where id = :id", id=one) for one in (unused, used)]
    world.cancel(caller.account_id, job_id)
    keep(keeping)

    assert [True, False] == [row["erased_at"] is not None for row in erased]
    assert world.row("select erased_at from artifact where id = :id", id=used)["erased_at"] is not None
    assert set() == files(keeping)


@pytest.mark.parametrize("state", ["running", "recovery_required"])
def test_inputs_of_jobs_at_work_stay(world: World, keeping: Rig, state: str) -> None:
    """Running, or waiting for an operator: whoever goes on with the job finds its input."""
    claim = keeping.running("worker_us", METERED)
    used = uploaded(keeping, claim.account_id)
    ids = json.dumps([used])
    world.run("update job set input_artifact_ids = :ids where id = :id", ids=ids, id=claim.job_id)
    if state == "recovery_required":
        world.fence(claim.attempt_id)
        world.unknown(claim.attempt_id)
    world.now_ms += KEPT_DAYS * DAY_MS + 1
    keep(keeping)

    assert state == world.state(claim.job_id)
    assert world.row("select erased_at from artifact where id = :id", id=used)["erased_at"] is None


def test_a_round_ends_when_nothing_is_due(
    world: World, keeping: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog of however many batches; the service's own round rests between two of them."""
    monkeypatch.setattr(erasure, "RETENTION_BATCH", 1)
    caller = world.caller(10**9)
    for number in range(60):
        world.cancel(caller.account_id, world.submit(caller, f"key {number}").job_id)
    for _ in range(5):
        uploaded(keeping, caller.account_id)
    world.now_ms += KEPT_DAYS * DAY_MS + 1
    retention.apply(keeping.turn())

    assert 60 == world.row("select count(*) as erased from job where erased_at is not null")["erased"]
    assert 0 == world.row("select count(*) as kept from artifact where erased_at is null")["kept"]
    assert set() == files(keeping)


def test_a_store_that_stalls_holds_no_rescue_up(world: World, keeping: Rig) -> None:
    """The retention waits for the bytes of an old result, and a dead worker's job is rescued (P8)."""
    asked, may_end = threading.Event(), threading.Event()

    class Stalled(DirectoryBlobs):
        """The real folder, whose removals take as long as the test wants."""

        def delete(self, blob_id: str) -> None:
            asked.set()
            assert may_end.wait(60)
            super().delete(blob_id)

    _, blob_id = finished(keeping)
    keeping.context = replace(keeping.context, blobs=Stalled(keeping.folder / "blobs"))
    world.now_ms += KEPT_DAYS * DAY_MS + 1
    upkeep = keeping.upkeep()
    now = time.monotonic()
    for minute in range(12):
        upkeep.do_due(now + 61 * minute)
        world.now_ms += 61_000
    was_asked = asked.wait(20)
    keeping.neighbour()
    claim = keeping.running("worker_b")
    upkeep.do_due(now + 61 * 12)
    state = world.state(claim.job_id)
    may_end.set()

    assert was_asked
    assert "queued" == state
    upkeep.threads["retention"].join(HANG_S)
    assert blob_id not in files(keeping)


def test_by_default_nothing_is_ever_erased(world: World, rig: Rig) -> None:
    """0 days is no retention (R176)."""
    claim, _ = finished(rig)
    uploaded(rig, claim.account_id)
    world.now_ms += 1000 * KEPT_DAYS * DAY_MS
    before: Any = world.everything()
    keep(rig)

    assert before == world.everything()


def test_a_recording_that_came_with_its_job_goes_a_day_after_it(world: World, rig: Rig) -> None:
    """Not while the job is open, nor before; uploads and results stay, without any retention being set."""
    claim = rig.running("worker_us")
    sent, upload = uploaded(rig, claim.account_id), uploaded(rig, claim.account_id)
    world.write(lambda tx: inputs.send_with_job(tx, [sent], job_id=claim.job_id))
    erased = []
    for hours in (100, 23, 2):
        world.now_ms += hours * HOUR_MS
        keep(rig)
        rows = [world.row("select erased_at from artifact where id = :id", id=one) for one in (sent, upload)]
        erased.append([row["erased_at"] is not None for row in rows])
        if hours == 100:
            result = rig.record(claim)
            world.succeed(claim.attempt_id)

    assert [[False, False], [False, False], [True, False]] == erased
    assert result in files(rig)
    assert 2 == len(files(rig))


def test_a_recording_that_another_job_needs_stays(world: World, rig: Rig) -> None:
    """Somebody has named it in a job of their own, which is still queued; `openai_inputs_h = 0` keeps all."""
    claim = rig.running("worker_us")
    sent, used, kept = (uploaded(rig, claim.account_id) for _ in range(3))
    rig.record(claim)
    world.succeed(claim.attempt_id)
    world.write(lambda tx: inputs.send_with_job(tx, [sent, used], job_id=claim.job_id))
    key_id = world.row("select key_id from job where id = :id", id=claim.job_id)["key_id"]
    other = world.submit(structs.replace(any_key(claim.account_id), key_id=key_id), "another").job_id
    world.run(
        "update job set input_artifact_ids = :ids, lane = 'recognition' where id = :id",
        ids=json.dumps([used]),
        id=other,
    )
    world.now_ms += 25 * HOUR_MS
    settings = rig.context.settings
    rig.context = replace(rig.context, settings=replace(settings, openai_inputs_h=0))
    keep(rig)
    before = len(files(rig))
    rig.context = replace(rig.context, settings=settings)
    keep(rig)
    rows = [world.row("select erased_at from artifact where id = :id", id=one) for one in (sent, used, kept)]

    assert [True, False, False] == [row["erased_at"] is not None for row in rows]
    assert 4 == before
    assert 3 == len(files(rig))
