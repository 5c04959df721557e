"""A collector: it receives traces and metrics by OTLP over HTTP, and decodes them as the protocol defines."""

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from servers.receiver import Message, Receiver, plainly
from servers.speed import HANG_S


@dataclass(frozen=True)
class Received:
    """A span; ids in hex."""

    name: str
    trace_id: str
    id: str
    parent_id: str
    kind: int
    began_ns: int
    ended_ns: int
    status: int
    attributes: dict[str, Any]
    resource: dict[str, Any]

    @property
    def job_id(self) -> str:
        return str(self.attributes["tenuto.job.id"])


class Collector(Receiver):
    """Accepts everything with 200."""

    def __init__(self) -> None:
        super().__init__(plainly(200))

    @property
    def url(self) -> str:
        return super().url.removesuffix("/hook")

    def spans(self) -> list[Received]:
        """Everything that came, also what came twice."""
        return [span for message in list(self.messages) for span in _spans(message)]

    def wait_for(
        self, is_enough: Callable[[list[Received]], bool], timeout_s: float = HANG_S
    ) -> list[Received]:
        """The spans, once they are enough."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while not is_enough(self.spans()):
                left = until - time.monotonic()
                assert left > 0, sorted((span.name, str(span.attributes)) for span in self.spans())
                self._changed.wait(left)
        return self.spans()

    def metrics_of(self, *names: str, timeout_s: float = HANG_S) -> None:
        """Wait until metrics of these names have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: set(names) <= set(self.metrics()), timeout_s), (
                self.metrics()
            )

    def metrics(self) -> dict[str, Any]:
        """The newest of each name."""
        newest: dict[str, Any] = {}
        for message in list(self.messages):
            if message.path == "/v1/metrics":
                request = ExportMetricsServiceRequest.FromString(_body(message))
                for resource in request.resource_metrics:
                    for scope in resource.scope_metrics:
                        newest |= {metric.name: metric for metric in scope.metrics}
        return newest


def _spans(message: Message) -> list[Received]:
    if message.path != "/v1/traces":
        return []
    request = ExportTraceServiceRequest.FromString(_body(message))
    return [
        Received(
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.kind,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.status.code,
            _plain(span.attributes),
            _plain(resource.resource.attributes),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def _body(message: Message) -> bytes:
    return (
        gzip.decompress(message.body)
        if "gzip" in message.headers.get("content-encoding", "")
        else message.body
    )
