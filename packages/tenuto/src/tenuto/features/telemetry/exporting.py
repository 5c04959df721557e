"""What this process exports to the operator's collector, made of what the core tells.

OpenTelemetry is loaded only if the settings name a collector.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tenuto.config import Settings
from tenuto.config.addresses import NONE
from tenuto.features.telemetry import trace
from tenuto.features.telemetry.settings import TelemetrySettings
from tenuto.ids import Clock

if TYPE_CHECKING:
    from tenuto.features.telemetry.otlp import Telemetry

_exporter: "Telemetry | None" = None
_ports: dict[int, int] = {}
"""In a `serve` of several API processes: each one's port for `/metrics`, once it accepts; that of a dead one
until its successor accepts."""


def exporter() -> "Telemetry | None":
    """This process's exports; None: the settings name no collector."""
    return _exporter


def observe(event: str, fields: Mapping[str, Any]) -> None:
    """Begins and ends the exports with the process, and records the two spans that are measured."""
    match event:
        case "process.started":
            _start(**fields)
        case "api.accepts" if fields["port"]:
            _ports[fields["number"]] = fields["port"]
        case "job.accepted" if _exporter is not None:
            _exporter.record(trace.submitted(**fields))
        case "result.stored" if _exporter is not None:
            _exporter.record(trace.stored(**fields))
        case "process.stopping" if _exporter is not None:
            _exporter.stop()


def _start(process: str, settings: Settings, clock: Clock) -> None:
    global _exporter  # noqa: PLW0603 (one for the whole process)
    endpoint = settings.of(TelemetrySettings).otlp_endpoint
    if endpoint != NONE:
        from tenuto.features.telemetry.otlp import Telemetry

        _exporter = Telemetry(endpoint, process, clock)
    if process == "serve":
        _gather(settings)


def _gather(settings: Settings) -> None:
    """Answer `/metrics` and the probes for all API processes, and export this process's own counters."""
    from prometheus_client import CollectorRegistry

    from tenuto.features.telemetry import metrics

    own = CollectorRegistry()
    metrics.count_events(own)
    if _exporter is not None:
        _exporter.push(own)
    if settings.metrics_port:
        metrics.serve_gathered(own, _ports, settings.metrics_host, settings.metrics_port)
