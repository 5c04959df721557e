"""A service whose queue is long is ready as soon as any (P19)."""

import collections
import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from servers import checker
from servers.postgres import start_postgres
from servers.processes import family, send, until
from servers.service import RunningService
from servers.speed import HANG_S, within
from servers.world import OPEN, World, request_of
from tenuto import config
from tenuto.account import operations as accounts
from tenuto.db.database import Database, Transaction
from tenuto.ids import Ids
from tenuto.job.submit import submit
from tenuto.kind import model as catalog
from tenuto.process.runtime import clock

READY_S = 5.0
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


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """A database of its own; None: in the data folder."""
    if request.param == "sqlite":
        yield None
        return
    server = start_postgres()
    server.run("create database long_queue")
    yield server.url("long_queue")
    server.stop()


def test_ten_thousand_queued_jobs_do_not_delay_a_start(database_url: str | None, tmp_path: Path) -> None:
    """Ready within 5 s after a crash; accounts take turns, each one's jobs in their order (P19)."""
    running = RunningService(tmp_path / "data", database_url)
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


def _kill_all(running: RunningService) -> None:
    before = family(running)
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
