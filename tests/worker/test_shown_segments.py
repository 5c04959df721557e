"""A preview whose attempt or whose disk is lost while the engine speaks."""

import shutil
from pathlib import Path

import pytest

from jobs.world import METERED, SPEECH, World
from tenuto.errors import Stale, StorageFailed
from tenuto.jobs import segments
from tenuto.jobs.queue import Claim
from tenuto.jobs.segments import SegmentLimit
from tenuto.media.wav import pcm16_wav
from tenuto.worker import durable
from tenuto.worker.calls import EngineCalls, ResultInvalid
from tenuto.worker.engines import Engines
from tenuto.worker.segments import Preview
from worker.rig import Rig

SOUND = pcm16_wav(bytes(480), 24_000, 1)


def preview(rig: Rig, claim: Claim) -> Preview:
    watched = rig.heartbeat.watch(claim.attempt_id, cancellable=claim.rerunnable)
    return Preview(EngineCalls(rig.parts, Engines(rig.parts, [], rig.bell), claim, watched))


def saved(world: World, claim: Claim) -> list[int]:
    found = world.read(
        lambda tx: segments.list_segments(
            tx, account_id=claim.account_id, job_id=claim.job_id, attempt_id=None
        )
    )
    return [segment.sequence for segment in found]


def break_disk(folder: Path) -> None:
    """Where folders should be there is a file, as after a bad restore: every write fails."""
    shutil.rmtree(folder / "blobs")
    (folder / "blobs").write_text("no folder")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between tries are not what is tested."""
    monkeypatch.setattr(durable, "STORE_PAUSE_S", 0.001)


def test_everything_is_saved_when_the_preview_ends(world: World, rig: Rig) -> None:
    """In order, however fast they come: whoever goes on to the result finds all of them (R56, R59)."""
    claim = rig.running("worker_us")
    with preview(rig, claim) as shown:
        for _ in range(40):
            shown.show(SOUND, {})

    assert list(range(40)) == saved(world, claim)


def test_what_was_shown_before_a_failure_is_saved_too(world: World, rig: Rig) -> None:
    """The engine fails after three segments: its error goes on, the three are kept (R41)."""
    claim = rig.running("worker_us")
    with pytest.raises(ZeroDivisionError), preview(rig, claim) as shown:
        for _ in range(3):
            shown.show(SOUND, {})
        raise ZeroDivisionError

    assert [0, 1, 2] == saved(world, claim)


def test_an_attempt_that_was_taken_over_saves_no_more(world: World, rig: Rig) -> None:
    """Rescued in the middle: Stale, and what came after the rescue is nowhere (P9, R58)."""
    claim = rig.running("worker_us")
    with preview(rig, claim) as shown:
        shown.show(SOUND, {})
    world.rescue(claim.attempt_id)
    with pytest.raises(Stale), preview(rig, claim) as late:
        for _ in range(20):
            late.show(SOUND, {})

    assert [0] == saved(world, claim)


@pytest.mark.usefixtures("impatient")
def test_a_disk_that_fails_ends_the_attempt(world: World, rig: Rig) -> None:
    """Nothing is listed whose bytes are not durable; the job is tried again as a whole (R32)."""
    claim = rig.running("worker_us", SPEECH)
    break_disk(rig.folder)
    with pytest.raises(StorageFailed), preview(rig, claim) as shown:
        for _ in range(20):
            shown.show(SOUND, {})

    assert [] == saved(world, claim)


@pytest.mark.usefixtures("impatient")
def test_a_paid_call_outlives_its_preview(world: World, rig: Rig) -> None:
    """What is paid for is not thrown away because a preview can't be stored (P10)."""
    claim = rig.running("worker_us", METERED)
    break_disk(rig.folder)
    with preview(rig, claim) as shown:
        for _ in range(20):
            shown.show(SOUND, {})

    assert [] == saved(world, claim)


def test_what_may_not_be_kept_is_refused_at_once(world: World, rig: Rig) -> None:
    """Too large, or no WAV: the run is stopped by it, nothing of it is stored (R54, R61)."""
    claim = rig.running("worker_us")
    large = pcm16_wav(bytes(16 << 20), 24_000, 1)
    for content, error in ((large, SegmentLimit), (b"no WAV", ResultInvalid)):
        with pytest.raises(error), preview(rig, claim) as shown:
            shown.show(content, {})

    assert [] == saved(world, claim)
