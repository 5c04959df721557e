"""The counters of a process, and gauges read from the database; served at an address of their own."""

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tenuto.api import health
from tenuto.api.server import Server
from tenuto.api.service import Metrics, Part, Service
from tenuto.config.addresses import NONE
from tenuto.db.database import Database, Transaction
from tenuto.errors import Unavailable
from tenuto.features.audit import runs
from tenuto.features.telemetry import exporting, metrics
from tenuto.features.telemetry.metrics import LOOPBACK, Check
from tenuto.features.telemetry.settings import TelemetrySettings
from tenuto.job import queue
from tenuto.job.states import MAX_PAUSE_MS
from tenuto.kind import operations as catalog
from tenuto.kind.kinds import kinds

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

LIMITS = (
    "requests_per_second",
    "queued_jobs",
    "uploads",
    "stored_mib",
    "stored_files",
    "new_keys",
    "queued_chats",
    "large_bodies",
    "body",
    "head",
    "connections",
    "connections_per_address",
    "requests_at_once",
    "process_uploads",
    "slow_head",
    "slow_body",
    "slow_reader",
    "upstream",
    "login_tries",
    "new_accounts",
    "hashing",
    "live_keys",
    "event_streams",
    "tool_calls",
    "scratch",
    "process_scratch",
)
"""The limits for which requests are refused or connections cut off; see docs/operations/limits.md."""

CAUSES = ("service", "model", "artifact", "limit", "probe")
"""Why a request was answered with 503; callers can cause all but the first at will."""


