"""What a scrape tells, with and without a database."""

import time
from functools import partial
from pathlib import Path

import httpx2
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from servers.ports import free_port
from servers.rig import Interrupted
from servers.service import PLAIN, RunningService
from servers.speed import HANG_S
from servers.world import LANE, OPEN, World
from tenuto.features.telemetry import metrics
from tenuto.features.telemetry.api_metrics import RecordsCollector, read_records
from tenuto.features.telemetry.metrics import count_events
from tenuto.logs import listen, tell

HELD = 'tenuto_engine_resident_bytes{model="fake/speech"}'


def test_a_service_tells_its_health_and_its_events_on_binds_of_their_own(tmp_path: Path) -> None:
    """Events are counted whatever the level of the log; what nobody has seen yet stands at 0 (P16)."""
    ports = free_port(), free_port()
    service = RunningService(
        tmp_path / "data",
        variables={
            "TENUTO_METRICS_PORT": str(ports[0]),
            "TENUTO_WORKER_METRICS_PORT": str(ports[1]),
            "TENUTO_LOG": "error",
        },
    )
    service.start()
    try:
        service.key = service.make_key(credit="1")
        service.wait(service.submit("Hold the note."))
        api, worker = (scrape(port) for port in ports)
        until = time.monotonic() + HANG_S
        while HELD not in worker and time.monotonic() < until:
            time.sleep(0.1)
            worker = scrape(ports[1])
        told = [httpx2.get(f"http://127.0.0.1:{ports[1]}{path}") for path in ("/livez", "/readyz", "/other")]
    finally:
        service.stop()

    assert [200, 200, 404] == [answer.status_code for answer in told]
    assert (1.0, 0.0) == (
        worker['tenuto_events_total{event="job.succeeded",level="info"}'],
        worker['tenuto_events_total{event="job.recovery_required",level="error"}'],
    )
    assert (1.0, 0.0) == (
        worker['tenuto_attempt_seconds_count{model="fake/speech"}'],
        worker["tenuto_attempts_running"],
    )
    assert (1.0, 1.0) == (api["tenuto_database_up"], api['tenuto_slots{lane="speech"}'])
    # Each of them, those that no worker has to do with among them: an alert is made of it.
    assert {"fake/speech", "fake/chat"} <= {
        name.split('"')[1]
        for name, value in api.items()
        if name.startswith("tenuto_model_callable{") and value == 1.0
    }
    assert 5 << 20 < worker[HELD] < 500 << 20
    assert "job.succeeded" not in service.log_path.read_text()


def test_a_scrape_without_a_database_says_that_alone(world: World) -> None:
    """The process's own counters are told all the same: a scrape does not fail with the database."""
    database = Interrupted(world.database)
    registry = CollectorRegistry()
    registry.register(
        RecordsCollector(lambda tx: read_records(tx, ["speech"], {}, away=(), now_ms=world.now_ms), database)
    )
    there = generate_latest(registry).decode()
    database.is_away = True
    away = generate_latest(registry).decode().splitlines()

    assert 'tenuto_jobs_oldest_queued_seconds{lane="speech"} 0.0' in there
    assert ["tenuto_database_up 0.0"] == [line for line in away if not line.startswith("#")]


def test_a_scrape_tells_whether_a_worker_offers_what_waits(world: World) -> None:
    """By lane: nothing waits; a job that is paused after a setback; its last worker leaves; only a worker for
    another model is there.
    """
    registry, models = CollectorRegistry(), {"fake/speech": LANE, "fake/image": "image"}
    registry.register(
        RecordsCollector(
            lambda tx: read_records(tx, [LANE, "image"], models, away=(), now_ms=world.now_ms), world.database
        )
    )

    def offered() -> tuple[float | None, ...]:
        return tuple(registry.get_sample_value("tenuto_jobs_offered", {"lane": n}) for n in (LANE, "image"))

    idle = offered()
    job_id = world.submit(world.caller(), "key").job_id
    world.run("update job set not_before_at = :later where id = :id", later=world.now_ms + 60_000, id=job_id)
    paused = offered()
    world.forget(OPEN)
    left = offered()
    world.register("worker_b", frozenset({"fake/image"}))

    assert [(0, 0), (1, 0), (0, 0), (0, 0)] == [idle, paused, left, offered()]


def scrape(port: int) -> dict[str, float]:
    """The samples of a process."""
    lines = httpx2.get(f"http://127.0.0.1:{port}/metrics").text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


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


def test_what_is_only_told_is_neither_written_nor_counted(capfd: pytest.CaptureFixture[str]) -> None:
    """Features hear of it, with values that no log could hold; `tenuto_events` counts the log alone."""
    registry, heard = CollectorRegistry(), list[object]()
    count_events(registry)
    listen(lambda event, level, keys: heard.append((event, level, keys.get("what"))))
    what = object()
    tell("job.accepted", what=what)

    assert [("job.accepted", "debug", what)] == heard
    assert (
        registry.get_sample_value("tenuto_events_total", {"event": "job.accepted", "level": "debug"}) is None
    )
    assert ("", "") == capfd.readouterr()
