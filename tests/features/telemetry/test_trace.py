"""The spans that a job's events say, on both databases."""

from servers.world import METERED, World
from tenuto.features.telemetry import trace
from tenuto.features.telemetry.spans import Span, span_id, trace_of


def spans_since_start(world: World, *, of: str) -> list[Span]:
    """All spans of a job, as the worker reads them that exports."""
    return [
        span
        for event in world.read(trace.next_events)
        for span in trace.spans_of(event)
        if span.attributes["tenuto.job.id"] == of
    ]


def summary(spans: list[Span]) -> list[tuple[str, int, str | None]]:
    return [(span.name, (span.ended_ns - span.began_ns) // 1_000_000, span.error) for span in spans]


def test_a_lost_attempt_and_the_next_are_both_spans(world: World) -> None:
    """Waits run from one event to the next, attempts from their claims; each has an id of its own."""
    world.write(trace.observe)
    caller = world.caller()
    job_id = world.submit(caller, "key").job_id
    world.now_ms += 1_000
    first = world.claim("worker_a")
    assert first is not None
    world.now_ms += 2_000
    world.rescue(first.attempt_id)
    world.now_ms += 3_000
    second = world.claim("worker_b")
    assert second is not None
    world.now_ms += 4_000
    world.finish(second.attempt_id)
    spans = spans_since_start(world, of=job_id)
    submit = span_id("submit", job_id)

    assert [
        ("queue", 1_000, None),
        ("attempt", 2_000, "worker_lost"),
        ("queue", 3_000, None),
        ("attempt", 4_000, None),
        ("settlement", 0, None),
    ] == summary(spans)
    assert [submit] * 4 + [spans[3].id] == [span.parent_id for span in spans]
    assert ["worker_a", "worker_b"] == [spans[number].attributes["tenuto.worker.id"] for number in (1, 3)]
    assert 5 == len({span.id for span in spans})
    assert spans == spans_since_start(world, of=job_id)
    assert {trace_of(job_id, None)} == {span.trace for span in spans}


def test_what_waits_for_the_operator_is_a_span(world: World) -> None:
    """The attempt has ended before, and is not reported again with the late result."""
    world.write(trace.observe)
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.now_ms += 1_000
    world.unknown(claim.attempt_id)
    world.now_ms += 9_000
    world.finish(claim.attempt_id)
    spans = spans_since_start(world, of=claim.job_id)

    assert [
        ("queue", 0, None),
        ("attempt", 1_000, "recovery_required"),
        ("recovery", 9_000, None),
        ("settlement", 0, None),
    ] == summary(spans)


def test_one_exporter_at_a_time_moves_the_position(world: World) -> None:
    """Another takes over from where the first stood; whoever was replaced moves nothing."""
    assert ("", 0) == world.write(trace.observe)
    assert world.write(lambda tx: trace.hold(tx, "worker_a", before="", beat=0))
    assert not world.write(lambda tx: trace.hold(tx, "worker_b", before="", beat=0))
    claim = world.running()
    events = world.read(trace.next_events)
    assert world.write(lambda tx: trace.hold(tx, "worker_b", before="worker_a", beat=1))
    world.write(lambda tx: trace.stand(tx, "worker_a", events[-1].mark))
    unmoved = world.read(trace.next_events)
    world.write(lambda tx: trace.stand(tx, "worker_b", events[0].mark))
    moved = world.read(trace.next_events)
    world.write(lambda tx: trace.skip(tx, "worker_b"))

    assert [claim.job_id] * 2 == [event.job_id for event in events]
    assert (events, events[1:], []) == (unmoved, moved, world.read(trace.next_events))
