"""What a worker's process exports: metrics and probes on a port of its own, and spans to a collector."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tenuto import logs
from tenuto.features.telemetry import metrics, trace
from tenuto.features.telemetry.exporting import exporter
from tenuto.features.telemetry.settings import TelemetrySettings
from tenuto.features.telemetry.span_export import SpanExport
from tenuto.worker.duties import Duty
from tenuto.worker.engines import MIB
from tenuto.worker.watch import Watch

if TYPE_CHECKING:
    from tenuto.features.telemetry.otlp import Telemetry

BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


def duties(watch: Watch) -> list[Duty]:
    """Serve what the settings say, from now until the process ends. OperatorError: the port is taken."""
    telemetry = exporter()
    expose(watch, telemetry)
    if telemetry is None:
        return []
    return [Duty("spans", SpanExport(telemetry).run, thread="spans", register=trace.observe)]


def expose(watch: Watch, telemetry: "Telemetry | None") -> None:
    """Serve /metrics, /livez and /readyz; the metrics are also sent to the collector, if there is one."""
    settings = watch.settings
    port = settings.of(TelemetrySettings).worker_metrics_port
    if port == 0 and telemetry is None:
        return
    registry = CollectorRegistry()
    metrics.count_events(registry)
    seconds = Histogram(
        "tenuto_attempt_seconds",
        "From the claim of a job to its success.",
        ("model",),
        buckets=BUCKETS,
        registry=registry,
    )

    def note(event: str, level: str, fields: Mapping[str, Any]) -> None:
        if event == "job.succeeded":
            seconds.labels(fields["model"]).observe(fields["took_ms"] / 1000)

    logs.listen(note)
    Gauge("tenuto_attempts_running", "Attempts that run here.", registry=registry).set_function(watch.running)
    registry.register(EnginesCollector(watch))
    checks = {"/livez": watch.live, "/readyz": watch.ready}
    if telemetry is not None:
        telemetry.push(registry)
    if port != 0:
        metrics.serve(registry, settings.metrics_host, port, checks)


class EnginesCollector(Collector):
    """The memory that loaded engines take, as the worker last measured it."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def collect(self) -> Iterable[Metric]:
        taken = GaugeMetricFamily(
            "tenuto_engine_resident_bytes", "What a loaded engine takes of this machine.", labels=("model",)
        )
        for engine, mib in self._watch.engines().items():
            taken.add_metric((engine,), mib * MIB)
        yield taken