class ApiMetrics(Metrics, Part):
    """Counters of one API process."""

    def __init__(self, service: Service) -> None:
        self._service = service
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
        # Each exists from the start, so that its rate is 0 and not unknown.
        self._refused = {name: refused.labels(name).inc for name in LIMITS}
        unavailable = Counter(
            "tenuto_http_unavailable",
            "Answers with status 503, by what they are due to.",
            ("cause",),
            registry=self.registry,
        )
        self._unavailable = {name: unavailable.labels(name).inc for name in CAUSES}
        self._bound: dict[tuple[str, str, int], Callable[[], None]] = {}
        self._timers: dict[str, Callable[[float], None]] = {}

    def open(self, server: Server) -> None:
        """Serve them, and the probes, before the API itself is served."""
        service = self._service
        checks = health.probes(
            service, swept_at=lambda: server.swept_at, is_stopping=lambda: server.should_exit
        )
        service.metrics_port = expose(service, self.registry, checks)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request; label look-ups are cached because they cost more than counting."""
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
        """Count an exceeded limit, by its name in LIMITS."""
        self._refused[limit]()

    def unavailable(self, cause: str) -> None:
        """Count an answer with status 503, by one of CAUSES."""
        self._unavailable[cause]()

    def damaged(self) -> None:
        """Count an artifact whose bytes are missing or wrong."""
        self._damaged.inc()


class Records(Struct, frozen=True):
    """What a scrape reads: depths by name and lane, what is callable, the newest audit."""

    depths: Mapping[str, Mapping[str, float]]
    callable: Mapping[str, bool]
    offered: Mapping[str, bool]
    """By lane, whether a callable model has a queued job."""
    audited: tuple[int, Mapping[str, int]] | None
    """When the newest audit ended, in ms, and what it found by check."""


class RecordsCollector(Collector):
    """Gauges read from the database at each scrape; if it does not answer, only that is reported."""

    def __init__(self, read: Callable[[Transaction], Records], database: Database) -> None:
        self._read = read
        self._database = database

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("tenuto_database_up", "Whether the database answered this scrape.")
        try:
            records = self._database.read(self._read)
        except Unavailable:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from _gauges(records)


def read_records(
    tx: Transaction, lane_names: list[str], models: Mapping[str, str], *, away: Collection[str], now_ms: int
) -> Records:
    """The state of the records now; `models` maps each model for jobs to its lane."""
    last = runs.last(tx)
    oldest = {lane: queue.oldest_queued_at(tx, [lane]) for lane in lane_names}
    waited = {lane: 0.0 if at is None else max(0, now_ms - at) / 1000 for lane, at in oldest.items()}
    slots = {lane: queue.slots(tx, lane) for lane in lane_names}
    is_callable = {name: why is None for name, why in catalog.reasons(tx, list(models), away=away).items()}
    # As of a time when every pause is over: a job waiting for its next try counts, too.
    later_ms = now_ms + MAX_PAUSE_MS
    return Records(
        depths={**queue.depths(tx, lane_names), "oldest_queued_seconds": waited, "slots": slots},
        callable=is_callable,
        offered={
            lane: queue.has_work(
                tx,
                lane,
                models=frozenset(name for name in models if models[name] == lane and is_callable[name]),
                now_ms=later_ms,
            )
            for lane in lane_names
        },
        audited=None if last is None else (last.ended_at, last.findings),
    )


def _gauges(records: Records) -> Iterable[Metric]:
    for name, text in (
        ("tenuto_jobs_queued", "Jobs that wait."),
        ("tenuto_jobs_oldest_queued_seconds", "How long the oldest of them has waited."),
        ("tenuto_jobs_running", "Slots that are busy."),
        ("tenuto_slots", "Slots that there are."),
        ("tenuto_jobs_recovery_required", "Jobs that wait for an operator."),
    ):
        gauge = GaugeMetricFamily(name, text, labels=["lane"])
        for lane, count in records.depths[name.removeprefix("tenuto_").removeprefix("jobs_")].items():
            gauge.add_metric([lane], count)
        yield gauge
    waiting = GaugeMetricFamily(
        "tenuto_jobs_offered", "Whether a worker offers the model of a job that waits.", labels=["lane"]
    )
    for lane, is_offered in records.offered.items():
        waiting.add_metric([lane], is_offered)
    yield waiting
    offered = GaugeMetricFamily("tenuto_model_callable", "Whether new work is taken.", labels=["model"])
    for model, is_callable in records.callable.items():
        offered.add_metric([model], is_callable)
    yield offered
    findings = GaugeMetricFamily(
        "tenuto_audit_findings", "What the newest audit found; 0 is right.", labels=["check"]
    )
    finished = GaugeMetricFamily(
        "tenuto_audit_finished_timestamp_seconds", "When the newest audit came to its end."
    )
    if records.audited is not None:
        finished.add_metric([], records.audited[0] / 1000)
        for check, count in records.audited[1].items():
            findings.add_metric([check], count)
    yield findings
    yield finished


def serving(service: Service) -> ApiMetrics:
    """Counts what an API process does."""
    service.metrics = made = ApiMetrics(service)
    service.is_traced = service.settings.of(TelemetrySettings).otlp_endpoint != NONE
    return made


def expose(service: Service, registry: CollectorRegistry, checks: Mapping[str, Check]) -> int:
    """Serves /metrics and the checks at the address in the settings, until the process ends. OperatorError.

    The same metrics are also pushed to the telemetry collector, if there is one.

    Probes sent there are answered however many connections the API's own port has. One of several API
    processes of a `serve` uses a free loopback port, from which `serve` reads the metrics. Returns the port;
    0: none.
    """
    settings, telemetry = service.settings, exporting.exporter()
    if settings.metrics_port == 0 and telemetry is None:
        return 0
    lane_names = list(kinds())
    worked = {name: model.lane for name, model in service.models.items() if model.interface == "jobs"}

    def find(tx: Transaction) -> Records:
        records = read_records(tx, lane_names, worked, away=service.presence.away, now_ms=service.clock())
        # What runs in this process is unknown to workers: as in the catalog, it knows the state itself.
        own = {name: reason() is None for name, reason in service.reasons.items()}
        return replace(records, callable={**records.callable, **own})

    metrics.count_events(registry)
    registry.register(RecordsCollector(find, service.database))
    if telemetry is not None:
        telemetry.push(registry)
    if settings.metrics_port == 0:
        return 0
    where = (LOOPBACK, 0) if service.is_sibling else (settings.metrics_host, settings.metrics_port)
    return metrics.serve(registry, *where, checks).server_port
