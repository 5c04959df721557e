"""Exports to a collector, by OTLP over HTTP, with OpenTelemetry's SDK. Imported by processes that export.

The SDK's variables (`OTEL_…`) apply to headers, certificates, timeouts, sampling and the resource.
"""

import logging
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from opentelemetry import trace as api
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import export as points
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.samples import Sample

from tenuto.features.telemetry.spans import NS_PER_MS, Span, Trace
from tenuto.ids import Clock
from tenuto.logs import get_logger, log_failure

STOP_S = 2.0
"""How long a process that stops waits for its last spans to be sent."""
SCHEDULE_MS = 1_000
"""How long after its end a span is sent, unless `OTEL_BSP_SCHEDULE_DELAY` says otherwise."""
METRICS_MS = 60_000
"""The time between two exports of metrics, unless `OTEL_METRIC_EXPORT_INTERVAL` says otherwise."""
MAX_REASON = 300
"""How many characters are kept of what the library says of a failure."""
SCOPE = "tenuto"
_UNKNOWN: Any = None
"""Left out of what is sent: prometheus_client does not record it."""
_CUMULATIVE = points.AggregationTemporality.CUMULATIVE

_log = get_logger("tenuto.telemetry")


class Telemetry:
    """One process's exports to the collector. Used from any thread."""

    def __init__(self, endpoint: str, process: str, clock: Clock) -> None:
        """`endpoint`: the collector's base address; `process`: which of our processes this is."""
        self._clock = clock
        self._endpoint = endpoint.rstrip("/")
        self._resource = _resource(process)
        self._outages = _Outages(_hold_back_library())
        self._exporter = _Exporter(OTLPSpanExporter(f"{self._endpoint}/v1/traces"), self._outages)
        delay_ms = None if os.environ.get("OTEL_BSP_SCHEDULE_DELAY") else SCHEDULE_MS
        self._batches = BatchSpanProcessor(self._exporter, schedule_delay_millis=delay_ms)
        self._ids, self._ended = _GivenIds(), _Ended()
        self._provider = TracerProvider(
            resource=self._resource, shutdown_on_exit=False, id_generator=self._ids
        )
        self._provider.add_span_processor(self._ended)
        self._tracer = self._provider.get_tracer(SCOPE, version("tenuto"))
        self._stopping = threading.Event()

    def record(self, *spans: Span) -> None:
        """Have another thread send spans soon; its queue drops the oldest when it is full. Never raises."""
        try:
            for span in self._readable(spans):
                self._batches.on_end(span)
        except Exception as error:
            log_failure(_log, "telemetry.failed", error)

    def export(self, spans: Iterable[Span]) -> bool:
        """Send spans now, within 10 s or `OTEL_EXPORTER_OTLP_TIMEOUT`; returns whether they were accepted."""
        readable = self._readable(spans)
        return not readable or self._exporter.export(readable) is SpanExportResult.SUCCESS

    def push(self, registry: CollectorRegistry) -> None:
        """Send what /metrics would answer, under the same names, every minute until the process ends."""
        threading.Thread(target=self._push, args=(registry,), name="otlp-metrics", daemon=True).start()

    def stop(self) -> None:
        """Send what is left, for at most `STOP_S`."""
        self._stopping.set()
        last = threading.Thread(target=self._batches.shutdown, name="otlp-last", daemon=True)
        last.start()
        last.join(STOP_S)

    def _readable(self, spans: Iterable[Span]) -> list[ReadableSpan]:
        """The spans in the SDK's form, without those of traces that are not sampled."""
        with self._ended.collected() as ended:
            for span in spans:
                if not self._is_sampled(span.trace):
                    continue
                self._ids.give(span)
                made = self._tracer.start_span(
                    span.name,
                    _within(span.trace.trace_id, span.parent_id, is_sampled=True),
                    kind=api.SpanKind.SERVER if span.is_server else api.SpanKind.INTERNAL,
                    attributes=span.attributes,
                    start_time=span.began_ns,
                )
                if span.error is not None:
                    made.set_status(api.StatusCode.ERROR, span.error)
                made.end(max(span.began_ns, span.ended_ns))
        return ended

    def _is_sampled(self, trace: Trace) -> bool:
        """What the caller decided, or our sampler: the same for all spans of a trace, in every process."""
        context = _within(trace.trace_id, trace.parent_id, is_sampled=trace.is_sampled)
        result = self._provider.sampler.should_sample(context, trace.trace_id, SCOPE)
        return result.decision is Decision.RECORD_AND_SAMPLE

    def _push(self, registry: CollectorRegistry) -> None:
        exporter = OTLPMetricExporter(f"{self._endpoint}/v1/metrics")
        interval_s = _number("OTEL_METRIC_EXPORT_INTERVAL", METRICS_MS) / 1000
        while not self._stopping.wait(interval_s):
            try:
                result = exporter.export(metrics_data(self._resource, registry.collect(), self._clock()))
                self._outages.note("metrics", is_sent=result is points.MetricExportResult.SUCCESS)
            except Exception as error:
                log_failure(_log, "telemetry.failed", error)


class _GivenIds(IdGenerator):
    """Gives this thread's next span the ids that it already has."""

    def __init__(self) -> None:
        self._local = threading.local()

    def give(self, span: Span) -> None:
        self._local.span = span

    def generate_trace_id(self) -> int:
        span: Span = self._local.span
        return span.trace.trace_id

    def generate_span_id(self) -> int:
        span: Span = self._local.span
        return span.id


