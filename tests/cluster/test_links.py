"""Links between machines are cut and healed, and machines are lost, while they work."""

import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.conftest import NOTICED_S, SILENCE_S
from cluster.fleet import Fleet
from servers import checker
from servers.processes import until
from servers.speed import HANG_S, assert_within
from servers.world import World, request_of
from tenuto.account import operations as accounts
from tenuto.config import load
from tenuto.job.submit import prepare
from tenuto.kind import model as catalog
from tenuto.worker.supervisor import POLL_S

KNOWN_S = 2.0
"""And once it is known to be away."""
BALANCE = "/v1/account/balance"
BACK_S = 12.0
"""After a link is healed, whoever is behind it works again within so long."""


@pytest.mark.measured
def test_a_machine_that_is_lost_is_noticed(fleet: Fleet) -> None:
    """Its power goes, so nobody hears an end of its connections: the next attempt begins within the silence
    and a third, 40 s by default; there is one charge, and the machine may come back (P3, P9)."""
    assert_within(NOTICED_S, _lose_a_machine(fleet))


@pytest.mark.measured
def test_an_api_behind_a_cut_link_says_so(fleet: Fleet) -> None:
    """It answers 503 in bounded time, the other goes on; once its link is healed it serves again (P14)."""
    cut_off, other = fleet.apis[1], fleet.apis[0]
    for node in (cut_off, other):
        assert 200 == node.ask_there(BALANCE, fleet.operator.key).status
    cut_off.machine.cut()
    try:
        answers = [cut_off.ask_there(BALANCE, fleet.operator.key) for _ in range(2)]
        answered = other.ask_there(BALANCE, fleet.operator.key).status
    finally:
        cut_off.machine.heal()
    back_s = until(lambda: cut_off.ask_there("/readyz").status == 200, 60, "it is ready")

    assert 200 == answered
    assert [503] * 2 == [answer.status for answer in answers]
    assert_within(fleet.network.cut_seen_s, answers[0].took_s)
    assert_within(KNOWN_S, answers[1].took_s)
    assert_within(BACK_S, back_s)


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


def _lose_a_machine(fleet: Fleet) -> float:
    """How long it took until its job was tried again."""
    job_id = fleet.operator.submit(f"[fake:sleep={SILENCE_S}] On a lost machine.")
    fleet.operator.wait(job_id, states=("running",))
    lost = fleet.node_of(_attempts(fleet, job_id)[0]["worker_id"])
    lost.machine.cut()
    lost.kill()
    took_s = until(lambda: len(_attempts(fleet, job_id)) == 2, 60, "another attempt")
    operation = fleet.operator.wait(job_id)
    lost.machine.heal()
    lost.begin()
    lost.await_ready()
    assert ("succeeded", 2) == (operation["state"], operation["attempt"])
    _check_charge(fleet, job_id)
    return took_s


def _attempts(fleet: Fleet, job_id: str) -> list[dict[str, Any]]:
    return fleet.rows("select * from attempt where job_id = :id order by number", id=job_id)


def _check_charge(fleet: Fleet, job_id: str) -> None:
    """One hold, one charge of the price, and the operator's audit finds nothing."""
    entries = fleet.rows("select type, revenue_micros from entry where job_id = :id order by id", id=job_id)

    assert [("hold", 0), ("settle", checker.PRICE_MICROS)] == [tuple(row.values()) for row in entries]
    checker.check_audit(fleet.operator)
