"""A service with two API processes: one is killed under load, the other serves, and nothing is lost."""

import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from crash.conftest import MakeService
from servers import checker
from servers.clients import Client
from servers.ports import free_port
from servers.processes import await_stop, children, family, is_alive, send, until
from servers.service import PLAIN, RunningService
from servers.shots import Shots

API = "tenuto.process.serve"
CREDIT = 100
CLIENTS = 4
TEXTS = ["A beat.", "[fake:sleep=0.1] A thought."]
PATIENCE_S = 120.0
KILL = "accept.after_commit"
"""Where one of the two is killed: a job is durable, its 202 is not sent."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    """One with two API processes, on SQLite; what is left of it is killed."""
    variables = {"TENUTO_API_PROCESSES": "2", "TENUTO_METRICS_PORT": str(free_port())}
    service = RunningService(tmp_path / "data", variables=variables)
    yield service
    if family(service).api is not None:
        service.kill()


def apis(service: RunningService) -> set[int]:
    """The API processes that run now."""
    assert service.process is not None
    return set(children(service.process.pid, API))


def both(service: RunningService) -> set[int]:
    """The API processes once there are two."""
    until(lambda: len(apis(service)) == 2, PATIENCE_S, "two API processes run")
    return apis(service)


def test_every_accepted_job_survives_an_api_process_that_is_killed_under_load(
    make_service: MakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is killed between a commit and its 202, one wherever it stands; each is started again, alone.

    Every 202 ends succeeded with one artifact and one charge, one key is one job, and nothing but 503 is
    answered in between (P1, P2, P3).
    """
    shots = Shots(tmp_path / "failpoints")
    service = make_service(**shots.variables, TENUTO_API_PROCESSES="2", TENUTO_SPEECH_SLOTS="2")
    service.start()
    clients = [
        Client(service, service.make_key(f"{n}", credit=str(CREDIT)), TEXTS, n) for n in range(CLIENTS)
    ]
    first = both(service)
    others = family(service)
    for client in clients:
        client.start()
    shots.arm(KILL, "2:kill")
    until(lambda: KILL in shots.taken(), PATIENCE_S, "one is killed with a job")
    until(lambda: apis(service) != first, PATIENCE_S, "it is gone")
    send(min(both(service)), signal.SIGKILL)
    last = both(service)
    for client in clients:
        client.finish()
    for client in clients:
        client.join(PATIENCE_S)
    after = family(service)
    code = service.stop()

    works = [work for client in clients for work in client.works]
    with capsys.disabled():
        print(f"\n{len(works)} keys, {sum(client.unanswered for client in clients)} lost answers")
    assert [] == [fault for client in clients for fault in client.faults]
    assert [] == [work for client in clients for work in client.unfinished()]
    assert (others.api, others.worker) == (after.api, after.worker)
    assert first != last
    assert code == 0
    checker.check_everything(service, jobs=len(works), credit_micros=CREDIT * 1_000_000)


def test_the_others_serve_while_one_stands_still_and_all_end_with_the_service(
    service: RunningService,
) -> None:
    """A connection belongs to whoever accepts it: none waits for a process that stands still or has died.

    `/metrics` has what each counts, and the probes answer for all; SIGTERM ends everything.
    """
    service.start()
    service.key = service.make_key(credit="1")
    stopped, other = sorted(both(service))
    until(lambda: {'process="1"', 'process="2"'} <= labels(service), PATIENCE_S, "both count")
    with closing(service.open_database()) as database:
        send(stopped, signal.SIGSTOP)
        await_stop(stopped, lambda: checker.touch(database))
    states = [service.wait(service.submit(f"Beat {number}."))["state"] for number in range(8)]
    ready = metrics(service, "/readyz")
    send(stopped, signal.SIGKILL)
    until(lambda: len(both(service) - {stopped, other}) == 1, PATIENCE_S, "another is started")
    counted = metrics(service, "/metrics").text
    assert service.process is not None
    below = [*apis(service), *children(service.process.pid, "tenuto.process")]
    code = service.stop()

    assert ["succeeded"] * 8 == states
    assert 200 == ready.status_code
    assert 'tenuto_events_total{event="api.died",level="error",process="serve"} 1.0' in counted
    assert 'tenuto_jobs_queued{lane="speech"} 0.0' in counted
    assert 0 == code
    assert [] == [pid for pid in below if is_alive(pid)]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", service.port), 5)


def metrics(service: RunningService, path: str) -> httpx2.Response:
    """What is answered at the port of the metrics."""
    port = service.variables["TENUTO_METRICS_PORT"]
    return httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=120, verify=PLAIN)


def labels(service: RunningService) -> set[str]:
    """Of the API processes, those that have answered for themselves."""
    lines = metrics(service, "/metrics").text.splitlines()
    return {label for label in ('process="1"', 'process="2"') for line in lines if label in line}
