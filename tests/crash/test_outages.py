"""PostgreSQL goes away under load and comes back; a worker on another machine dies."""

import random
import signal
import time
from contextlib import closing

import httpx2
import pytest

from crash.conftest import MakeService
from servers import checker
from servers.clients import Client
from servers.elsewhere import OtherWorker
from servers.postgres import PostgresServer
from servers.processes import await_stop, crash_postgres, family, send, until
from servers.speed import HANG_S, assert_within

METERED = "fake/metered-speech"
SILENCE_S = 6
NOTICED_S = SILENCE_S * 40 / 30
"""The promise is 40 s with the default silence of 30 s."""

ON_POSTGRES = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


@ON_POSTGRES
def test_postgresql_goes_away_under_load(make_service: MakeService, mortal_postgres: PostgresServer) -> None:
    """Meanwhile 503 with Retry-After; afterwards every acknowledged job is there and ends; holds are those of
    open jobs; no paid call waits for an operator because of the outage alone (P1, P4, P10)."""
    running = make_service(TENUTO_SPEECH_SLOTS="6")
    running.start()
    running.key = running.make_key(credit="100")
    clients = [Client(running, running.make_key(credit="100"), ["Under load."], n) for n in range(2)]
    paid = [running.submit("[fake:sleep=12] Paid once.", model=METERED) for _ in range(3)]
    for client in clients:
        client.start()
    for job_id in paid:
        running.wait(job_id, states=("running",))
    crash_postgres(mortal_postgres.pid)
    with running.client() as http:
        away = [http.get("/v1/account/balance"), http.get(f"/v1/jobs/{paid[0]}"), http.get("/readyz")]
        time.sleep(random.uniform(0.0, 1.5))
        mortal_postgres.start()
        until(lambda: http.get("/readyz").status_code == 200, 60, "ready again")
    ended = [running.wait(job_id) for job_id in paid]
    for client in clients:
        client.finish()
    for client in clients:
        client.join(120)

    assert [(503, True)] * 3 == [(answer.status_code, "retry-after" in answer.headers) for answer in away]
    assert [("succeeded", 1)] * 3 == [(operation["state"], operation["attempt"]) for operation in ended]
    assert [] == [fault for client in clients for fault in client.faults]
    assert [] == [work for client in clients for work in client.unfinished()]
    checker.check_audit(running)


@ON_POSTGRES
@pytest.mark.measured
def test_a_dead_worker_elsewhere_is_noticed(make_service: MakeService) -> None:
    """From SIGKILL of a worker on another machine to the next attempt: at most a third longer than the
    silence, which is 40 s by default; nobody sees its lock, its beat alone has stopped (P9)."""
    running = make_service(TENUTO_SILENCE_S=str(SILENCE_S), TENUTO_HEARTBEAT_S="1")
    running.start()
    running.key = running.make_key(credit="1")
    other = OtherWorker(running)
    until(lambda: "worker.started" in other.log_path.read_text(), HANG_S, "the other worker works")
    own = family(running).worker
    assert own is not None
    with closing(running.open_database()) as database:
        send(own, signal.SIGSTOP)
        await_stop(own, lambda: checker.touch(database))
    job_id = running.submit("[fake:sleep=3] Elsewhere.")
    running.wait(job_id, states=("running",))
    send(own, signal.SIGCONT)
    other.stop(signal.SIGKILL)
    with running.client() as http:
        took_s = until(lambda: _attempt(http, job_id) == 2, 60, "another attempt")
    operation = running.wait(job_id)

    assert_within(NOTICED_S, took_s)
    assert ("succeeded", 2) == (operation["state"], operation["attempt"])
    checker.check_everything(running, jobs=1, credit_micros=1_000_000)


def _attempt(http: httpx2.Client, job_id: str) -> int:
    attempt: int = http.get(f"/v1/jobs/{job_id}").json()["attempt"]
    return attempt
