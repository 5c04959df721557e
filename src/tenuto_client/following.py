"""A job from its acceptance to its end: reading, waiting, its preview. Flows that `drive` runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tenuto_client import pacing
from tenuto_client.downloads import Memory, fetch
from tenuto_client.errors import (
    ContentMismatch,
    GaveUpWaiting,
    InvalidRequest,
    JobCancelled,
    JobFailed,
    RecoveryRequired,
    ResultMissing,
    UnknownState,
)
from tenuto_client.exchange import Link, ask, call, parsed
from tenuto_client.records import RESULT_TYPES, Artifact, Operation, Segment, read
from tenuto_client.steps import Flow, Pause, Request, path_of
from tenuto_client.submission import Reading

OnChange = Callable[[Operation], None]


@dataclass(frozen=True, slots=True)
class SpokenSegment:
    """A piece of a preview with its sound: one WAV, whole and checked."""

    segment: Segment
    content: bytes
    starts_over: bool = False
    """True when the job began anew: what was queued from earlier segments is to be dropped."""


@dataclass(slots=True)
class Preview:
    """How far a preview was heard."""

    reading: Reading
    attempt_id: str | None = None
    heard: int = 0
    """Sequences of this attempt that were given out."""
    is_over: bool = False
    read_at: float | None = None
    """When the job itself was last read."""


def show(link: Link, job_id: str, *, hold_s: int = 0) -> Flow[Reading]:
    """GET /v1/jobs/{id}; the service may hold the answer back until the job changes."""
    query = {"wait": str(hold_s)} if hold_s else {}
    timeout_s = link.timeout_s + hold_s
    began = link.clock.monotonic()
    request = Request("GET", path_of("jobs", job_id), query=query, timeout_s=timeout_s)
    try:
        answer = yield from call(link, request)
    except InvalidRequest as error:
        if not hold_s or error.param != "wait":
            raise
        answer = yield from call(link, replace(request, query={}))
    took_s = link.clock.monotonic() - began
    wait_s = pacing.wait_s(answer.headers, link.clock.now())
    held_s = took_s if hold_s and took_s >= hold_s - 0.05 else 0.0
    return Reading(read(Operation, parsed(answer)), wait_s, held_s)


def wait(
    link: Link, reading: Reading, *, timeout_s: float = pacing.GIVE_UP_S, on_change: OnChange | None = None
) -> Flow[Reading]:
    """Read as `Retry-After` says until the job is final, or its state one that is not known.

    Raises GaveUpWaiting after `timeout_s`; the job goes on, and waiting again continues.
    """
    until = link.clock.monotonic() + timeout_s
    while reading.operation.is_pending:
        left_s = until - link.clock.monotonic()
        if left_s <= 0:
            raise GaveUpWaiting(
                f"{reading.operation.id} is still {reading.operation.state} after {timeout_s:.0f} s",
                operation=reading.operation,
            )
        pause_s = min(left_s, max(0.0, reading.wait_s - reading.held_s))
        if pause_s:
            yield Pause(pause_s)
        left_s = until - link.clock.monotonic()
        hold_s = pacing.hold_s(reading.wait_s, left_s)
        reading = yield from show(link, reading.operation.id, hold_s=hold_s)
        if on_change is not None:
            on_change(reading.operation)
    return reading


def result_of(operation: Operation) -> Artifact:
    """The artifact of a job that succeeded; for every other end the error that tells of it."""
    job_id = operation.id
    if operation.state == "failed":
        failure = operation.error
        why = f"{failure.code}: {failure.message}" if failure else "the service does not say why"
        raise JobFailed(
            f"{job_id} failed: {why}", operation=operation, code=failure.code if failure else "job_failed"
        )
    if operation.state == "cancelled":
        raise JobCancelled(f"{job_id} was cancelled", operation=operation)
    if operation.state == "recovery_required":
        raise RecoveryRequired(
            f"{job_id} waits for the operator: whether it was made or charged is not known; keep the id and "
            "do not submit the work again",
            operation=operation,
        )
    if operation.state != "succeeded":
        raise UnknownState(
            f"{job_id} is {operation.state!r}, which this version does not know; keep the id and do not "
            "submit the work again",
            operation=operation,
        )
    if not operation.artifacts:
        raise ResultMissing(
            f"{job_id} succeeded without a result; report this with its id", operation=operation
        )
    artifact = operation.artifacts[0]
    expected = RESULT_TYPES.get(operation.kind or "", artifact.media_type)
    if artifact.media_type != expected:
        raise ContentMismatch(f"the result of {job_id} is {artifact.media_type}, not {expected}")
    return artifact


def cancel(link: Link, job_id: str) -> Flow[Reading]:
    """POST /v1/jobs/{id}/cancel; sending it again changes nothing."""
    answer = yield from call(link, Request("POST", path_of("jobs", job_id, "cancel")))
    return Reading(read(Operation, parsed(answer)), pacing.wait_s(answer.headers, link.clock.now()))


def segments(link: Link, preview: Preview) -> Flow[list[SpokenSegment]]:
    """The segments that are new since the last call, in order; waits until there are some, or no more."""
    while True:
        was_final = not preview.reading.operation.is_pending
        # Listed after the job was seen to be final, so the last segment is not missed.
        fresh = yield from _fresh(link, preview)
        preview.is_over = was_final
        if fresh or was_final:
            return fresh
        yield Pause(pacing.SEGMENT_POLL_S)
        now = link.clock.monotonic()
        if preview.read_at is None or now - preview.read_at >= preview.reading.wait_s:
            preview.reading = yield from show(link, preview.reading.operation.id)
            preview.read_at = link.clock.monotonic()


def listed(link: Link, job_id: str, attempt_id: str | None = None) -> Flow[list[Segment]]:
    """GET /v1/jobs/{id}/audio-segments, by sequence."""
    query = {} if attempt_id is None else {"attempt_id": attempt_id}
    found = yield from ask(link, Request("GET", path_of("jobs", job_id, "audio-segments"), query=query))
    return sorted((read(Segment, item) for item in found["data"]), key=lambda segment: segment.sequence)


def _fresh(link: Link, preview: Preview) -> Flow[list[SpokenSegment]]:
    job_id = preview.reading.operation.id
    saved = yield from listed(link, job_id)
    starts_over = False
    if saved and saved[0].attempt_id != preview.attempt_id:
        starts_over = preview.attempt_id is not None
        preview.attempt_id, preview.heard = saved[0].attempt_id, 0
    fresh: list[SpokenSegment] = []
    for segment in saved:
        # In order and without a gap: what comes early waits for what is missing.
        if segment.sequence != preview.heard:
            continue
        path = path_of("jobs", job_id, "audio-segments", segment.segment_id, "content")
        memory = Memory(segment.size_bytes, segment.sha256, segment.media_type)
        yield from fetch(link, path, memory, name=segment.segment_id)
        preview.heard += 1
        fresh.append(SpokenSegment(segment, memory.content, starts_over and not fresh))
    return fresh
