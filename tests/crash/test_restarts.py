"""Ends and starts of the service's processes: who notices, how soon, and what happens to the work."""

import signal
import time
from typing import Any

import pytest

from crash.conftest import MakeService
from servers import checker
from servers.processes import family, send, until
from servers.service import RunningService
from servers.speed import HANG_S, IS_MEASURED, assert_within

NOTICED_S = 2.0
GONE_S = 1.0 if IS_MEASURED else HANG_S
ON_ONE = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
"""What processes do to each other is the same on both databases, and the transitions have their own tests."""


@pytest.fixture
def running(make_service: MakeService) -> RunningService:
    """A service that is ready, with a key."""
    return _ready(make_service())


@pytest.mark.measured
def test_the_work_of_a_killed_worker_and_service_is_noticed_within_two_seconds(
    running: RunningService,
) -> None:
    """From SIGKILL of the worker, and from the restart's readiness when everything was killed, to the start
    of the next attempt: 2 s (P9)."""
    job_id = running.submit("[fake:sleep=3] Once more.")
    _wait_attempt(running, job_id, 1)
    killed = family(running)
    assert killed.worker is not None
    send(killed.worker, signal.SIGKILL)
    took_s = [_wait_attempt(running, job_id, 2)]
    for pid in family(running).living():
        send(pid, signal.SIGKILL)
    running.kill()
    running.start()
    took_s.append(_wait_attempt(running, job_id, 3))
    operation = running.wait(job_id)

    assert_within(NOTICED_S, *took_s)
    assert ("succeeded", 3) == (operation["state"], operation["attempt"])
    checker.check_everything(running, jobs=1, credit_micros=1_000_000)


@ON_ONE
@pytest.mark.parametrize("text", ["[fake:sleep=60] Still at it.", "[fake:hang_gil] Deaf."])
def test_worker_and_host_end_with_the_api_process(running: RunningService, text: str) -> None:
    """SIGKILL of `serve`: a second later neither is there, even when the engine hears nothing."""
    _wait_attempt(running, running.submit(text), 1)
    until(lambda: family(running).host is not None, HANG_S, "the engine runs")
    before = family(running)
    assert len(before.living()) == 3
    running.kill()
    until(lambda: not before.living(), GONE_S, "they are gone")


@ON_ONE
def test_a_second_serve_on_the_folder_is_refused(running: RunningService) -> None:
    """Exit code 1, and words that name the pid and the address of the first, which goes on."""
    assert running.process is not None
    second = running.command("serve", "--port", "0", check=False)

    assert 1 == second.returncode
    assert f"pid {running.process.pid}" in second.stderr
    assert f"127.0.0.1:{running.port}" in second.stderr
    assert "succeeded" == running.wait(running.submit("Still here."))["state"]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_sigterm_lets_the_running_job_end_and_keeps_the_queue(running: RunningService) -> None:
    """What runs is finished before the exit, what waits stays, nothing new is claimed; 0 lost (P19)."""
    first = running.submit("[fake:sleep=3] The one that runs.")
    rest = [running.submit(f"[fake:sleep=0.7] Waiting {number}.") for number in range(5)]
    _wait_attempt(running, first, 1)
    before = family(running)
    code = running.stop()
    database = checker.open_records(running)
    states = checker.rows(database, "select id, state, attempts from job order by id")
    database.close()

    assert 0 == code
    assert [] == before.living()
    assert {"id": first, "state": "succeeded", "attempts": 1} == states[0]
    assert [{"id": job_id, "state": "queued", "attempts": 0} for job_id in rest] == states[1:]

    running.start()
    assert ["succeeded"] * 5 == [running.wait(job_id)["state"] for job_id in rest]
    checker.check_everything(running, jobs=6, credit_micros=1_000_000)


@ON_ONE
@pytest.mark.parametrize(("processes", "is_ignored"), [("1", True), ("2", False)])
def test_a_closed_terminal_is_an_ordinary_stop(
    make_service: MakeService, processes: str, is_ignored: bool
) -> None:
    """A paid call is finished before the exit, as after SIGTERM: it waits for no operator. Under `nohup`,
    which ignores SIGHUP, the service continues (P10, P19).
    """
    service = make_service(TENUTO_API_PROCESSES=processes)
    service.is_measured = True
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    service.start()
    signal.signal(signal.SIGHUP, before)
    service.key = service.make_key(credit="1")
    job_id = service.submit("[fake:sleep=3] Paid.", model="fake/metered-speech")
    _wait_attempt(service, job_id, 1)
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)
    if is_ignored:
        assert "succeeded" == service.wait(job_id)["state"]
    code = service.stop() if is_ignored else service.process.wait(60)
    database = checker.open_records(service)
    states = checker.rows(database, "select state, attempts from job")
    database.close()

    assert 0 == code
    assert [{"state": "succeeded", "attempts": 1}] == states


@ON_ONE
def test_what_does_not_end_in_time_is_given_back(make_service: MakeService) -> None:
    """Past `drain_s` the running job is queued again, unharmed and not counted as lost; a restart ends it."""
    running = _ready(make_service(TENUTO_DRAIN_S="0"))
    job_id = running.submit("[fake:sleep=2] Too long for a drain.")
    _wait_attempt(running, job_id, 1)
    code = running.stop()
    database = checker.open_records(running)
    jobs = checker.rows(database, "select state, attempts, hosts_lost, workers_lost, not_before_at from job")
    attempts = checker.rows(database, "select state, outcome from attempt")
    busy = checker.rows(database, "select number from slot where job_id is not null")
    database.close()

    assert 0 == code
    unharmed = {"state": "queued", "attempts": 1, "hosts_lost": 0, "workers_lost": 0, "not_before_at": 0}
    assert [unharmed] == jobs
    assert [{"state": "ended", "outcome": "released"}] == attempts
    assert [] == busy

    running.start()
    assert "succeeded" == running.wait(job_id)["state"]
    checker.check_everything(running, jobs=1, credit_micros=1_000_000)


def _ready(service: RunningService) -> RunningService:
    service.start()
    service.key = service.make_key(credit="1")
    return service


def _wait_attempt(running: RunningService, job_id: str, number: int) -> float:
    """Seconds until the job's attempt of this number runs, or has run."""
    began = time.monotonic()
    with running.client() as http:
        while True:
            operation: dict[str, Any] = http.get(f"/v1/jobs/{job_id}").json()
            took_s = time.monotonic() - began
            if operation["attempt"] >= number and operation["state"] != "queued":
                return took_s
            assert took_s < HANG_S, operation
            time.sleep(0.02)
