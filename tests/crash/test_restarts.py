"""Ends and starts of the service's processes: who notices, how soon, and what happens to the work."""

import collections
import itertools
import signal
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crash.conftest import MakeService
from servers import checker
from servers.processes import Family, family, send, until
from servers.receiver import Message, Receiver
from servers.service import RunningService
from servers.speed import HANG_S, IS_MEASURED, assert_within, within
from servers.world import OPEN, World, request_of
from tenuto import config
from tenuto.account import operations as accounts
from tenuto.db.database import Database, Transaction
from tenuto.ids import Ids
from tenuto.job.submit import submit
from tenuto.kind import model as catalog
from tenuto.process.runtime import clock

NOTICED_S, READY_S = 2.0, 5.0
GONE_S = 1.0 if IS_MEASURED else HANG_S
QUEUED = 10_000
ACCOUNTS = 4
TURNS = 40
_NUMBERS = "with recursive n (i) as (select 1 union all select i + 1 from n where i < :jobs)"
_DIGITS = "substr('0000000000' || cast(n.i as text), length(cast(n.i as text)) + 1)"
_FROZEN = (
    "account_id, key_id, kind, model, lane, state, body, parameters, metadata, input_artifact_ids,"
    " rerunnable, hold_micros, price_micros, price_unit, created_at, deadline_at, event_sequence"
)
_LIKES = (
    f"""insert into idempotency (key_id, idempotency_key, body_sha256, job_id, created_at) {_NUMBERS}
        select key_id, 'like ' || cast(n.i as text), body_sha256, substr(job_id, 1, 20) || {_DIGITS},
               created_at
        from idempotency cross join n""",
    f"""insert into entry (id, type, account_id, job_id, available_micros, held_micros, revenue_micros,
                           funding_micros, created_at) {_NUMBERS}
        select id || cast(n.i as text), type, account_id, substr(job_id, 1, 20) || {_DIGITS}, 0, 0, 0, 0,
               created_at from entry cross join n where type = 'hold'""",
    f"""insert into event (job_id, sequence, type, at) {_NUMBERS}
        select substr(job_id, 1, 20) || {_DIGITS}, sequence, type, at from event cross join n""",
    f"""insert into job (id, {_FROZEN}) {_NUMBERS}
        select substr(id, 1, 20) || {_DIGITS}, {_FROZEN} from job cross join n""",
)
"""Many jobs like those that are there, as one statement each."""

ON_ONE = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
"""What processes do to each other is the same on both databases, and the transitions have their own tests."""


@pytest.fixture
def running(make_service: MakeService) -> RunningService:
    """A service that is ready, with a key."""
    return _ready(make_service())


@pytest.mark.measured
def test_a_killed_worker_is_noticed_within_two_seconds(running: RunningService) -> None:
    """From SIGKILL of the worker to the start of the next attempt: 2 s, each time again."""
    job_id = running.submit("[fake:sleep=3] Once more.")
    took_s = []
    for number in (1, 2):
        _wait_attempt(running, job_id, number)
        killed = family(running)
        assert killed.worker is not None
        send(killed.worker, signal.SIGKILL)
        took_s.append(_wait_attempt(running, job_id, number + 1))
    operation = running.wait(job_id)

    assert_within(NOTICED_S, *took_s)
    assert ("succeeded", 3) == (operation["state"], operation["attempt"])
    checker.check_everything(running, jobs=1, credit_micros=1_000_000)


@pytest.mark.measured
def test_the_work_of_a_killed_service_is_noticed_within_two_seconds(running: RunningService) -> None:
    """Everything is killed at once: at most 2 s from the restart's readiness to the next attempt."""
    job_id = running.submit("[fake:sleep=3] Once more.")
    _wait_attempt(running, job_id, 1)
    for pid in family(running).living():
        send(pid, signal.SIGKILL)
    running.kill()
    running.start()
    took_s = _wait_attempt(running, job_id, 2)

    assert_within(NOTICED_S, took_s)
    assert "succeeded" == running.wait(job_id)["state"]
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
@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("is_ignored", [False, True])
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


