"""Finished parts of a job: kept over attempts, written by the attempt that has the job, gone with its end."""

import pytest

from jobs.world import World
from tenuto.errors import Stale
from tenuto.jobs import parts
from tenuto.jobs.parts import Place

PLACE = Place("segment_text", 0, 0, 160_000, "fake/segment-text", "1")
HEARD = {"segments": [{"start": 0.0, "end": 1.0, "text": "你好"}], "warnings": []}


def add(world: World, attempt_id: str, place: Place = PLACE) -> None:
    world.write(lambda tx: parts.add(tx, attempt_id, place, HEARD, now_ms=world.now_ms))


def finished(world: World, job_id: str) -> set[Place]:
    return set(world.read(lambda tx: parts.finished(tx, job_id)))


def test_a_part_is_there_for_the_next_attempt(world: World) -> None:
    """It is found by role, number, span and engine; said again it is one part."""
    claim = world.running()
    for _ in range(2):
        add(world, claim.attempt_id)

    assert {PLACE: HEARD} == world.read(lambda tx: parts.finished(tx, claim.job_id))


def test_a_part_of_another_span_is_made_anew(world: World) -> None:
    """What was stored for other cuts, or by another revision, is replaced, not used."""
    claim = world.running()
    add(world, claim.attempt_id)
    other = Place("segment_text", 0, 0, 150_000, "fake/segment-text", "2")
    add(world, claim.attempt_id, other)

    assert {other} == finished(world, claim.job_id)


def test_an_attempt_that_lost_its_job_adds_nothing(world: World) -> None:
    """A zombie's part is refused (P4)."""
    claim = world.running()
    world.fail(claim.attempt_id)

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

    assert 1 == world.write(parts.forget_final)
    assert (set(), {PLACE}) == (finished(world, done.job_id), finished(world, still.job_id))
