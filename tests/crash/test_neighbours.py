"""Runs that share an engine's process: a cancel or a crash of one of them is never another's lost try."""

import pytest

from crash.conftest import MakeService
from servers import checker
from servers.service import FINAL

SLOTS, CANCELS, CRASHERS, MOST_TRIES = 4, 4, 4, 5
"""A crasher is tried twice among others, and then three times alone."""

# What runs in one process do to each other is the same on both databases.
pytestmark = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)


def test_cancels_cost_no_other_job_a_try(make_service: MakeService) -> None:
    """Jobs deaf to a cancel end as cancelled soon; another account's job goes on in its process (P3)."""
    running = make_service(TENUTO_SPEECH_SLOTS=str(SLOTS), TENUTO_HOST_GRACE_S="0.3")
    running.start()
    running.key = running.make_key(credit="1")
    bystander = running.submit("[fake:sleep=8] I take my time.")
    running.wait(bystander, states=("running",))
    for _ in range(CANCELS):
        deaf = running.submit("[fake:hang] Deaf.")
        running.wait(deaf, states=("running",))
        with running.client() as client:
            client.post(f"/v1/jobs/{deaf}/cancel").raise_for_status()
        assert "cancelled" == running.wait(deaf)["state"]
    assert "running" == running.wait(bystander, states=("running", *FINAL))["state"]

    ended = running.wait(bystander)
    assert ("succeeded", 1) == (ended["state"], ended["attempt"])
    checker.check_audit(running)


def test_crashers_fail_and_their_neighbours_do_not(make_service: MakeService) -> None:
    """A process that dies with several runs in it blames none of them; each is run alone then, and a job
    that crashes alone three times has failed. However many do, an innocent job succeeds (P3)."""
    running = make_service(TENUTO_SPEECH_SLOTS=str(SLOTS))
    running.start()
    running.key = running.make_key(credit="1")
    innocent = [running.submit(f"[fake:sleep=2] Innocent {number}.") for number in range(SLOTS - 1)]
    crashers = [
        running.submit(f"[fake:slow_segments=0.3] [fake:crash_late] Crasher {number}.")
        for number in range(CRASHERS)
    ]
    innocents = [running.wait(job_id) for job_id in innocent]
    failed = [running.wait(job_id) for job_id in crashers]
    database = checker.open_records(running)
    lost = checker.rows(database, "select max(losses_shared) as most, sum(hosts_lost) as lost from job")[0]
    database.close()

    assert {"succeeded"} == {operation["state"] for operation in innocents}
    assert {("failed", "engine_crashed")} == {
        (operation["state"], operation["error"]["code"]) for operation in failed
    }
    assert all(3 <= operation["attempt"] <= MOST_TRIES for operation in failed)
    assert lost["most"] > 0
    checker.check_audit(running)
