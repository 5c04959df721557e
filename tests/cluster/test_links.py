"""Links between machines are cut and healed, and machines are lost, while they work."""

from typing import Any

import pytest

from cluster.conftest import NOTICED_S, SILENCE_S
from cluster.fleet import Fleet
from cluster.machines import Namespace, NoNamespaces
from servers import checker
from servers.processes import until
from servers.speed import HANG_S, assert_within

KNOWN_S = 2.0
"""And once it is known to be away."""
BALANCE = "/v1/account/balance"
BACK_S = 12.0
"""After a link is healed, whoever is behind it works again within so long."""


def test_each_machine_has_an_address_of_its_own(fleet: Fleet) -> None:
    """The workers' connections come to the database from as many addresses as there are machines."""
    if not isinstance(fleet.nodes[0].machine, Namespace):
        pytest.skip(f"these machines are {fleet.network.kind}: {NoNamespaces.__doc__}")
    seen = fleet.rows(
        "select distinct host(client_addr) as address from pg_stat_activity where client_addr is not null"
    )

    assert sorted(node.machine.address for node in fleet.nodes) == sorted(row["address"] for row in seen)


@pytest.mark.measured
def test_a_worker_behind_a_cut_link_changes_nothing(fleet: Fleet) -> None:
    """Its job is another's within the silence and a third; when it is back with its own result, that is too
    late: one result, one charge, and it works on (P3, P9)."""
    assert_within(NOTICED_S, _cut_off_a_worker(fleet))


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


def _cut_off_a_worker(fleet: Fleet) -> float:
    """How long it took until its job was tried again."""
    job_id = fleet.operator.submit(f"[fake:sleep={SILENCE_S}] Behind a cut link.")
    fleet.operator.wait(job_id, states=("running",))
    cut_off = fleet.node_of(_attempts(fleet, job_id)[0]["worker_id"])
    cut_off.machine.cut()
    try:
        took_s = until(lambda: len(_attempts(fleet, job_id)) == 2, 60, "another attempt")
        operation = fleet.operator.wait(job_id)
    finally:
        cut_off.machine.heal()
    until(lambda: "attempt.superseded" in cut_off.said(), HANG_S, "it sees that it is late")
    _works_again(fleet, cut_off.pid)

    assert ("succeeded", 2) == (operation["state"], operation["attempt"])
    assert ["worker_lost", "succeeded"] == [row["outcome"] for row in _attempts(fleet, job_id)]
    _check_charge(fleet, job_id)
    return took_s


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


def _works_again(fleet: Fleet, pid: int) -> None:
    """The worker is seen by the database after now."""
    sql = "select seen_at from worker where pid = :pid"
    before = fleet.rows(sql, pid=pid)[0]["seen_at"]
    until(lambda: fleet.rows(sql, pid=pid)[0]["seen_at"] > before, HANG_S, "its beat comes again")
