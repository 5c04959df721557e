"""The spans of a job's trace, made from its events and rows and by the processes that work on it.

The events are followed as webhooks follow them (`feed`), so no span is lost when a process dies, and
transitions pay nothing for them. Only two spans are measured where they happen: the request, and storing a
result. Span ids are derived from the job's id, so a span that is reported twice is the same span.
"""

import time

from tenuto.db.database import Transaction
from tenuto.features.events import feed
from tenuto.features.events.feed import Position
from tenuto.features.telemetry import store
from tenuto.features.telemetry.spans import NS_PER_MS, Span, Trace, span_id, trace_of
from tenuto.features.telemetry.store import TracedEvent
from tenuto.job.queue import Claim
from tenuto.job.read import Job
from tenuto.job.states import EVENTS, FAILED, FINAL, QUEUED, RECOVERY_REQUIRED, RUNNING
from tenuto.job.submit import Origin

PAGE = 200
"""The most events of one read: at most two spans each, sent to the collector in one request."""
BAD_ENDS = frozenset({"failed", "host_lost", "unforeseen", "worker_lost", "recovery_required"})


# --- what is measured where it happens ------------------------------------------------------------------


def submitted(*, origin: Origin, job: Job, is_replay: bool, traceparent: str | None, ended_ms: int) -> Span:
    """The request behind a job; a replay is a child span of the first request. `traceparent` is the job's."""
    trace = trace_of(job.id, traceparent)
    first = _submit_id(job.id)
    ended_ns = ended_ms * NS_PER_MS
    return Span(
        trace,
        span_id("replay", job.id, origin.request_id) if is_replay else first,
        first if is_replay else trace.parent_id,
        "submit",
        ended_ns - int((time.perf_counter() - origin.began_s) * 1e9),
        ended_ns,
        {**_job(job.id, job.kind, job.model), "tenuto.replayed": is_replay},
        is_server=True,
    )


def stored(*, claim: Claim, size_bytes: int, ended_ms: int, took_s: float) -> Span:
    """Making the bytes of an attempt's result durable."""
    ended_ns = ended_ms * NS_PER_MS
    return Span(
        trace_of(claim.job_id, claim.traceparent),
        span_id("artifact", claim.attempt_id, ended_ns),
        _attempt_id(claim.attempt_id),
        "artifact",
        ended_ns - int(took_s * 1e9),
        ended_ns,
        {**_job(claim.job_id, claim.kind, claim.model), "tenuto.artifact.size_bytes": size_bytes},
    )


# --- what the events say ----------------------------------------------------------------------------------


def observe(tx: Transaction) -> tuple[str, int]:
    """The current exporter and its heartbeats' counter. The first call starts after all events so far."""
    row = store.exporter(tx)
    if row is None:
        store.begin_exporter(tx, feed.end(tx).after)
        return "", 0
    return row.holder, row.beat


def hold(tx: Transaction, holder: str, *, before: str, beat: int) -> bool:
    """Become or remain the exporter; False: another process was first."""
    return store.take_exporter(tx, holder, before, beat)


def next_events(tx: Transaction) -> list[TracedEvent]:
    """The next events that have not been exported."""
    row = store.exporter(tx)
    return [] if row is None else store.traced(tx, row.mark, PAGE)


def stand(tx: Transaction, holder: str, mark: Position) -> None:
    """Record that events up to this one are exported; no effect if another process is now the exporter."""
    store.stand_exporter(tx, holder, mark)


def skip(tx: Transaction, holder: str) -> None:
    """Skip all events so far."""
    store.stand_exporter(tx, holder, feed.end(tx).after)


def spans_of(event: TracedEvent) -> list[Span]:
    """The spans that end with this event: a wait, an attempt, the settlement."""
    trace = trace_of(event.job_id, event.traceparent)
    before, state = EVENTS.get(event.before or ""), EVENTS[event.type]
    spans = []
    if before == QUEUED:
        spans.append(_span(event, trace, "queue", event.since, _submit_id(event.job_id)))
    elif before == RECOVERY_REQUIRED:
        spans.append(_span(event, trace, "recovery", event.since, _submit_id(event.job_id)))
    elif before == RUNNING and state != RUNNING and event.attempt_id is not None:
        spans.append(_attempt(event, trace))
    if state in FINAL:
        has_run = before != QUEUED and event.attempt_id is not None
        parent = _attempt_id(event.attempt_id) if has_run else _submit_id(event.job_id)
        spans.append(_span(event, trace, "settlement", event.at, parent))
    return spans


def _attempt(event: TracedEvent, trace: Trace) -> Span:
    began = event.at if event.claimed_at is None else event.claimed_at
    return Span(
        trace,
        _attempt_id(event.attempt_id),
        _submit_id(event.job_id),
        "attempt",
        began * NS_PER_MS,
        event.at * NS_PER_MS,
        {**_attributes(event), "tenuto.attempt.outcome": event.type},
        error=event.type if event.type in BAD_ENDS else None,
    )


def _span(event: TracedEvent, trace: Trace, name: str, began_ms: int | None, parent_id: int) -> Span:
    """A span that ends with the event; an event ends one of each name at most."""
    return Span(
        trace,
        span_id(name, event.job_id, event.sequence),
        parent_id,
        name,
        (event.at if began_ms is None else began_ms) * NS_PER_MS,
        event.at * NS_PER_MS,
        _attributes(event),
        error=FAILED if EVENTS[event.type] == FAILED else None,
    )


def _attributes(event: TracedEvent) -> dict[str, str | int | bool]:
    attributes = {**_job(event.job_id, event.kind, event.model), "tenuto.job.state": EVENTS[event.type]}
    if event.attempt_id is not None:
        attributes["tenuto.attempt.id"] = event.attempt_id
    if event.number is not None:
        attributes["tenuto.attempt.number"] = event.number
    if event.worker_id is not None:
        attributes["tenuto.worker.id"] = event.worker_id
    return attributes


def _job(job_id: str, kind: str, model: str) -> dict[str, str | int | bool]:
    return {"tenuto.job.id": job_id, "tenuto.job.kind": kind, "tenuto.job.model": model}


def _submit_id(job_id: str) -> int:
    return span_id("submit", job_id)


def _attempt_id(attempt_id: str | None) -> int:
    return span_id("attempt", str(attempt_id))
