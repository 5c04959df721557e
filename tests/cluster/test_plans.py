"""What operations cost when the database has grown: indexes are used, and few pages touched."""

import datetime
import itertools
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from msgspec import structs
from msgspec.structs import replace

from cluster import grown
from servers.plans import kept_plan, plans_of
from servers.postgres import PostgresServer
from servers.world import EVERY_MODEL, LANE, METERED, SPEECH, World
from tenuto.account import operations as accounts
from tenuto.account.caller import Caller
from tenuto.db import migrations
from tenuto.db.connection import Connection
from tenuto.db.database import Transaction
from tenuto.db.database_opening import open_database
from tenuto.db.sqlite import SqliteTransaction
from tenuto.features.audit import runs
from tenuto.features.history import usage
from tenuto.features.recognition import live_text
from tenuto.file import operations as artifacts
from tenuto.ids import Ids
from tenuto.job import audio_segments, chunks, erasure, finish, queue, read
from tenuto.job import jobs_sql as jobs
from tenuto.job.fate import Cause
from tenuto.job.queue import Claim
from tenuto.job.submit import prepare
from tenuto.kind import operations as catalog
from tenuto.money import read as billing

FINISHED, WAITING = 16_000, 4_000
ACCOUNTS = 4
PAGES = 160
"""A statement may touch so many: what looks at a hundred rows does; the tables have thousands, and grow."""
COUNTED = WAITING // ACCOUNTS + PAGES
"""How many of its own jobs wait is counted for each account, now and then."""

LISTS, TRIED = 10, 5
"""So often PostgreSQL plans a prepared statement for its parameters before it may keep a plan."""

T = TypeVar("T")
DAY = datetime.date(2020, 2, 29)
ENDS = "finish a job"
"""Done once; it comes last."""

Operation = Callable[[Transaction], object]


@dataclass
class Grown:
    """A world with so many jobs, and what operations need."""

    world: World
    url: str
    caller: Caller
    key: str
    finished: str
    waiting: str
    claim: Claim
    ids: Ids = field(init=False)

    def __post_init__(self) -> None:
        self.ids = Ids(lambda: self.world.now_ms)


