"""Finished chunks of a job: kept over attempts, written by the attempt that has the job, gone at its end."""

import pytest

from servers.world import World
from tenuto.errors import Stale
from tenuto.job import chunks
from tenuto.job.rows import ChunkKey

CHUNK = ChunkKey("segment_text", 0, 0, 160_000, "fake/segment-text", "1")
HEARD = {"segments": [{"start": 0.0, "end": 1.0, "text": "你好"}], "warnings": []}


def add(world: World, attempt_id: str, key: ChunkKey = CHUNK) -> None:
    world.write(lambda tx: chunks.add(tx, attempt_id, key, HEARD, now_ms=world.now_ms))


def finished(world: World, job_id: str) -> set[ChunkKey]:
    return set(world.read(lambda tx: chunks.finished(tx, job_id)))


def test_a_part_is_there_for_the_next_attempt(world: World) -> None:
    """It is found by role, number, span and engine; said again it is one part."""
    claim = world.running()
    for _ in range(2):
        add(world, claim.attempt_id)

    assert {CHUNK: HEARD} == world.read(lambda tx: chunks.finished(tx, claim.job_id))


def test_a_part_of_another_span_is_made_anew(world: World) -> None:
    """What was stored for other cuts, or by another revision, is replaced, not used."""
    claim = world.running()
    add(world, claim.attempt_id)
    other = ChunkKey("segment_text", 0, 0, 150_000, "fake/segment-text", "2")
    add(world, claim.attempt_id, other)

    assert {other} == finished(world, claim.job_id)


def test_a_damaged_part_is_made_again(world: World) -> None:
    """It is as if it were not there, and the next one takes its key."""
    claim = world.running()
    add(world, claim.attempt_id)
    world.run("update part set transcript = '{' where job_id = :id", id=claim.job_id)
    before = finished(world, claim.job_id)
    add(world, claim.attempt_id)

    assert (set(), {CHUNK}) == (before, finished(world, claim.job_id))


@pytest.mark.parametrize("ends", [True, False])
def test_an_attempt_that_lost_its_job_adds_nothing(world: World, ends: bool) -> None:
    """A zombie's part is refused, when the job has ended or another attempt runs it (P9)."""
    claim = world.running()
    if ends:
        world.fail(claim.attempt_id)
    else:
        world.rescue(claim.attempt_id)
        assert world.claim() is not None

    with pytest.raises(Stale):
        add(world, claim.attempt_id)
    assert set() == finished(world, claim.job_id)


def test_parts_go_when_their_job_is_final(world: World) -> None:
    """Those of an open job stay."""
    done = world.running()
    add(world, done.attempt_id)
    world.fail(done.attempt_id)
    still = world.running()
    add(world, still.attempt_id)

    assert 1 == world.write(chunks.forget_final)
    assert (set(), {CHUNK}) == (finished(world, done.job_id), finished(world, still.job_id))
