"""A service with two API processes: one is killed under load, the other serves, and nothing is lost."""

import signal
import socket
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
BEATS = 8
PATIENCE_S = 120.0
KILL = "accept.after_commit"
"""Where one of the two is killed: a job is durable, its 202 is not sent."""


def apis(service: RunningService) -> set[int]:
    """The API processes that run now."""
    assert service.process is not None
    return set(children(service.process.pid, API))


def both(service: RunningService) -> set[int]:
    """The API processes once there are two."""
    until(lambda: len(apis(service)) == 2, PATIENCE_S, "two API processes run")
    return apis(service)


def test_every_accepted_job_survives_api_processes_that_are_killed_and_stand_still(
    make_service: MakeService, tmp_path: Path
) -> None:
    """One is killed between a commit and its 202, one wherever it stands; each is started again, alone. A
    connection belongs to whoever accepts it, so none waits for a process that stands still or has died.

    Every 202 ends succeeded with one artifact and one charge, one key is one job, and nothing but 503 is
    answered in between (P1, P2, P3). `/metrics` has what each counts, and the probes answer for all; SIGTERM
    ends everything.
    """
    shots = Shots(tmp_path / "failpoints")
    variables = {"TENUTO_API_PROCESSES": "2", "TENUTO_METRICS_PORT": str(free_port())}
    service = make_service(**shots.variables, **variables, TENUTO_SPEECH_SLOTS="2")
    service.start()
    service.key = service.make_key(credit=str(CREDIT))
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
    until(lambda: {'process="1"', 'process="2"'} <= labels(service), PATIENCE_S, "both count")
    stopped, other = sorted(both(service))
    with closing(service.open_database()) as database:
        send(stopped, signal.SIGSTOP)
        await_stop(stopped, lambda: checker.touch(database))
    states = [service.wait(service.submit(f"Beat {number}."))["state"] for number in range(BEATS)]
    ready = metrics(service, "/readyz")
    send(stopped, signal.SIGKILL)
    until(lambda: len(both(service) - {stopped, other}) == 1, PATIENCE_S, "another is started")
    counted = metrics(service, "/metrics").text
    assert service.process is not None
    below = [*apis(service), *children(service.process.pid, "tenuto.process")]
    code = service.stop()

    works = [work for client in clients for work in client.works]
    assert [] == [fault for client in clients for fault in client.faults]
    assert [] == [work for client in clients for work in client.unfinished()]
    assert (others.api, others.worker) == (after.api, after.worker)
    assert first != last
    assert ["succeeded"] * BEATS == states
    assert 200 == ready.status_code
    assert 'tenuto_events_total{event="api.died",level="error",process="serve"} 3.0' in counted
    assert 'tenuto_jobs_queued{lane="speech"} 0.0' in counted
    assert 0 == code
    assert [] == [pid for pid in below if is_alive(pid)]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", service.port), 5)
    checker.check_everything(service, jobs=len(works) + BEATS, credit_micros=CREDIT * 1_000_000)


def metrics(service: RunningService, path: str) -> httpx2.Response:
    """What is answered at the port of the metrics."""
    port = service.variables["TENUTO_METRICS_PORT"]
    return httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=120, verify=PLAIN)


def labels(service: RunningService) -> set[str]:
    """Of the API processes, those that have answered for themselves."""
    lines = metrics(service, "/metrics").text.splitlines()
    return {label for label in ('process="1"', 'process="2"') for line in lines if label in line}
