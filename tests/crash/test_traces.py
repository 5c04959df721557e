"""One trace over submission, queue, attempts and settlement, while worker and API are killed."""

import signal
import threading
import uuid
from http.server import BaseHTTPRequestHandler

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from crash.conftest import MakeService
from servers.collector import Collector, Received
from servers.processes import family, send
from servers.receiver import Message

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"
SECRET = "Nobody reads this in a trace."


def by_name(spans: list[Received]) -> dict[str, list[Received]]:
    """Each span once, in the order of beginnings."""
    named: dict[str, list[Received]] = {}
    for span in sorted({span.id: span for span in spans}.values(), key=lambda span: span.began_ns):
        named.setdefault(span.name, []).append(span)
    return named


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_one_trace_survives_the_loss_of_api_and_worker(make_service: MakeService) -> None:
    """Both are killed while the job runs: its trace has both attempts, and no span under two ids."""
    collector = Collector()
    service = make_service(TENUTO_OTLP_ENDPOINT=collector.url)
    service.start()
    service.key = service.make_key(credit="100")
    body = {"model": "fake/speech", "parameters": {"text": f"[fake:sleep=3] {SECRET}"}}
    headers = {"Idempotency-Key": str(uuid.uuid4()), "traceparent": TRACEPARENT}
    with service.client() as client:
        job_id = client.post("/v1/jobs", json=body, headers=headers).json()["id"]
    collector.wait_for(lambda spans: "submit" in by_name(spans))
    service.wait(job_id, states=("running",))
    killed = family(service)
    service.kill()
    assert killed.worker is not None
    send(killed.worker, signal.SIGKILL)
    service.start()
    with service.client() as client:
        other = {**headers, "traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
        replayed = client.post("/v1/jobs", json=body, headers=other)
    service.wait(job_id, states=("running", "succeeded"))
    service.wait(job_id)
    spans = collector.wait_for(
        lambda spans: {"settlement", "artifact"} <= set(by_name(spans)) and len(by_name(spans)["submit"]) == 2
    )
    collector.close()
    named = by_name(spans)
    attempts = named["attempt"]
    [settled], [artifact], (submitted, again) = named["settlement"], named["artifact"], named["submit"]
    texts = [repr(span) for span in spans]

    assert (202, job_id) == (replayed.status_code, replayed.json()["id"])
    assert {TRACE} == {span.trace_id for span in spans}
    assert {job_id} == {span.job_id for span in spans}
    assert (CALLER, Span.SPAN_KIND_SERVER) == (submitted.parent_id, submitted.kind)
    assert (submitted.id, True) == (again.parent_id, again.attributes["tenuto.replayed"])
    assert {submitted.id} == {span.parent_id for span in (*named["queue"], *attempts)}
    assert ["worker_lost", "succeeded"] == [span.attributes["tenuto.attempt.outcome"] for span in attempts]
    assert [Status.STATUS_CODE_ERROR, Status.STATUS_CODE_UNSET] == [span.status for span in attempts]
    assert 2 == len({span.attributes["tenuto.worker.id"] for span in attempts})
    assert len(attempts) == len(named["queue"])
    assert (attempts[1].id, attempts[1].id) == (settled.parent_id, artifact.parent_id)
    assert [] == [text for text in texts if SECRET in text or service.key in text or "tester" in text]


def test_a_collector_that_hangs_costs_no_job_anything(make_service: MakeService) -> None:
    """It accepts connections and never answers: jobs succeed, each process logs it once for each signal, and
    what happened meanwhile is exported once it answers again."""
    collector = Collector()
    answering, is_back = collector.answering, threading.Event()

    def hang(handler: BaseHTTPRequestHandler, message: Message) -> None:
        is_back.wait(120)

    collector.answering = hang
    service = make_service(
        TENUTO_OTLP_ENDPOINT=collector.url,
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
        OTEL_METRIC_EXPORT_INTERVAL="1000",
    )
    service.start()
    service.key = service.make_key(credit="100")
    jobs = [service.submit(f"Number {number}.") for number in range(20)]
    states = {service.wait(job_id)["state"] for job_id in jobs}
    # From two processes, each of traces and of metrics: one of the four has tried again.
    collector.wait(9)
    log = service.log_path.read_text()
    collector.messages.clear()
    collector.answering = answering
    is_back.set()
    spans = collector.wait_for(
        lambda spans: set(jobs) <= {span.job_id for span in spans if span.name == "settlement"}
    )
    collector.metrics_of("tenuto_http_requests_total", "tenuto_attempts_running")
    assert service.stop() == 0
    collector.close()

    assert {"succeeded"} == states
    assert len(jobs) == len({span.trace_id for span in spans if span.name == "attempt"})
    assert 1 <= log.count("telemetry.not_exported") <= 4
    assert "Traceback" not in log
