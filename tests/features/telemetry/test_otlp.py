"""What is sent to a collector: which traces, under which ids, and the metrics of /metrics."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as Collector_

from servers.collector import Collector
from tenuto import config
from tenuto.api.call import traceparent
from tenuto.errors import SettingsInvalid
from tenuto.features.telemetry.otlp import Telemetry
from tenuto.features.telemetry.settings import TelemetrySettings
from tenuto.features.telemetry.spans import Span, span_id, trace_of
from tenuto_client.exchange import Link
from tenuto_client.steps import Send
from tenuto_client.submission import post

NOW_MS = 1_800_000_000_000
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Switches(Collector_):
    """Some of our gauges are true or false."""

    def collect(self) -> Iterator[Metric]:
        offered = GaugeMetricFamily("tenuto_jobs_offered", "Whether.", labels=["lane"])
        offered.add_metric(["speech"], True)
        yield offered


@pytest.fixture
def collector() -> Iterator[Collector]:
    receiving = Collector()
    yield receiving
    receiving.close()


def telemetry_to(collector: Collector) -> Telemetry:
    return Telemetry(collector.url, "test", lambda: NOW_MS)


def span(job_id: str, traceparent: str | None = None, name: str = "queue") -> Span:
    trace = trace_of(job_id, traceparent)
    return Span(trace, span_id(name, job_id), trace.parent_id, name, 1, 2, {"tenuto.job.id": job_id})


@pytest.mark.parametrize(
    ("header", "stored"),
    [
        (PARENT, PARENT),
        (PARENT[:-2] + "03", PARENT),
        (PARENT[:-2] + "00", PARENT[:-2] + "00"),
        ("cc" + PARENT[2:] + "-what-comes-later", PARENT),
        (PARENT + "-more", None),
        ("ff" + PARENT[2:], None),
        (PARENT.upper(), None),
        (PARENT.replace("00f067aa0ba902b7", "0" * 16), None),
        (PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32), None),
        (PARENT[:-1], None),
        ("", None),
        ("x" * 10_000, None),
        ("00-é", None),
    ],
)
def test_a_traceparent_that_is_not_valid_is_ignored(header: str, stored: str | None) -> None:
    """As W3C Trace Context says, for later versions, too."""
    assert stored == traceparent([header.encode("latin-1")])
    assert traceparent([PARENT.encode(), PARENT.encode()]) is None
    assert traceparent([]) is None


def test_a_span_has_the_same_ids_whoever_sends_it(collector: Collector) -> None:
    """By either way, in any process: they follow from the job's id and its caller's trace."""
    sending = [telemetry_to(collector) for _ in range(2)]
    assert sending[0].export([span("job_1"), span("job_2", PARENT)])
    sending[1].record(span("job_1"), span("job_2", PARENT))
    received = collector.wait_for(lambda spans: len(spans) == 4)

    assert 2 == len({(one.trace_id, one.id) for one in received})
    assert {("", 0), ("00f067aa0ba902b7", 0)} == {(one.parent_id, one.status) for one in received}
    assert PARENT.split("-")[1] in {one.trace_id for one in received}
    assert {"tenuto"} == {one.resource["service.name"] for one in received}


def test_a_caller_that_does_not_sample_gets_no_spans(collector: Collector) -> None:
    """Its decision holds, and so does the operator's sampler for traces that begin here."""
    telemetry = telemetry_to(collector)
    assert telemetry.export([span("job_1", PARENT[:-2] + "00"), span("job_2")])
    received = collector.wait_for(lambda spans: len(spans) >= 1)

    assert ["job_2"] == [one.job_id for one in received]


def test_the_operators_variables_hold(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of the resource, headers, the sampler."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=trial")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc")
    telemetry = telemetry_to(collector)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    silent = telemetry_to(collector)
    assert silent.export([span("job_1")])
    assert telemetry.export([span("job_2")])
    [received] = collector.wait_for(lambda spans: len(spans) == 1)

    assert "job_2" == received.job_id
    assert ("ours", "trial") == (
        received.resource["service.name"],
        received.resource["deployment.environment.name"],
    )
    assert "Basic abc" == collector.messages[0].headers["authorization"]


def test_metrics_are_those_of_the_other_way(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, labels and values as /metrics has them; of a histogram, the counts between two bounds."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
    registry = CollectorRegistry()
    Counter("tenuto_events", "Events.", ("event",), registry=registry).labels("a").inc(3)
    Gauge("tenuto_slots", "Slots.", registry=registry).set(7)
    registry.register(Switches())
    seconds = Histogram("tenuto_seconds", "Time.", ("route",), buckets=(0.1, 1.0), registry=registry)
    for value in (0.05, 0.5, 0.6, 5.0):
        seconds.labels("/").observe(value)
    telemetry = telemetry_to(collector)
    telemetry.push(registry)
    collector.wait(1)
    telemetry.stop()
    metrics = collector.metrics()
    [events], [slots] = (
        metrics["tenuto_events_total"].sum.data_points,
        metrics["tenuto_slots"].gauge.data_points,
    )
    [point] = metrics["tenuto_seconds"].histogram.data_points

    assert "tenuto_events_total" in generate_latest(registry).decode()
    assert ({"event": "a"}, 3) == (
        {one.key: one.value.string_value for one in events.attributes},
        events.as_double,
    )
    assert 7 == slots.as_double
    assert [1] == [one.as_double for one in metrics["tenuto_jobs_offered"].gauge.data_points]
    assert ([1, 2, 1], [0.1, 1.0], 4) == (list(point.bucket_counts), list(point.explicit_bounds), point.count)
    assert not point.HasField("min")


def test_without_the_extra_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line names the setting and what to install; without the setting nothing is looked for."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(SettingsInvalid) as refused:
        config.load({"TENUTO_OTLP_ENDPOINT": "http://127.0.0.1:4318"})

    assert "otlp_endpoint: OpenTelemetry is not installed; pip install 'tenuto[otel]' adds it" in str(
        refused.value
    )
    assert "none" == config.load({}).of(TelemetrySettings).otlp_endpoint


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "grpc://a:4317", "http://a/?x=1", "http://u:p@a/"])
def test_an_endpoint_is_the_address_of_a_collector(endpoint: str) -> None:
    """HTTP alone, without anything secret: that is in a variable of its own."""
    with pytest.raises(SettingsInvalid):
        config.load({"TENUTO_OTLP_ENDPOINT": endpoint})

    settings = config.load({"TENUTO_OTLP_ENDPOINT": "https://a.example/otlp"})

    assert "https://a.example/otlp" == settings.of(TelemetrySettings).otlp_endpoint


def test_nothing_of_opentelemetry_is_loaded_unless_it_is_used() -> None:
    """Neither by the API nor by the worker."""
    code = (
        "import sys, tenuto.process.api, tenuto.process.worker, tenuto.worker.supervisor;"
        "import tenuto.features.studio.app;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )

    assert 0 == subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False).returncode


@pytest.mark.parametrize("current", [PARENT, None])
def test_the_client_sends_the_trace_that_its_caller_names(current: str | None) -> None:
    """With the submission; nothing without one."""
    link = Link("http://127.0.0.1:1", "a key", traceparent=lambda: current)
    sending = next(post(link, b"{}", "an idempotency key"))

    assert isinstance(sending, Send)
    assert current == sending.request.headers.get("traceparent")
