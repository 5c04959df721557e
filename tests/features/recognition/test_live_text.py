"""Text of a recording while its job runs: one attempt's, fenced, gone with the job's end or its content."""

import json

import pytest

from servers.rig import Rig
from servers.world import World
from tenuto.errors import Stale
from tenuto.features.recognition import live_text
from tenuto.features.recognition.live import LiveText as Reporting
from tenuto.features.recognition.live_text import LiveText
from tenuto.features.recognition.recognise_chunk import checked
from tenuto.host.host import HostResult
from tenuto.host.registry import SEGMENT_TEXT, entry_of
from tenuto.job.rows import ChunkKey
from tenuto.worker.engine_calls import EngineCalls
from tenuto.worker.engines import Engines


def add(world: World, attempt_id: str, first: int, *pieces: str) -> None:
    world.write(lambda tx: live_text.add(tx, attempt_id, first, pieces, now_ms=world.now_ms))


def read(world: World, job_id: str, attempt_id: str | None = None, first: int = 0) -> LiveText:
    return world.read(lambda tx: live_text.of_job(tx, job_id, attempt_id=attempt_id, first=first))


def test_pieces_are_read_in_order_from_any_on(world: World) -> None:
    """A write that is repeated changes nothing; before its first attempt a job has none."""
    claim = world.running()
    waiting = world.submit(world.caller(), "key").job_id
    for _ in range(2):
        add(world, claim.attempt_id, 0, "Hold", " the")
    add(world, claim.attempt_id, 2, " note.")

    assert LiveText(claim.attempt_id, ["Hold", " the", " note."]) == read(world, claim.job_id)
    assert [" note."] == read(world, claim.job_id, claim.attempt_id, 2).pieces
    assert LiveText(None, []) == read(world, waiting)


def test_attempts_are_never_mixed(world: World) -> None:
    """Whoever has read an earlier attempt's pieces gets the newest one's from its first on."""
    claim = world.running()
    add(world, claim.attempt_id, 0, "Hold", " it.")
    world.release(claim.attempt_id)
    waiting = read(world, claim.job_id, claim.attempt_id, 2)
    again = world.claim()
    assert again is not None
    add(world, again.attempt_id, 0, "Hold")

    assert LiveText(claim.attempt_id, []) == waiting
    assert LiveText(again.attempt_id, ["Hold"]) == read(world, claim.job_id, claim.attempt_id, 2)


def test_an_attempt_that_lost_its_job_adds_nothing(world: World) -> None:
    """A zombie's text is refused (P4)."""
    claim = world.running()
    world.fail(claim.attempt_id)

    with pytest.raises(Stale):
        add(world, claim.attempt_id, 0, "Hold")
    assert [] == read(world, claim.job_id).pieces


def test_text_goes_when_its_job_is_final(world: World) -> None:
    """That of an open job stays."""
    done = world.running()
    add(world, done.attempt_id, 0, "Hold", " it.")
    world.fail(done.attempt_id)
    still = world.running()
    add(world, still.attempt_id, 0, "Hold")

    assert 2 == world.write(live_text.forget_final)
    assert ([], ["Hold"]) == (read(world, done.job_id).pieces, read(world, still.job_id).pieces)


def test_a_transcripts_text_can_be_stored(world: World, rig: Rig) -> None:
    """U+0000 in what is reported while the job runs, and at the end: PostgreSQL stores no such text."""
    claim, first = rig.running("worker_us"), entry_of("fake/segment-text")
    watched = rig.heartbeat.watch(claim.attempt_id, cancellable=True)
    calls = EngineCalls(
        rig.context, Engines(rig.context, [], rig.work_condition), claim, watched, lambda: None
    )
    key = ChunkKey(SEGMENT_TEXT, 0, 0, 160_000, first.model, first.revision)
    reports = Reporting(calls, (first,), [(0.0, 10.0)]).reports(key, lambda _: None)
    assert reports.on_segment is not None
    reports.on_segment(b"be\0fore", {"start": 0.0, "end": 1.0})
    segment = {"start": 0, "end": 1, "text": "be\0fore", "type": "speech"}
    content = json.dumps({"segments": [segment]}).encode()
    transcript = checked(HostResult("application/json", content, {}, None), SEGMENT_TEXT, 10.0)

    assert ["be\ufffdfore"] == world.read(lambda tx: live_text.of_job(tx, claim.job_id)).pieces
    assert ["be\ufffdfore"] == [one["text"] for one in transcript["segments"]]
