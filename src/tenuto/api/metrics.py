"""What the process counts, and what a scrape reads from the database; served on a bind of its own."""

import threading
from collections.abc import Callable, Iterable
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

LIMITS = (
    "requests_per_second",
    "queued_jobs",
    "uploads",
    "stored_mib",
    "queued_chats",
    "body",
    "head",
    "connections",
    "process_uploads",
    "slow_head",
    "slow_body",
    "slow_reader",
    "upstream",
    "login_tries",
    "new_accounts",
    "hashing",
    "live_keys",
)
"""What a request may be refused for, or a connection cut off; docs/operations/limits.md explains."""


class Metrics:
    """Counters of one API process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "tenuto_http_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "tenuto_http_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ("route",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._damaged = Counter(
            "tenuto_artifacts_damaged",
            "Artifacts found missing or damaged when read.",
            registry=self.registry,
        )
        refused = Counter(
            "tenuto_refused",
            "Requests refused, and connections cut off, because a limit was passed.",
            ("limit",),
            registry=self.registry,
        )
        # Each is there from the start: a rate of nothing is 0, and not unknown.
        self._refused = {name: refused.labels(name).inc for name in LIMITS}
        self._bound: dict[tuple[str, str, int], Callable[[], None]] = {}
        self._timers: dict[str, Callable[[float], None]] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """One answered request; label look-ups are remembered because they cost more than counting."""
        key = (route, method, status)
        count = self._bound.get(key)
        if count is None:
            known = method if method in ("GET", "HEAD", "POST", "PUT", "DELETE") else "other"
            count = self._bound[key] = self._requests.labels(route, known, str(status)).inc
        count()
        timer = self._timers.get(route)
        if timer is None:
            timer = self._timers[route] = self._seconds.labels(route).observe
        timer(seconds)

    def refused(self, limit: str) -> None:
        """A limit was passed, by its name in LIMITS."""
        self._refused[limit]()

    def damaged(self) -> None:
        """An artifact's bytes are missing or wrong."""
        self._damaged.inc()


class QueueCollector(Collector):
    """Gauges read from the database at each scrape: queue depth, busy slots, jobs in recovery."""

    def __init__(self, read: Callable[[], dict[str, dict[str, int]]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        depths = self._read()
        for name, text in (
            ("queued", "Jobs that wait."),
            ("running", "Slots that are busy."),
            ("recovery_required", "Jobs that wait for an operator."),
        ):
            gauge = GaugeMetricFamily(f"tenuto_jobs_{name}", text, labels=["lane"])
            for lane, count in depths.get(name, {}).items():
                gauge.add_metric([lane], count)
            yield gauge


class AuditCollector(Collector):
    """What the service's newest audit of its own records found, read from the database at each scrape."""

    def __init__(self, read: Callable[[], tuple[int, dict[str, int]] | None]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        found = GaugeMetricFamily(
            "tenuto_audit_findings", "What the newest audit found; 0 is right.", labels=["check"]
        )
        ended = GaugeMetricFamily(
            "tenuto_audit_finished_timestamp_seconds", "When the newest audit came to its end."
        )
        last = self._read()
        if last is not None:
            ended.add_metric([], last[0] / 1000)
            for check, count in last[1].items():
                found.add_metric([check], count)
        yield found
        yield ended


def serve(metrics: Metrics, host: str, port: int) -> tuple[WSGIServer, threading.Thread]:
    """Answer /metrics there until the process ends."""
    return start_http_server(port, host, registry=metrics.registry)