@pytest.fixture(scope="module")
def big(
    postgres_server: PostgresServer, postgres_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Grown]:
    """Finished jobs of some accounts, and a queue of jobs that this worker may take and of others."""
    name = "grown"
    postgres_server.run(f"create database {name} template {postgres_template} strategy file_copy")
    database = open_database(postgres_server.url(name))
    # Their ids come after those of the copies, and before those that this test makes.
    world = World(database, tmp_path_factory.mktemp("grown"), now_ms=time.time_ns() // 1_000_000)
    world.slots(2)
    world.register("worker_a")
    callers = [world.caller(10**9) for _ in range(ACCOUNTS)]
    finished = [world.submit(caller, "done").job_id for caller in callers]
    for _ in callers:
        claim = world.claim()
        assert claim is not None
        world.finish(claim.attempt_id)
    queued = [world.submit(caller, "metered", model=METERED).job_id for caller in callers]
    grown.copy(postgres_server.url(name), finished, FINISHED)
    grown.copy(postgres_server.url(name), queued, WAITING, first=10**9)
    for caller in callers[1:]:
        for number in range(3):
            world.submit(caller, f"speech {number}", model=SPEECH)
    _, key = world.write(
        lambda tx: accounts.create_key(
            tx,
            world.ids,
            account_id=callers[0].account_id,
            name="k",
            models=None,
            expires_at=None,
            now_ms=world.now_ms,
        )
    )
    running = world.claim()
    assert running is not None
    yield Grown(world, postgres_server.url(name), callers[0], key, finished[0], queued[0], running)
    database.close()
    postgres_server.run(f"drop database {name} with (force)")


def _submit(big: Grown) -> Operation:
    request = big.world.request(big.caller, f"new {time.monotonic_ns()}")
    transaction = prepare(replace(big.world.submitting, ids=big.ids), request)

    def run(tx: Transaction) -> None:
        accounts.authenticate(tx, big.key, now_ms=big.world.now_ms)
        transaction(tx)

    return run


def _claim(models: frozenset[str]) -> Callable[[Grown], Operation]:
    def make(big: Grown) -> Operation:
        def run(tx: Transaction) -> None:
            claim = queue.claim(
                tx, big.ids, worker_id="worker_a", lane=LANE, slots=2, models=models, now_ms=big.world.now_ms
            )
            assert (claim is not None) == bool(models & EVERY_MODEL)
            if claim is not None:
                given_back = Cause("given_back", reason="the worker is stopping")
                finish.end(tx, big.ids, claim.attempt_id, given_back, now_ms=big.world.now_ms)

        return run

    return make


def _finish(big: Grown) -> Operation:
    world = big.world
    result = world.result()

    def run(tx: Transaction) -> None:
        queue.heartbeat(tx, {big.claim.attempt_id: {"completed": 1}})
        finish.record_result(tx, big.claim.attempt_id, result, now_ms=world.now_ms)
        finish.succeed(tx, big.ids, big.claim.attempt_id, now_ms=world.now_ms)

    return run


def _look(operation: Callable[[Transaction, Grown], object]) -> Callable[[Grown], Operation]:
    return lambda big: lambda tx: operation(tx, big)


def _list(**chosen: str) -> Callable[[Grown], Operation]:
    wanted: dict[str, Any] = {"state": None, "kind": None, "model": None, "after": None} | chosen
    return _look(lambda tx, big: read.list_jobs(tx, big.caller, limit=20, **wanted))


OPERATIONS: dict[str, Callable[[Grown], Operation]] = {
    "accept a job": _submit,
    "claim, of all models": _claim(EVERY_MODEL),
    "claim, of a model behind others": _claim(frozenset({SPEECH})),
    "claim, of the others": _claim(frozenset({METERED})),
    "claim, of a model that nobody waits for": _claim(frozenset({"fake/nobody"})),
    "poll a finished job": _look(
        lambda tx, big: read.get(tx, account_id=big.caller.account_id, job_id=big.finished)
    ),
    "poll a waiting job": _look(
        lambda tx, big: read.get(tx, account_id=big.caller.account_id, job_id=big.waiting)
    ),
    "list jobs": _list(),
    "list queued jobs": _list(state="queued"),
    "list failed jobs, of which there are none": _list(state="failed"),
    "list jobs of a model": _list(model=SPEECH),
    "list jobs of a model that was never used": _list(model="fake/nobody"),
    "list jobs of a kind": _list(kind="speech"),
    "list jobs of a kind, of which there are none": _list(kind="image"),
    "list succeeded jobs": _list(state="succeeded"),
    "list succeeded jobs of a model": _list(state="succeeded", model=METERED),
    "list failed jobs of a kind, of which there are none": _list(state="failed", kind="speech"),
    "list jobs of a restricted key": _look(
        lambda tx, big: read.list_jobs(
            tx,
            structs.replace(big.caller, key_models=frozenset({METERED, "fake/nobody"})),
            limit=20,
            state=None,
            kind=None,
            model=None,
            after=None,
        )
    ),
    "usage of days without jobs": _look(
        lambda tx, big: usage.of_account(tx, big.caller.account_id, since=DAY, until=DAY, limit=1000)
    ),
    "a job's events": _look(lambda tx, big: read.events(tx, big.caller, big.finished)),
    "a job's segments": _look(
        lambda tx, big: audio_segments.list_segments(
            tx, account_id=big.caller.account_id, job_id=big.finished, attempt_id=None
        )
    ),
    "a page of the ledger": _look(
        lambda tx, big: billing.ledger(tx, big.caller.account_id, after=None, limit=20)
    ),
    "a job's ledger": _look(lambda tx, big: billing.ledger_of_job(tx, big.caller.account_id, big.finished)),
    "a worker's look for work": _look(
        lambda tx, big: queue.has_work(tx, LANE, models=EVERY_MODEL, now_ms=big.world.now_ms)
    ),
    "a worker's look for work that is another's": _look(
        lambda tx, big: queue.has_work(tx, LANE, models=frozenset({"fake/nobody"}), now_ms=big.world.now_ms)
    ),
    "a worker's look for lost attempts": _look(lambda tx, big: queue.open_attempts(tx)),
    "a worker's look for cancellations": _look(lambda tx, big: queue.cancel_requests(tx, "worker_a")),
    "a worker's beat": _look(lambda tx, big: catalog.see_worker(tx, "worker_a", now_ms=big.world.now_ms)),
    "a worker's look for deadlines": _look(
        lambda tx, big: finish.overdue(tx, lane=LANE, now_ms=big.world.now_ms)
    ),
    "a worker's removal of chunks": _look(lambda tx, big: chunks.forget_final(tx)),
    "a worker's removal of live text": _look(lambda tx, big: live_text.forget_final(tx)),
    "a worker's look whether to audit": _look(lambda tx, big: runs.is_due(tx, now_ms=big.world.now_ms)),
    "the retention, with nothing old": _look(
        lambda tx, big: erasure.retain_jobs(tx, ended_before=1, now_ms=big.world.now_ms)
    ),
    "whether an open job needs an input": _look(
        lambda tx, big: jobs.is_needed(tx, big.caller.account_id, f'["{big.ids.new("artifact")}"]')
    ),
    "what was condemned": _look(lambda tx, big: artifacts.condemned(tx)),
    "whether models are callable": _look(lambda tx, big: catalog.reasons(tx, sorted(EVERY_MODEL), away=())),
    ENDS: _finish,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_stays_as_cheap(big: Grown, name: str) -> None:
    """No table of jobs is read from end to end, and no statement touches more than a few pages."""
    plans = plans_of(big.world.database, OPERATIONS[name](big))
    limits = [COUNTED if "count(*) as queued" in plan.sql else PAGES for plan in plans]
    dear = [
        plan.line()
        for plan, limit in zip(plans, limits, strict=True)
        if plan.pages > limit or plan.scanned() & set(grown.OWN_IDS)
    ]

    assert plans
    assert [] == dear


def test_plans_that_are_kept_use_indexes_too(big: Grown) -> None:
    """After five executions a connection may keep one plan for all parameters: that reads no table of jobs
    from end to end either."""
    if (
        big.world.database.read(lambda tx: tx.all("show server_version_num"))[0]["server_version_num"]
        < "160000"
    ):
        pytest.skip("PostgreSQL shows plans without parameters from version 16 on")
    made = (
        plans_of(big.world.database, operation(big)) for name, operation in OPERATIONS.items() if name != ENDS
    )
    statements = {plan.sql for plans in made for plan in plans}
    kept = [plan for sql in statements if (plan := kept_plan(big.url, sql)) is not None]

    assert len(kept) > 40
    assert [] == [plan.line() for plan in kept if plan.scanned() & set(grown.OWN_IDS)]


def test_the_plan_of_a_list_is_kept(big: Grown) -> None:
    """A list is planned once, not for every caller anew: planning grows with what is known of the tables."""
    connection = Connection(psycopg.connect(big.url, autocommit=True))
    for _ in range(LISTS):
        connection.read(OPERATIONS["list jobs"](big))
    (listed,) = connection.read(
        lambda tx: tx.all(
            "select generic_plans as kept from pg_prepared_statements where statement like :list",
            list="%order by j.%",
        )
    )
    connection.close()

    assert listed["kept"] >= LISTS - TRIED


def _empty(server: PostgresServer, template: str, name: str, folder: Path) -> tuple[World, Caller]:
    """A new database of this name, with a worker and a caller; who asks for it closes and drops it."""
    server.run(f"create database {name} template {template} strategy file_copy")
    world = World(open_database(server.url(name)), folder, now_ms=time.time_ns() // 1_000_000)
    world.slots(2)
    world.register("worker_a")
    return world, world.caller(10**9)


def test_a_queue_that_came_suddenly_is_not_read(
    postgres_server: PostgresServer, postgres_template: str, tmp_path: Path
) -> None:
    """Statistics that know of no queue do not make a worker read through the jobs of another's models."""
    name = "sudden"
    world, caller = _empty(postgres_server, postgres_template, name, tmp_path)
    done = world.submit(caller, "done", model=SPEECH).job_id
    claim = world.claim()
    assert claim is not None
    world.finish(claim.attempt_id)
    grown.copy(postgres_server.url(name), [done], WAITING)
    away = world.submit(caller, "away", model=METERED).job_id
    grown.copy(postgres_server.url(name), [away], WAITING, first=10**9, is_known=False)
    world.submit(caller, "new", model=SPEECH)
    models = frozenset({SPEECH, "fake/nobody"})
    sudden = Grown(world, postgres_server.url(name), caller, "", done, away, claim)
    look = _look(lambda tx, _: queue.has_work(tx, LANE, models=models, now_ms=world.now_ms))
    plans = [*plans_of(world.database, _claim(models)(sudden)), *plans_of(world.database, look(sudden))]
    world.database.close()
    postgres_server.run(f"drop database {name} with (force)")

    assert [] == [plan.line() for plan in plans if plan.pages > PAGES]


def test_a_queue_that_is_nearly_all_of_a_table_is_not_read(
    postgres_server: PostgresServer, postgres_template: str, tmp_path: Path
) -> None:
    """A worker of two models in a service that has just begun: the planner takes any queue for a 200th of the
    table, and such a queue for a handful of jobs.
    """
    name = "beginning"
    world, caller = _empty(postgres_server, postgres_template, name, tmp_path)
    running = world.submit(caller, "running", model=SPEECH).job_id
    claim = world.claim()
    assert claim is not None
    waiting = world.submit(caller, "waits", model=SPEECH).job_id
    grown.copy(postgres_server.url(name), [waiting], WAITING // 2)
    beginning = Grown(world, postgres_server.url(name), caller, "", running, waiting, claim)
    plans = plans_of(world.database, _claim(frozenset({SPEECH, METERED}))(beginning))
    world.database.close()
    postgres_server.run(f"drop database {name} with (force)")

    assert [] == [plan.line() for plan in plans if plan.pages > PAGES]


def _steps_on_sqlite(world: World, operation: Callable[[Transaction], T]) -> tuple[int, T]:
    """How many steps of SQLite's an operation takes, and its answer."""
    steps = itertools.count()
    with closing(sqlite3.connect(world.folder / "tenuto.db", isolation_level=None)) as file:
        file.row_factory = sqlite3.Row
        file.execute("select id from job limit 1")  # It reads the schema, which takes steps of its own.
        file.set_progress_handler(lambda: next(steps) < 0, 1)
        answer = operation(SqliteTransaction(file))
        file.set_progress_handler(None, 1)
    return next(steps), answer


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[World]:
    """A world in a file, with a worker."""
    database = open_database(f"sqlite:///{tmp_path}/tenuto.db")
    migrations.migrate(database)
    world = World(database, tmp_path, now_ms=time.time_ns() // 1_000_000)
    world.slots(2)
    world.register("worker_a")
    yield world
    database.close()


def test_a_claim_on_sqlite_passes_over_no_accounts_queue(on_sqlite: World) -> None:
    """It steps from one waiting account to the next, however many jobs each has, as SQLite counts steps."""
    world = on_sqlite
    waiting = [world.submit(world.caller(10**9), "waits", model=SPEECH).job_id for _ in range(2)]
    grown.copy(f"sqlite:///{world.folder}/tenuto.db", waiting, WAITING)

    def claim(tx: Transaction) -> Claim | None:
        return queue.claim(
            tx,
            Ids(lambda: world.now_ms),
            worker_id="worker_a",
            lane=LANE,
            slots=2,
            models=frozenset({SPEECH}),
            now_ms=world.now_ms,
        )

    steps, claimed = _steps_on_sqlite(world, claim)

    assert claimed is not None
    assert steps < WAITING


def test_an_erasure_on_sqlite_reads_no_queue_of_jobs_with_inputs(on_sqlite: World) -> None:
    """Whether an open job needs an input is looked up, however many of them have inputs (P14)."""
    world, caller = on_sqlite, on_sqlite.caller(10**9)
    waiting = world.submit(caller, "waits").job_id
    needed, other = world.ids.new("artifact"), world.ids.new("artifact")
    world.run("update job set input_artifact_ids = :named", named=f'["{needed}"]')
    grown.copy(f"sqlite:///{world.folder}/tenuto.db", [waiting], WAITING)

    for artifact_id in (needed, other):
        look = partial(jobs.is_needed, account_id=caller.account_id, named=f'["{artifact_id}"]')
        steps, is_needed = _steps_on_sqlite(world, look)

        assert (artifact_id == needed) == is_needed
        assert steps < PAGES
