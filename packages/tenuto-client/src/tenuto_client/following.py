"""Follows a job once it is accepted: reading, waiting, the preview. Flows that `drive` runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tenuto_client import pacing
from tenuto_client.downloads import Memory, fetch
from tenuto_client.errors import (
    ContentMismatch,
    GaveUpWaiting,
    InvalidRequest,
    JobCancelled,
    JobFailed,
    RateLimited,
    RecoveryRequired,
    ResultMissing,
    ServiceFailed,
    UnknownState,
)
from tenuto_client.exchange import Link, ask, call
from tenuto_client.records import RESULT_TYPES, Artifact, Operation, Segment, read
from tenuto_client.steps import Flow, Pause, Request, path_of
from tenuto_client.submission import Reading

OnChange = Callable[[Operation], None]


@dataclass(frozen=True, slots=True)
class SpokenSegment:
    """A segment of a preview with its audio: one complete WAV, verified."""

    segment: Segment
    content: bytes
    starts_over: bool = False
    """True if the job started over: drop what you have queued from earlier segments."""


@dataclass(slots=True)
class Preview:
    """How far a preview has been followed."""

    reading: Reading
    attempts: set[str] = field(default_factory=set)
    """All attempts seen so far. Only one is followed; one that was dropped is never followed again."""
    attempt_id: str | None = None
    delivered: set[str] = field(default_factory=set)
    """The ids of this attempt's segments that were already returned."""
    is_over: bool = False
    list_at: float = 0.0
    """On the monotonic clock: the segments are not listed again before this."""
    until: float | None = None
    """When to give up; set by the first listing."""


def show(link: Link, job_id: str, *, hold_s: int = 0, patience_s: float = pacing.GIVE_UP_S) -> Flow[Reading]:
    """GET /v1/jobs/{id}; the service may delay the response until the job changes."""
    query = {"wait": str(hold_s)} if hold_s else {}
    began = link.clock.monotonic()
    request = Request("GET", path_of("jobs", job_id), query=query, timeout_s=link.timeout_s + hold_s)
    try:
        answer = yield from call(link, request, patience_s=patience_s)
    except InvalidRequest as error:
        if not hold_s:
            raise
        # `wait` is an extension of the contract; a service without it may refuse it with any message.
        asked_s = error.retry_after_s
        yield Pause(pacing.DEFAULT_WAIT_S if asked_s is None else max(pacing.MIN_WAIT_S, asked_s))
        answer = yield from call(link, replace(request, query={}), patience_s=patience_s)
        return Reading.of(link, answer, can_hold=False)
    held_s = pacing.held_s(answer.headers, hold_s, link.clock.monotonic() - began)
    return Reading.of(link, answer, held_s=held_s)


def wait(
    link: Link, reading: Reading, *, timeout_s: float = pacing.GIVE_UP_S, on_change: OnChange | None = None
) -> Flow[Reading]:
    """Read at the pace of `Retry-After` until the job is final or in an unknown state.

    Raises GaveUpWaiting after `timeout_s`; the job continues and can be waited for again.
    """
    until = link.clock.monotonic() + timeout_s
    while reading.operation.is_pending:
        yield from _pause_until(link, min(reading.due_at, until))
        left_s = until - link.clock.monotonic()
        if left_s <= 0 or reading.due_at > until:
            raise _gave_up(reading.operation, timeout_s)
        hold_s = pacing.hold_s(reading.wait_s, left_s) if reading.can_hold else 0
        last, job_id = reading, reading.operation.id
        try:
            reading = yield from show(link, job_id, hold_s=hold_s, patience_s=left_s)
        except (RateLimited, ServiceFailed) as error:
            if link.clock.monotonic() + (error.retry_after_s or pacing.DEFAULT_WAIT_S) <= until:
                raise
            yield from _pause_until(link, until)
            raise _gave_up(last.operation, timeout_s) from error
        if not last.can_hold:
            reading = replace(reading, can_hold=False)
        if on_change is not None:
            on_change(reading.operation)
    return reading


