"""PostgreSQL goes away under load and comes back; a worker on another machine dies."""

import random
import time

import pytest

from crash.conftest import MakeService
from servers import checker
from servers.clients import Client
from servers.postgres import PostgresServer
from servers.processes import crash_postgres, until

METERED = "fake/metered-speech"

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
