"""A preview whose attempt or whose disk is lost while the engine speaks."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from servers.rig import Interrupted, Rig, full_disk, hanging
from servers.world import METERED, SPEECH, World
from tenuto.db.database import Transaction
from tenuto.errors import Stale, StorageFailed
from tenuto.features.decoding.wav import pcm16_wav, read_pcm16_wav
from tenuto.features.speech import run as speech_run
from tenuto.features.speech.run import Preview
from tenuto.file.blob import BlobRecord
from tenuto.job import audio_segments, chunks
from tenuto.job.queue import Claim
from tenuto.job.rows import ChunkKey
from tenuto.worker import storage_retries
from tenuto.worker.engine_calls import EngineCalls, ResultInvalid
from tenuto.worker.engines import Engines

SOUND = pcm16_wav(bytes(480), 24_000, 1)


def calls_of(rig: Rig, claim: Claim) -> EngineCalls:
    watched = rig.heartbeat.watch(claim.attempt_id, cancellable=claim.rerunnable)
    return EngineCalls(
        rig.context, Engines(rig.context, [], rig.work_condition), claim, watched, lambda: None
    )


def preview(rig: Rig, claim: Claim) -> Preview:
    return Preview(calls_of(rig, claim))


def saved(world: World, claim: Claim) -> list[int]:
    found = world.read(
        lambda tx: audio_segments.list_segments(
            tx, account_id=claim.account_id, job_id=claim.job_id, attempt_id=None
        )
    )
    return [segment.sequence for segment in found]


def stored(world: World, rig: Rig, claim: Claim) -> list[bytes]:
    """The bytes of an attempt's segments, in order."""
    owner = {"account_id": claim.account_id, "job_id": claim.job_id}

    def blobs(tx: Transaction) -> list[BlobRecord]:
        found = audio_segments.list_segments(tx, **owner, attempt_id=None)
        return [audio_segments.open_segment(tx, **owner, segment_id=each.segment_id).blob for each in found]

    return [rig.context.blobs.read_all(record) for record in world.read(blobs)]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between tries are not what is tested."""
    monkeypatch.setattr(storage_retries, "STORE_PAUSE_S", 0.001)
    monkeypatch.setattr(speech_run, "PATIENCE_S", 0.01)
    monkeypatch.setattr(speech_run, "PAID_PATIENCE_S", 0.01)


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
    with full_disk(), pytest.raises(StorageFailed), preview(rig, claim) as shown:
        for _ in range(20):
            shown.show(SOUND, {})

    assert [] == saved(world, claim)


@contextmanager
def stalled(database: Interrupted) -> Iterator[None]:
    """No write is answered while the block lasts."""
    database.passes.clear()
    try:
        yield
    finally:
        database.passes.set()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["disk full", "store hangs", "database hangs", "attempt lost"])
def test_a_paid_call_outlives_its_preview(world: World, rig: Rig, fault: str) -> None:
    """What is paid for is not thrown away, nor held up, because a preview can't be stored (P10)."""
    claim = rig.running("worker_us", METERED)
    faults: dict[str, AbstractContextManager[object]] = {
        "disk full": full_disk(),
        "store hangs": hanging("blob.before_write"),
        "database hangs": stalled(rig.database),
        "attempt lost": nullcontext(),
    }
    if fault == "attempt lost":
        world.rescue(claim.attempt_id)  # Its late result still counts; its segments do not.
    with faults[fault], preview(rig, claim) as shown:
        for _ in range(20):
            shown.show(SOUND, {})

    # A database that answers late may still have taken the first.
    assert saved(world, claim) in ([], [0] if fault == "database hangs" else [])
    assert ["The preview ends before the speech does"] == [
        warning.partition(":")[0] for warning in shown.warnings
    ]


@pytest.mark.parametrize("model", [METERED, SPEECH])
def test_a_paid_attempt_waits_for_no_row_that_it_can_do_without(world: World, rig: Rig, model: str) -> None:
    """A chunk or live text of a result that is in memory, while the database hangs, or once the attempt is no
    longer the job's. What can be made again waits, and ends with its fence (P10)."""
    claim = rig.running("worker_us", model)
    calls = calls_of(rig, claim)
    with stalled(rig.database) if model == METERED else nullcontext():
        at_once = storage_retries.write_if_soon(calls, lambda tx, now_ms: None)
    world.rescue(claim.attempt_id)

    def add(tx: Transaction, now_ms: int) -> None:
        chunks.add(tx, claim.attempt_id, ChunkKey("segment_text", 0, 0, 1, "m", "r"), {}, now_ms=now_ms)

    assert (model == SPEECH) == at_once
    if model == METERED:
        assert not storage_retries.write_if_soon(calls, add)
    else:
        with pytest.raises(Stale):
            storage_retries.write_if_soon(calls, add)


def test_a_segment_that_is_too_large_for_one_is_saved_as_several(world: World, rig: Rig) -> None:
    """20 MiB are two segments of 10 whose samples joined are the same (R60, R61)."""
    claim = rig.running("worker_us")
    samples = bytes(range(256)) * (20 << 12)
    with preview(rig, claim) as shown:
        shown.show(SOUND, {})
        shown.show(pcm16_wav(samples, 24_000, 2), {})
        shown.show(SOUND, {})
    contents = [read_pcm16_wav(content) for content in stored(world, rig, claim)]

    assert [0, 1, 2, 3] == saved(world, claim)
    assert [] == shown.warnings
    assert {(24_000, 2)} == {(wav.sample_rate, wav.channels) for wav in contents[1:3]}
    assert [10 << 20] * 2 == [len(wav.frames) for wav in contents[1:3]]
    assert samples == b"".join(wav.frames for wav in contents[1:3])


def test_a_full_preview_ends_with_a_warning_and_the_run_goes_on(world: World, rig: Rig) -> None:
    """1,024 segments are kept; what comes after is taken and not shown (R62)."""
    claim = rig.running("worker_us")
    with preview(rig, claim) as shown:
        for _ in range(1026):
            shown.show(SOUND, {})

    assert list(range(1024)) == saved(world, claim)
    assert ["The preview ends before the speech does"] == [
        warning.partition(":")[0] for warning in shown.warnings
    ]


def test_what_is_not_a_wav_ends_the_run(world: World, rig: Rig) -> None:
    """An engine that shows something else has failed; nothing of it is stored (R54)."""
    claim = rig.running("worker_us")
    with pytest.raises(ResultInvalid), preview(rig, claim) as shown:
        shown.show(b"no WAV", {})

    assert [] == saved(world, claim)
