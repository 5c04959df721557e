"""Segments behind the fence of their attempt, and what an attempt may show at most."""

import pytest

from servers.world import World
from tenuto.db.database import ConstraintFailed
from tenuto.errors import NotFound, Stale
from tenuto.job import audio_segments
from tenuto.job.attempts_sql import Segment
from tenuto.job.audio_segments import (
    MAX_ATTEMPT_BYTES,
    MAX_SEGMENT_BYTES,
    MAX_SEGMENTS,
    SegmentLimit,
    SegmentTotals,
)
from tenuto.job.queue import Claim
from tenuto.job.rows import NewSegment


def save(world: World, attempt_id: str, sequence: int, new: NewSegment | None = None) -> NewSegment:
    made = new or NewSegment(world.ids.new("segment"), sequence, world.blob(), 100)
    world.write(lambda tx: audio_segments.save(tx, attempt_id, made, now_ms=world.now_ms))
    return made


def listed(world: World, claim: Claim, attempt_id: str | None = None) -> list[Segment]:
    return world.read(
        lambda tx: audio_segments.list_segments(
            tx, account_id=claim.account_id, job_id=claim.job_id, attempt_id=attempt_id
        )
    )


def test_a_segment_that_is_said_twice_is_one(world: World) -> None:
    """When the answer to a commit was lost, the same segment is saved again: nothing changes."""
    claim = world.running()
    new = save(world, claim.attempt_id, 0)
    save(world, claim.attempt_id, 0, new)

    assert [(new.segment_id, 0)] == [
        (segment.segment_id, segment.sequence) for segment in listed(world, claim)
    ]


@pytest.mark.parametrize("end", ["rescue", "release", "fail", "cancelled", "record", "finish"])
def test_an_attempt_that_does_not_run_saves_nothing(world: World, end: str) -> None:
    """A late worker's segment is Stale, and changes no row (P9)."""
    claim = world.running()
    save(world, claim.attempt_id, 0)
    getattr(world, end)(claim.attempt_id)
    before = world.everything()
    with pytest.raises(Stale):
        save(world, claim.attempt_id, 1)

    assert before == world.everything()
    assert 1 == len(listed(world, claim))


def test_the_list_is_the_newest_attempts_that_saved_any(world: World) -> None:
    """A new attempt takes the list over with its first segment, not before; two are never mixed (R58)."""
    claim = world.running()
    save(world, claim.attempt_id, 0)
    save(world, claim.attempt_id, 1)
    world.rescue(claim.attempt_id)
    again = world.claim()
    assert again is not None
    still = {segment.attempt_id for segment in listed(world, claim)}
    save(world, again.attempt_id, 0)
    now = [(segment.attempt_id, segment.sequence) for segment in listed(world, claim)]

    assert {claim.attempt_id} == still
    assert [(again.attempt_id, 0)] == now
    assert [0, 1] == [segment.sequence for segment in listed(world, claim, claim.attempt_id)]


def test_another_account_finds_no_segment(world: World) -> None:
    """Neither the list nor one of them (P12)."""
    claim = world.running()
    new = save(world, claim.attempt_id, 0)
    stranger = world.caller().account_id
    with pytest.raises(NotFound):
        world.read(
            lambda tx: audio_segments.list_segments(
                tx, account_id=stranger, job_id=claim.job_id, attempt_id=None
            )
        )
    with pytest.raises(NotFound):
        world.read(
            lambda tx: audio_segments.open_segment(
                tx, account_id=stranger, job_id=claim.job_id, segment_id=new.segment_id
            )
        )


def test_the_limits_are_inclusive() -> None:
    """16 MiB a segment, 1,024 segments, 320 MiB an attempt; a byte or a segment more is refused (R61–R63)."""
    full = SegmentTotals(MAX_SEGMENTS - 1, MAX_ATTEMPT_BYTES - MAX_SEGMENT_BYTES).plus(MAX_SEGMENT_BYTES)

    assert SegmentTotals(1024, 320 << 20) == full
    for shown, size_bytes in (
        (SegmentTotals(), (16 << 20) + 1),
        (SegmentTotals(1024, 0), 1),
        (SegmentTotals(20, (320 << 20) - 100), 101),
    ):
        with pytest.raises(SegmentLimit):
            shown.plus(size_bytes)


def test_a_saved_segment_never_becomes_another(world: World) -> None:
    """Its place in the attempt is taken for good: another one under it is refused, whole (P7, P11)."""
    claim = world.running()
    first = save(world, claim.attempt_id, 0)
    before = world.everything()

    with pytest.raises(ConstraintFailed):
        save(world, claim.attempt_id, 0)
    assert before == world.everything()
    assert [first.segment_id] == [segment.segment_id for segment in listed(world, claim)]