def test_a_receiver_that_never_ends_its_answer_delays_no_stop(make_service: MakeService) -> None:
    """A byte a second: the message is sent again by the next process, and nobody waits for it (P19)."""
    done = threading.Event()

    def drip(handler: BaseHTTPRequestHandler, _: Message) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        with suppress(OSError):
            while not done.wait(1):
                handler.wfile.write(b"x")

    receiver = Receiver(answering=drip)
    service = make_service(TENUTO_WEBHOOKS="any", TENUTO_DRAIN_S="1", TENUTO_HOST_GRACE_S="1")
    service.start()
    service.key = service.make_key(credit="1")
    with service.client() as client:
        client.post(
            "/v1/webhooks", json={"url": receiver.url, "events": ["job.succeeded"]}
        ).raise_for_status()
    service.submit("One.")
    receiver.wait(1)
    exit_code = service.stop()
    done.set()
    receiver.close()

    assert 0 == exit_code


@pytest.mark.measured
def test_ten_thousand_queued_jobs_do_not_delay_a_start(make_service: MakeService, tmp_path: Path) -> None:
    """Ready within 5 s after a crash; accounts take turns, each one's jobs in their order (P19)."""
    running = make_service()
    running.start()
    keys = [running.make_key(f"account {n}", credit="1000") for n in range(ACCOUNTS)]
    _kill_all(running)
    database = checker.open_records(running)
    _queue(database, tmp_path, keys)
    running.key = keys[0]
    running.start()
    until(lambda: _started(database) > 0, HANG_S, "an attempt started")
    _kill_all(running)

    with within(READY_S):
        running.start()
    until(lambda: _started(database) > TURNS + 2, HANG_S, "attempts started")
    _kill_all(running)
    checker.check_audit(running)
    order = checker.rows(
        database,
        """select j.account_id, j.id, t.number from attempt t join job j on j.id = t.job_id
           order by t.started_at, t.id limit :turns""",
        turns=TURNS,
    )
    database.close()

    # A rescued job takes a turn of its account's, too, and stands before its younger jobs.
    turns = collections.Counter(row["account_id"] for row in order)
    by_account: dict[str, list[str]] = {}
    for row in order:
        if row["number"] == 1:
            by_account.setdefault(row["account_id"], []).append(row["id"])
    assert ACCOUNTS == len(turns)
    assert max(turns.values()) - min(turns.values()) <= 1
    assert [] == [jobs for jobs in by_account.values() if jobs != sorted(jobs)]


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


def _kill_all(running: RunningService) -> None:
    before: Family = family(running)
    for pid in before.living():
        send(pid, signal.SIGKILL)
    running.kill()
    until(lambda: not before.living(), HANG_S, "all are gone")


def _started(database: Database) -> int:
    count: int = checker.rows(database, "select count(*) as attempts from attempt")[0]["attempts"]
    return count


def _queue(database: Database, folder: Path, keys: list[str]) -> None:
    """Ten thousand jobs: one of each account accepted by the API's own operation, the others its likes."""
    now_ms = clock()
    # A millisecond for each id: the likes of a job begin with the same 20 characters, others do not.
    ids = Ids(itertools.count(now_ms - 1_000_000).__next__)
    models = catalog.models(config.load({"TENUTO_ENGINES": "fake"}))
    world = World(database, folder, now_ms)
    world.register(OPEN)
    for key in keys:
        caller = database.read(lambda tx, key=key: accounts.authenticate(tx, key, now_ms=now_ms))  # type: ignore[misc]
        body = {"model": "fake/speech", "parameters": {"text": "One of many."}}
        submit(replace(world.submitting, ids=ids, models=models), request_of(caller, "first", body))
    world.forget(OPEN)

    def multiply(tx: Transaction) -> None:
        for statement in _LIKES:
            tx.run(statement, jobs=QUEUED // len(keys) - 1)

    database.write(multiply)
