"""What serve gathers from its API processes."""

from functools import partial

import httpx2
from prometheus_client import CollectorRegistry, Counter, Gauge

from servers.ports import free_port
from servers.service import PLAIN
from tenuto.features.telemetry import metrics


def test_what_each_counts_has_its_number_and_what_all_read_is_there_once() -> None:
    """A process that has died is left out; one that is ready is enough, and none may be stuck."""
    verdicts: dict[str, str | None] = {"/livez": None, "/readyz": "no worker has registered yet"}
    ports = {number: answering(number, verdicts if number == 1 else {}) for number in (1, 2)}
    ports[3] = free_port()
    own = CollectorRegistry()
    Counter("tenuto_events", "Events.", ("event",), registry=own).labels("api.died").inc()
    port = free_port()
    metrics.serve_gathered(own, ports, "127.0.0.1", port)

    def ask(path: str) -> httpx2.Response:
        return httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=120, verify=PLAIN)

    lines = {line for line in ask("/metrics").text.splitlines() if "_created" not in line and line[0] != "#"}
    before = [ask("/livez").status_code, ask("/readyz").status_code]
    verdicts |= {"/livez": "the event loop has not run for 21 s", "/readyz": None}
    stuck = ask("/livez")

    assert {
        'tenuto_events_total{event="api.died",process="serve"} 1.0',
        'tenuto_http_requests_total{process="1",route="/v1/jobs"} 1.0',
        'tenuto_http_requests_total{process="2",route="/v1/jobs"} 2.0',
        'tenuto_slots{lane="speech"} 5.0',
    } == lines
    assert [200, 503] == before
    assert 503 == stuck.status_code
    assert "API process 1: the event loop has not run for 21 s" == stuck.json()["reason"]
    assert 200 == ask("/readyz").status_code


def answering(number: int, verdicts: dict[str, str | None]) -> int:
    """The port of an API process that has answered this number of requests; it is ready and alive unless
    `verdicts` says otherwise."""
    registry = CollectorRegistry()
    Counter("tenuto_http_requests", "Requests.", ("route",), registry=registry).labels("/v1/jobs").inc(number)
    Gauge("tenuto_slots", "Slots.", ("lane",), registry=registry).labels("speech").set(5)
    ready = partial(verdicts.get, "/readyz", None if verdicts else "the service is stopping")
    checks: dict[str, metrics.Check] = {"/livez": partial(verdicts.get, "/livez"), "/readyz": ready}
    return metrics.serve(registry, metrics.LOOPBACK, 0, checks).server_port