class _Ended(SpanProcessor):
    """Collects the spans that this thread makes."""

    def __init__(self) -> None:
        self._local = threading.local()

    @contextmanager
    def collected(self) -> Iterator[list[ReadableSpan]]:
        self._local.spans = []
        yield self._local.spans

    def on_end(self, span: ReadableSpan) -> None:
        self._local.spans.append(span)


class _Library(logging.Handler):
    """Holds back what OpenTelemetry would log again and again; our own log line gives the last as reason."""

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()[:MAX_REASON]


def _hold_back_library() -> _Library:
    library, logger = _Library(logging.WARNING), logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.handlers = [library]
    return library


class _Outages:
    """Logs once that the collector does not accept a signal, and once that it does again."""

    def __init__(self, library: _Library) -> None:
        self._library = library
        self._failing: set[str] = set()
        self._lock = threading.Lock()

    def note(self, signal: str, *, is_sent: bool) -> None:
        with self._lock:
            was_failing = signal in self._failing
            (self._failing.discard if is_sent else self._failing.add)(signal)
        if is_sent and was_failing:
            _log.info("telemetry.exported_again", signal=signal)
        elif not is_sent and not was_failing:
            _log.warning("telemetry.not_exported", signal=signal, reason=self._library.last)


class _Exporter(SpanExporter):
    """Sends spans in one request at a time, and notes the outcome."""

    def __init__(self, exporter: SpanExporter, outages: _Outages) -> None:
        self._exporter, self._outages = exporter, outages
        self._lock = threading.Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._lock:
            result = self._exporter.export(spans)
        self._outages.note("traces", is_sent=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _within(trace_id: int, parent_id: int | None, *, is_sampled: bool) -> Context:
    """The context of a span with this parent, or with none; never the thread's own."""
    if parent_id is None:
        return api.set_span_in_context(api.INVALID_SPAN, Context())
    flags = api.TraceFlags(api.TraceFlags.SAMPLED if is_sampled else api.TraceFlags.DEFAULT)
    parent = api.SpanContext(trace_id, parent_id, is_remote=True, trace_flags=flags)
    return api.set_span_in_context(api.NonRecordingSpan(parent), Context())


def _resource(process: str) -> Resource:
    """Which process reports; the operator's variables override it."""
    host = socket.gethostname()
    own: dict[str, Any] = {
        "service.name": "tenuto",
        "service.version": version("tenuto"),
        "service.instance.id": f"{host}/{process}/{os.getpid()}",
        "host.name": host,
        "process.pid": os.getpid(),
    }
    return Resource(own).merge(OTELResourceDetector().detect())


def _number(variable: str, default: float) -> float:
    try:
        return float(os.environ.get(variable) or default)
    except ValueError:
        return default


# --- metrics: what prometheus_client has collected, in OpenTelemetry's form ------------------------------


def metrics_data(resource: Resource, families: Iterable[Metric], now_ms: int) -> points.MetricsData:
    """Counters as sums, gauges, and histograms, each with its name, text and labels at /metrics."""
    metrics = [_metric(family, now_ms * NS_PER_MS) for family in families if family.samples]
    scope = points.ScopeMetrics(InstrumentationScope(SCOPE, version("tenuto")), metrics, "")
    return points.MetricsData([points.ResourceMetrics(resource, [scope], "")])


def _metric(family: Metric, now_ns: int) -> points.Metric:
    if family.type == "histogram":
        data: Any = points.Histogram(_distributions(family, now_ns), _CUMULATIVE)
        return points.Metric(family.name, family.documentation, family.unit, data)
    began = {_key(one.labels): int(one.value * 1e9) for one in _named(family, "_created")}
    suffix = "_total" if family.type == "counter" else ""
    numbers = [
        points.NumberDataPoint(one.labels, began.get(_key(one.labels), 0), now_ns, float(one.value))
        for one in _named(family, suffix)
    ]
    data = points.Sum(numbers, _CUMULATIVE, is_monotonic=True) if suffix else points.Gauge(numbers)
    return points.Metric(family.name + suffix, family.documentation, family.unit, data)


def _distributions(family: Metric, now_ns: int) -> list[points.HistogramDataPoint]:
    """A point for each set of labels. prometheus_client counts up to a bound, OpenTelemetry between two."""
    made = []
    began = {_key(one.labels): int(one.value * 1e9) for one in _named(family, "_created")}
    sums = {_key(one.labels): one.value for one in _named(family, "_sum")}
    bounds: dict[tuple[tuple[str, str], ...], list[tuple[float, int]]] = {}
    for one in _named(family, "_bucket"):
        labels = {name: value for name, value in one.labels.items() if name != "le"}
        bounds.setdefault(_key(labels), []).append((float(one.labels["le"]), int(one.value)))
    for key, counted in bounds.items():
        counts = [count for _, count in sorted(counted)]
        between = [count - before for before, count in zip([0, *counts], counts, strict=False)]
        made.append(
            points.HistogramDataPoint(
                attributes=dict(key),
                start_time_unix_nano=began.get(key, 0),
                time_unix_nano=now_ns,
                count=counts[-1],
                sum=sums[key],
                bucket_counts=between,
                explicit_bounds=[bound for bound, _ in sorted(counted)[:-1]],
                min=_UNKNOWN,
                max=_UNKNOWN,
            )
        )
    return made


def _named(family: Metric, suffix: str) -> list[Sample]:
    return [one for one in family.samples if one.name == family.name + suffix]


def _key(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))
