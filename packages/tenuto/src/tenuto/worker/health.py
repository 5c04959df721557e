"""What a worker tells whoever watches it: whether it lives, whether it takes jobs, how its attempts went."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tenuto import logs, metrics
from tenuto.config import Settings
from tenuto.worker.memory import MIB
from tenuto.worker.supervisor import Worker

STUCK_S = 60.0
"""A heart that has not beaten for so long, whether the database answered or not, never will."""
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


class Watch:
    """One worker process, looked at from outside."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        """Set when it has registered; until then it waits for the database."""
        self.stopping = False

    def live(self) -> str | None:
        """What only another start would mend; None while all goes well."""
        if self.worker is None or self.stopping:
            return None
        silent_s = time.monotonic() - self.worker.beaten_at()
        if silent_s > STUCK_S:
            return f"no heartbeat for {silent_s:.0f} s"
        dead = self.worker.dead_slots()
        return f"{dead} slots have ended" if dead else None

    def ready(self) -> str | None:
        """Why no job is claimed here; None when jobs are."""
        if self.stopping:
            return "the worker is stopping"
        return "the worker has not registered yet" if self.worker is None else None

    def running(self) -> int:
        """The attempts that run here."""
        return 0 if self.worker is None else self.worker.running()

    def engines(self) -> Mapping[str, int]:
        """The engines that are loaded here, and the MiB that each took when it was measured last."""
        return {} if self.worker is None else self.worker.engines()


class EnginesCollector(Collector):
    """What the loaded engines take, as upkeep measured it."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def collect(self) -> Iterable[Metric]:
        taken = GaugeMetricFamily(
            "tenuto_engine_resident_bytes", "What a loaded engine takes of this machine.", labels=("model",)
        )
        for engine, mib in self._watch.engines().items():
            taken.add_metric((engine,), mib * MIB)
        yield taken


def expose(settings: Settings) -> Watch:
    """Answers /metrics, /livez and /readyz where the settings say, until the process ends. OperatorError."""
    watch = Watch()
    if settings.worker_metrics_port == 0:
        return watch
    registry = CollectorRegistry()
    metrics.count_events(registry)
    seconds = Histogram(
        "tenuto_attempt_seconds",
        "From the claim of a job to its success.",
        ("model",),
        buckets=BUCKETS,
        registry=registry,
    )

    def note(event: str, level: str, told: Mapping[str, Any]) -> None:
        if event == "job.succeeded":
            seconds.labels(told["model"]).observe(told["took_ms"] / 1000)

    logs.listen(note)
    Gauge("tenuto_attempts_running", "Attempts that run here.", registry=registry).set_function(watch.running)
    registry.register(EnginesCollector(watch))
    checks = {"/livez": watch.live, "/readyz": watch.ready}
    metrics.serve(registry, settings.metrics_host, settings.worker_metrics_port, checks)
    return watch
