"""What a fleet does when its database goes, and how its machines tell each other of work."""

import statistics
import time
import uuid
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster.fleet import Fleet
from servers import checker
from servers.clients import Client
from servers.processes import until
from servers.speed import HANG_S, assert_within
from servers.world import World, request_of
from tenuto.account import operations as accounts
from tenuto.config import load
from tenuto.job.submit import prepare
from tenuto.kind import model as catalog
from tenuto.worker.supervisor import POLL_S

JOBS = 8


@pytest.mark.measured
def test_work_is_heard_of_on_another_machine(fleet: Fleet) -> None:
    """A job starts long before a worker would have looked by itself: it was told by NOTIFY."""
    waits_s = []
    for _ in range(JOBS):
        job_id = fleet.operator.submit("Told of.")
        fleet.operator.wait(job_id)
        (row,) = fleet.rows("select created_at, started_at from job where id = :id", id=job_id)
        waits_s.append((row["started_at"] - row["created_at"]) / 1000)

    assert_within(POLL_S / 4, statistics.median(waits_s))


@pytest.mark.measured
def test_work_that_nobody_is_told_of_is_found(fleet: Fleet, tmp_path: Path) -> None:
    """A job accepted without a wake-up, as when a notice is lost, runs after a poll at the latest (P1)."""
    caller = fleet.database.read(
        lambda tx: accounts.authenticate(tx, fleet.operator.key, now_ms=time.time_ns() // 1_000_000)
    )
    models = catalog.models(load(fleet.apis[0].environment))
    body = {"model": "fake/speech", "parameters": {"text": "Nobody is told."}}
    request = request_of(caller, str(uuid.uuid4()), body)
    world = World(fleet.database, tmp_path, time.time_ns() // 1_000_000)
    accepted = fleet.database.write(prepare(replace(world.submitting, models=models), request))
    took_s = until(
        lambda: (
            fleet.rows("select state from job where id = :id", id=accepted.job_id)[0]["state"] != "queued"
        ),
        HANG_S,
        "it runs",
    )
    operation = fleet.operator.wait(accepted.job_id)

    assert_within(POLL_S + 1, took_s)
    assert "succeeded" == operation["state"]


def test_a_database_restart_loses_nothing(fleet: Fleet) -> None:
    """Every process of PostgreSQL is killed under load: both APIs answer 503 with Retry-After meanwhile; then
    every acknowledged job ends, once, and no process had to be started again (P1, P2, P3)."""
    keys = [fleet.operator.make_key(f"restart {number}", credit="100") for number in range(4)]
    clients = [
        Client(fleet.caller(fleet.apis[number % 2], key), key, ["Over a restart."], number)
        for number, key in enumerate(keys)
    ]
    for client in clients:
        client.start()
    until(lambda: all(len(client.works) > 2 for client in clients), HANG_S, "all have work")
    fleet.kill_database()
    away = [node.ask_there("/readyz") for node in fleet.apis]
    fleet.postgres.start()
    for node in fleet.apis:
        node.await_ready()
    until(lambda: all(len(client.works) > 5 for client in clients), HANG_S, "it goes on")
    for client in clients:
        client.finish()
    for client in clients:
        client.join(60)

    assert [503, 503] == [answer.status for answer in away]
    assert [] == [fault for client in clients for fault in client.faults]
    assert [] == [work for client in clients for work in client.unfinished()]
    assert all(node.is_running() for node in fleet.nodes)
    checker.check_audit(fleet.operator)
