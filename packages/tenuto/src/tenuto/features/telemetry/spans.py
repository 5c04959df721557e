"""A span before it is exported, and the ids of traces and spans. Does not need OpenTelemetry."""

import hashlib
from collections.abc import Mapping

from msgspec import Struct, field

NS_PER_MS = 1_000_000


class Trace(Struct, frozen=True):
    """A trace, as every process knows it from the job's row."""

    trace_id: int
    """128 bits."""
    parent_id: int | None
    """The caller's span, 64 bits; None: the caller sent none."""
    is_sampled: bool
    """What the caller decided; True without a caller's trace."""


class Span(Struct, frozen=True):
    """What happened from one moment to another; it has the same ids whichever process reports it."""

    trace: Trace
    id: int
    """64 bits, by `span_id`."""
    parent_id: int | None
    """The span that it is part of; None: it is the trace's first."""
    name: str
    began_ns: int
    """Nanoseconds since 1970, UTC."""
    ended_ns: int
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)
    is_server: bool = False
    """Whether it answers a request."""
    error: str | None = None
    """A word of our own, never text from a caller or an engine."""


def span_id(*names: str | int) -> int:
    """The id of what these names identify: reporting it a second time reports the same span."""
    return _hashed(8, *names)


def trace_of(job_id: str, traceparent: str | None) -> Trace:
    """The trace of a job: its caller's, as it was stored, or one of its own, derived from its id."""
    if traceparent is None:
        return Trace(_hashed(16, "trace", job_id), None, is_sampled=True)
    _, trace_id, parent_id, flags = traceparent.split("-")
    return Trace(int(trace_id, 16), int(parent_id, 16), is_sampled=bool(int(flags, 16) & 1))


def _hashed(count: int, *names: str | int) -> int:
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:count]) or 1