def result_of(operation: Operation, kind: str | None = None) -> Artifact:
    """The artifact of a succeeded job; raises the matching JobError for every other state.

    `kind` is the kind that was submitted: it determines the media type, whatever the record says.
    """
    job_id = operation.id
    if operation.state == "failed":
        failure = operation.error
        why = f"{failure.code}: {failure.message}" if failure else "the service gave no reason"
        raise JobFailed(
            f"{job_id} failed: {why}", operation=operation, code=failure.code if failure else "job_failed"
        )
    if operation.state == "cancelled":
        raise JobCancelled(f"{job_id} was cancelled", operation=operation)
    if operation.state == "recovery_required":
        raise RecoveryRequired(
            f"{job_id} needs the operator: whether it was done or charged is not known; keep the id and "
            "do not submit the work again",
            operation=operation,
        )
    if operation.state != "succeeded":
        raise UnknownState(
            f"{job_id} is in state {operation.state!r}, which this version does not know; keep the id and "
            "do not submit the work again",
            operation=operation,
        )
    if not operation.artifacts:
        raise ResultMissing(
            f"{job_id} succeeded without a result; report this with its id", operation=operation
        )
    artifact = operation.artifacts[0]
    one = RESULT_TYPES.get(kind or operation.kind or "")
    expected = tuple(RESULT_TYPES.values()) if one is None else (one,)
    if artifact.media_type not in expected:
        raise ContentMismatch(f"the result of {job_id} is {artifact.media_type}, not {' or '.join(expected)}")
    return artifact


def cancel(link: Link, job_id: str) -> Flow[Reading]:
    """POST /v1/jobs/{id}/cancel; repeating it changes nothing."""
    return Reading.of(link, (yield from call(link, Request("POST", path_of("jobs", job_id, "cancel")))))


def segments(link: Link, preview: Preview) -> Flow[list[SpokenSegment]]:
    """The new segments since the last call, in order; waits for one unless the job is final.

    Raises GaveUpWaiting after two hours; the job continues.
    """
    if preview.until is None:
        preview.until = link.clock.monotonic() + pacing.GIVE_UP_S
    while True:
        operation, now = preview.reading.operation, link.clock.monotonic()
        if operation.is_pending and now >= preview.until:
            raise _gave_up(operation, pacing.GIVE_UP_S)
        if operation.is_pending and now >= preview.reading.due_at:
            preview.reading = yield from show(link, operation.id)
        yield from _pause_until(link, preview.list_at)
        # Read the state first and list afterwards, so that the last segment is not missed.
        was_final = not preview.reading.operation.is_pending
        fresh = yield from _fresh(link, preview)
        preview.is_over = was_final
        if fresh or was_final:
            return fresh


def listed(link: Link, job_id: str) -> Flow[list[Segment]]:
    """GET /v1/jobs/{id}/audio-segments, by sequence."""
    document = yield from ask(link, Request("GET", path_of("jobs", job_id, "audio-segments")))
    return sorted((read(Segment, item) for item in document["data"]), key=lambda segment: segment.sequence)


def _fresh(link: Link, preview: Preview) -> Flow[list[SpokenSegment]]:
    job_id = preview.reading.operation.id
    asked_at = link.clock.monotonic()
    saved = yield from listed(link, job_id)
    answered_at = link.clock.monotonic()
    preview.list_at = max(asked_at + pacing.SEGMENT_POLL_S, answered_at + pacing.SEGMENT_PAUSE_S)
    starts_over = _take_newest_attempt(preview, saved)
    fresh: list[SpokenSegment] = []
    for segment in saved:
        if segment.attempt_id != preview.attempt_id or segment.segment_id in preview.delivered:
            continue
        path = path_of("jobs", job_id, "audio-segments", segment.segment_id, "content")
        memory = Memory(segment.size_bytes, segment.sha256, RESULT_TYPES["speech"])
        yield from fetch(link, path, memory, name=segment.segment_id)
        preview.delivered.add(segment.segment_id)
        fresh.append(SpokenSegment(segment, memory.content, starts_over and not fresh))
    return fresh


def _take_newest_attempt(preview: Preview, saved: list[Segment]) -> bool:
    """Switch to an attempt that was not listed before; True if that discards another attempt's segments."""
    unknown = {segment.attempt_id for segment in saved} - preview.attempts
    if not unknown:
        return False
    starts_over = preview.attempt_id is not None
    preview.attempts |= unknown
    preview.attempt_id, preview.delivered = max(unknown), set()
    return starts_over


def _pause_until(link: Link, at: float) -> Flow[None]:
    if (left_s := at - link.clock.monotonic()) > 0:
        yield Pause(left_s)


def _gave_up(operation: Operation, timeout_s: float) -> GaveUpWaiting:
    return GaveUpWaiting(
        f"{operation.id} is still {operation.state} after {timeout_s:.0f} s", operation=operation
    )
