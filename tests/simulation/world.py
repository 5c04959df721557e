"""A whole small service in virtual time: callers, APIs, workers and an operator, and what goes wrong.

A seed gives the plan (who does what, which faults come at which step) and the order in which threads run. The
workers are the service's own `Worker`, the calls its own operations. After the last step of the plan no new
fault comes; then every accepted job has to end.
"""

import gc
import hashlib
import shutil
import sqlite3
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import msgspec
import structlog

from servers.world import LANE, METERED, SPEECH, any_key, offered, request_of
from simulation.machine import Killed, Machine, VirtualBlobs, VirtualDatabase, VirtualHost
from simulation.promises import FINAL, Broken, Promises, journal_of
from simulation.scheduler import Process, Scheduler, Stuck, installed
from tenuto.account import operations as accounts
from tenuto.account.caller import Caller
from tenuto.config import Price, Settings
from tenuto.db.database import Transaction
from tenuto.db.migrations import migrate
from tenuto.db.sqlite import SqliteDatabase, SqliteTransaction
from tenuto.errors import (
    Erased,
    IdempotencyConflict,
    InsufficientBalance,
    InvalidRequest,
    OperatorError,
    TenutoError,
    Unavailable,
)
from tenuto.features.audit import all_checks, runs
from tenuto.features.events import feed, feed_store
from tenuto.file import operations as artifacts
from tenuto.file.erasure import remove
from tenuto.ids import Ids
from tenuto.job import erasure, finish, queue, read, recover
from tenuto.job.states import Decision
from tenuto.job.submit import SubmitContext, submit
from tenuto.kind import operations as catalog
from tenuto.kind.presence import Presence
from tenuto.money import operations as billing
from tenuto.worker import supervisor
from tenuto.worker.abilities import Ability
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import of_features
from tenuto.worker.engines import Engines
from tenuto.worker.watch import Watch

of_features(Watch(Settings(folder=Path())))  # Loads their modules before threads and locks are virtual.

PRICE = Price("audio_minute", 50_000, 6_000_000)
CHARGE_MICROS = 4
"""Of a result of this simulation, which has four milliseconds, each begun micro counted."""
CREDIT_MICROS = 2 * PRICE.hold_micros + 1
MODELS = {name: model for name, model in offered(PRICE).items() if name in (SPEECH, METERED)}
SILENCE_S = 3.0
ANSWER_S = 5.0
"""How long a caller waits for an answer before it sends the same again."""
LATEST_S = 200 * 86_400.0
OFFERS = "worker_that_offers"

FAULTS_OF_OURS = frozenset(
    {
        *("attempt.abandoned", "upkeep.failed", "heartbeat.failed", "claim.failed", "job.unsettled"),
        *("sweep.failed", "audit.failed", "retention.failed"),
    }
)
"""What the service logs about errors that nobody foresaw in its own code."""
UNEVENTFUL = frozenset({"worker.started", "audit.finished", "engine.loaded"})

FAULTS = {
    "kill worker": 5,
    "kill worker inside": 4,
    "freeze worker": 9,
    "kill api": 2,
    "kill api inside": 1,
    "lose answer": 4,
    "refuse commit": 3,
    "put disk full": 1,
    "put away": 1,
    "put answer lost": 2,
    "put frozen": 6,
    "run slow": 2,
    "run failed": 1,
    "run transient": 2,
    "run lost": 2,
    "run shared": 1,
    "run unknown": 1,
    "run unforeseen": 1,
    "run silent": 1,
    "run deaf": 1,
    "run not started": 1,
    "clock": 3,
    "drain worker": 1,
    "sleep": 2,
}
"""What goes wrong, and how often beside the others."""


@dataclass(frozen=True)
class Fault:
    """One fault, at one step of the schedule."""

    at_step: int
    what: str
    whom: int = 0
    amount: float = 0.0


@dataclass(frozen=True)
class Step:
    """What one caller does next."""

    caller: int
    what: str
    job: int
    """The number of the idempotency key."""
    model: str = SPEECH
    text: str = ""
    pause_s: float = 0.0
    api: int = 0
    stream: bool = False
    at_once: bool = False
    """The caller takes its next step without waiting for the answer."""


@dataclass(frozen=True)
class Plan:
    """All that is decided before the first step. Shrinking leaves some of it out."""

    seed: int
    workers: int
    apart: bool
    """Whether the last worker is on a machine of its own, so that only its silence shows that it is gone."""
    slots: int
    run_s: tuple[float, ...]
    """What runs of engines may take."""
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]
    random_steps: int = 1 << 30
    """From this switch on threads run in the order in which they became ready."""


def plan_of(seed: int, what: Mapping[str, int] = FAULTS, *, in_haste: bool = False) -> Plan:
    """The plan of a seed; `what` may go wrong, with its weights. `in_haste`: callers send much at once."""
    random = Random(f"plan {seed}")
    steps = []
    for caller in range(2):
        keys = random.randint(1, 3)
        for key in range(keys):
            model = random.choice((SPEECH, SPEECH, METERED))
            more = {"model": model, "text": f"{caller}{key}", "stream": random.random() < 0.3}
            again = random.choice((0, 0, 1, 1, 2))
            steps += [_step(random, caller, "submit", key, **more) for _ in range(1 + again)]
            if random.random() < 0.1:
                steps.append(_step(random, caller, "submit", key, **more | {"text": f"{caller}{key}x"}))
            if random.random() < 0.35:
                steps.append(_step(random, caller, "cancel", key))
            if random.random() < 0.5:
                steps.append(_step(random, caller, "wait", key))
            if random.random() < 0.25:
                steps.append(_step(random, caller, "erase", key))
    if in_haste:
        steps = _at_once(random, steps)
    # Few kinds of fault in one world: together they would hide each other.
    kinds = random.choices(list(what), list(what.values()), k=3)
    faults = [
        Fault(
            int(random.triangular(100, 600, 230)),
            random.choice(kinds),
            random.randrange(6),
            random.choice((0.3, 2.0, 4.5, 4.5, 12.0)),
        )
        for _ in range(random.choice((0, 1, 2, 3, 4, 6)))
    ]
    return Plan(
        seed,
        workers=random.choice((1, 2, 2)),
        apart=random.random() < 0.5,
        slots=random.choice((1, 2)),
        run_s=random.choice(((0.0, 0.05, 0.4), (0.05, 0.4, 1.2), (1.2, 3.0), (1.2, 3.0))),
        steps=tuple(steps),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_step)),
    )


def _at_once(random: Random, steps: list[Step]) -> list[Step]:
    """Most submissions wait for nothing: others, and the same again, come while they are under way.

    Another body under the same key is left out, because either of the two may be the one to refuse.
    """
    return [
        replace(step, at_once=True, pause_s=0.0) if step.what == "submit" and random.random() < 0.7 else step
        for step in steps
        if not step.text.endswith("x")
    ]


def _step(random: Random, caller: int, what: str, job: int, **more: Any) -> Step:
    pause_s, api = random.choice((0.0, 0.0, 0.1, 1.0)), random.randrange(2)
    return Step(caller, what, job, pause_s=pause_s, api=api, **more)


@dataclass
class Outcome:
    """What became of one world."""

    plan: Plan
    broken: str | None
    trace: list[str]
    switches: int
    commits: int


class Ground:
    """What worlds share, one after the other: the database with its tables, the folder of lock files."""

    is_followed = False
    """Whether a follower reads all events; on SQLite they cannot appear in another order."""
    faults: ClassVar[dict[str, Any]] = {}
    """Those of PostgreSQL's worlds, by name."""

    def __init__(self) -> None:
        shm = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="tenuto-simulation-", dir=shm if shm.is_dir() else None))
        self.connection = self._database()
        self.promises = Promises(self.connection, journal_of("sqlite"), charge_micros=CHARGE_MICROS)
        # Children first: a table refers to those that were made before it.
        tables = self.connection.execute("select name from sqlite_master where type = 'table' order by rowid")
        self._tables = [
            name
            for (name,) in reversed(tables.fetchall())
            if not self.connection.execute(f"select 1 from {name} limit 1").fetchone()
        ]

    def _database(self) -> sqlite3.Connection:
        """Migrated as the service does it, then read into memory."""
        database = SqliteDatabase(self.folder / "template.db")
        migrate(database)
        database.close()
        connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=1024)
        with sqlite3.connect(self.folder / "template.db") as template:
            template.backup(connection)
        template.close()
        connection.row_factory = sqlite3.Row
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma temp_store = memory")
        return connection

    def empty(self) -> None:
        """The tables as they are after the migration."""
        run = self.connection.execute
        if self.connection.in_transaction:
            run("rollback")
        run("begin")
        run("update job set artifact_id = null")
        for name in self._tables:
            run(f"delete from {name}")
        self.promises.start()
        run("commit")

    def tx(self) -> Transaction:
        """For the service's audit."""
        return SqliteTransaction(self.connection)

    def open(self, machine: Machine, process: Process) -> Any:
        """The database, as this process opens it."""
        return VirtualDatabase(machine, process)

    def ready(self, _machine: Machine) -> AbstractContextManager[None]:
        """While the block lasts, a world uses it."""
        return nullcontext()

    def plan(self, seed: int) -> Plan:
        """The plan of a seed."""
        return plan_of(seed)

    def most_queued(self, _seed: int) -> int:
        """How many jobs an account may have queued."""
        return 20_000

    def frozen(self, process: Process, seconds: float) -> None:
        """A process stands still; none waits for it: a transaction here is never left half begun."""

    def close(self) -> None:
        self.connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def run(plan: Plan, ground: Any) -> Outcome:
    """One world from its first step to its end."""
    ground.empty()
    trace: list[str] = []
    random = Random(f"schedule {plan.seed}")
    scheduler = Scheduler(random, trace.append)
    scheduler.random_steps = plan.random_steps
    machine = Machine(
        scheduler,
        Random(f"machine {plan.seed}"),
        lambda what: trace.append(f"{scheduler.steps:5} {scheduler.now_s - 1000:8.3f} s  {what}"),
        ground.connection,
        ground.promises.look,
        plan.run_s,
    )
    world = World(plan, machine, ground)
    broken = None
    with logged(world), ground.ready(machine), installed(scheduler):
        try:
            # A collection in between takes as long as a world.
            gc.disable()
            world.begin()
            scheduler.run_until(lambda: world.is_over, latest_s=scheduler.now_s + LATEST_S)
            world.check_end()
        except Stuck as error:
            broken = f"{error}; {world.open_jobs()}"
        except Broken as error:
            broken = str(error)
        except Exception as error:
            # A thread of the service would have ended with it.
            where = traceback.extract_tb(error.__traceback__)[-1]
            broken = f"{error!r} in {where.name}, line {where.lineno} of {Path(where.filename).name}"
        finally:
            world.close()
            gc.enable()
    broken = world.broken or broken
    if broken is not None:
        machine.note(f"BROKEN: {broken}")
    return Outcome(plan, broken, trace, scheduler.steps, machine.commits)


AnyGround = Any
"""A `Ground`, or that of PostgreSQL, which does the same."""


@contextmanager
def logged(world: "World") -> Iterator[None]:
    """The service's own log becomes part of the trace; an error that nobody foresaw ends the world."""
    machine = world.machine

    def note(_logger: Any, level: str, event: Any) -> Any:
        scheduler = machine.scheduler
        if not scheduler.is_closing and scheduler.current is not None and event["event"] not in UNEVENTFUL:
            error = sys.exc_info()[1] if event.get("exc_info") is True else event.get("exc_info")
            machine.note(
                f"{scheduler.current.name}: {level} {event['event']}{f': {error!r}' if error else ''}"
            )
            if event["event"] in FAULTS_OF_OURS:
                world.broken = world.broken or f"{event['event']}: {error!r}"
                world.is_over = True
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[note],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)


@dataclass(eq=False)
class VirtualWorker:
    """One worker process; `number` is its machine's."""

    number: int
    process: Process
    worker_id: str
    context: WorkerContext
    has_stood_still: bool = False
    is_draining: bool = False
    worker: Any = None


@dataclass(eq=False)
class Api:
    """One API process."""

    process: Process
    context: SubmitContext


class Lost(Exception):
    """No answer came in time."""


@dataclass(eq=False)
class World:
    """The processes of one world, and what its callers know."""

    plan: Plan
    machine: Machine
    ground: Any
    is_over: bool = False
    broken: str | None = None
    outside: Process = field(default_factory=lambda: Process("outside"))
    workers: dict[int, VirtualWorker] = field(default_factory=dict)
    all_workers: dict[str, VirtualWorker] = field(default_factory=dict)
    apis: list[Api] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)
    accepted: dict[tuple[int, int], str] = field(default_factory=dict)
    """The job of each caller's key, once a 202 has arrived."""
    requeued: dict[str, int] = field(default_factory=dict)
    followed: set[tuple[str, int]] = field(default_factory=set)
    mark: feed_store.Position = feed.START
    news: threading.Event | None = None
    """Set by each commit, for who follows all events."""
    busy_callers: int = 0
    started: int = 0

    def __post_init__(self) -> None:
        promises, scheduler = self.ground.promises, self.machine.scheduler
        promises.note = self.machine.note
        promises.content = lambda blob_id: self.machine.bytes.get(blob_id, (None, 0))[0]
        promises.was_silent = self.was_silent
        self.machine.hindered = self.hindered
        self.machine.after_commit = self.after_commit
        self._faults = list(self.plan.faults)
        scheduler.before_step = self.before_step

    # --- beginning and end -------------------------------------------------------------------------------

    def begin(self) -> None:
        self.machine.scheduler.spawn("outside", self.outside, self._set_up)

    def _set_up(self) -> None:
        """Accounts with credit, the lane's slots, then all processes and callers."""
        database = self.ground.open(self.machine, self.outside)
        ids, now_ms = self._ids("outside"), self.machine.clock()
        self.database = database

        def fill(tx: Transaction) -> None:
            for name in ("one", "two"):
                account_id = accounts.create_account(tx, ids, name=name, now_ms=now_ms)
                billing.credit(
                    tx,
                    ids.new("entry"),
                    account_id=account_id,
                    amount_micros=CREDIT_MICROS,
                    note=None,
                    now_ms=now_ms,
                )
                self.callers.append(Caller(f"key_{name}", account_id, None, None))
                tx.run(
                    "insert into api_key (id, account_id, name, created_at)"
                    " values (:id, :account, 'key', :now)",
                    id=f"key_{name}",
                    account=account_id,
                    now=now_ms,
                )
            catalog.register_worker(
                tx,
                OFFERS,
                machine="elsewhere",
                pid=1,
                lock_name=f"{OFFERS}.lock",
                models=sorted(MODELS),
                now_ms=now_ms,
            )
            queue.set_slots(tx, LANE, self.plan.slots)
            if self.plan.seed % 8:
                # Audited already; in every eighth world a worker does it.
                runs.begin(tx, OFFERS, now_ms=now_ms)

        database.write(fill)
        scheduler = self.machine.scheduler
        self.apis = [self._api(number) for number in range(2)]
        for number in range(self.plan.workers):
            self._start_worker(number)
        for number in range(len(self.callers)):
            self.busy_callers += 1
            scheduler.spawn(f"caller {number}", self.outside, partial(self._call, number))
        scheduler.spawn("operator", self.outside, self._operate)
        if self.ground.is_followed:
            self.news = threading.Event()
            scheduler.spawn("follower", self.outside, self._follow)

    def close(self) -> None:
        for worker in self.all_workers.values():
            if not worker.process.is_dead:
                self.machine.scheduler.kill(worker.process)

    def check_end(self) -> None:
        """Every job has ended, and everything agrees."""
        if self.broken is not None:
            return
        rows = self.ground.connection.execute(
            "select j.id, j.state, i.key_id, i.idempotency_key from job j"
            " join idempotency i on i.job_id = j.id order by j.id"
        ).fetchall()
        jobs = {row[0]: row for row in rows}
        for (caller, key), job_id in self.accepted.items():
            row = jobs.get(job_id)
            if row is None or tuple(row[2:4]) != (
                self.callers[caller].key_id,
                f"key {key}",
            ):
                raise Broken(f"the accepted job {job_id} is not there, or not its key's")
        still_open = [row[0] for row in rows if row[1] not in FINAL]
        if still_open:
            raise Broken(f"these jobs have not ended: {still_open}")
        for text, calls in self.machine.results.items():
            if text.startswith("metered") and calls > 1 + self.requeued.get(text, 0):
                raise Broken(f"the paid call for {text} was made {calls} times")
        if self.ground.is_followed:
            self._check_followed()
        findings = all_checks.audit(self.ground.tx())
        if findings:
            raise Broken("the audit finds " + "; ".join(finding.summary() for finding in findings))

    def open_jobs(self) -> str:
        rows = self.ground.connection.execute(
            "select id, state, not_before_at from job where state not in ('succeeded', 'failed', 'cancelled')"
        ).fetchall()
        return f"open: {[tuple(row) for row in rows]}, callers under way: {self.busy_callers}"

    def after_commit(self, process: str) -> None:
        if self.news is not None:
            self.news.set()
        try:
            self.ground.promises.look(process)
        except Broken as error:
            self.broken = self.broken or str(error)
            self.is_over = True

    def was_silent(self, worker_id: str) -> bool:
        worker = self.all_workers[worker_id]
        return worker.process.is_dead or worker.has_stood_still

    def hindered(self, process: Process) -> None:
        """A commit of this process was refused, or its answer lost: it may know of an attempt no more."""
        for worker in self.all_workers.values():
            if worker.process is process:
                worker.has_stood_still = True

    # --- processes ---------------------------------------------------------------------------------------

    def _ids(self, name: str) -> Ids:
        return Ids(self.machine.clock, Random(f"ids {name} {self.plan.seed}").getrandbits)

    def _api(self, number: int) -> Api:
        self.started += 1
        process, me = Process(f"api-{number}"), self.machine.scheduler.me()
        # The database's thread belongs to the process that opens it.
        me.process = process
        database = self.ground.open(self.machine, process)
        me.process = self.outside
        ids = self._ids(f"{process.name} {self.started}")
        blobs, clock = VirtualBlobs(self.machine), self.machine.clock
        most = self.ground.most_queued(self.plan.seed)
        return Api(process, SubmitContext(database, blobs, MODELS, ids, clock, Presence(), most))

    def _start_worker(self, number: int) -> None:
        self.started += 1
        worker_id = f"worker_{self.started}"
        process = Process(f"worker-{number}")
        is_apart = self.plan.apart and number == self.plan.workers - 1
        folder = self.ground.folder / ("far" if is_apart else "near")
        context = WorkerContext(
            settings=Settings(
                folder=self.ground.folder,
                silence_s=SILENCE_S,
                heartbeat_s=1.0,
                engines="fake",
                features={"speech_slots": self.plan.slots},
                drain_s=5,
                engine_silence_s=60,
                retention_days=self.plan.seed % 2,
            ),
            database=None,  # type: ignore[arg-type]
            blobs=VirtualBlobs(self.machine),
            models=MODELS,
            ids=self._ids(worker_id),
            clock=self.machine.clock,
            worker_id=worker_id,
            locks=folder,
        )
        virtual = VirtualWorker(number, process, worker_id, context)
        self.workers[number] = self.all_workers[worker_id] = virtual
        self.machine.scheduler.spawn(f"{process.name}.main", process, partial(self._work, virtual))

    def _work(self, virtual: VirtualWorker) -> None:
        """The worker's process from its start."""
        virtual.context = msgspec.structs.replace(
            virtual.context, database=self.ground.open(self.machine, virtual.process)
        )
        abilities = [Ability(name, LANE, self.plan.slots, "child", 0, None) for name in sorted(MODELS)]

        def make_host(spec: Any) -> Any:
            return VirtualHost(spec, self.machine, virtual.process)

        # The engine's process is the only part of a worker that is not real.
        vars(supervisor)["Engines"] = partial(Engines, make_host=make_host)
        try:
            duties = of_features(Watch(virtual.context.settings))
            worker = supervisor.Worker(virtual.context, abilities, duties)
        finally:
            vars(supervisor)["Engines"] = Engines
        virtual.process.on_death.append(lambda: _free(worker._lock))
        try:
            worker.start()
        except Unavailable:
            # The process ends with that, and the operator's systemd starts another one.
            self._kill(virtual.process, is_inside=False, number=virtual.number)
        else:
            virtual.worker = worker

    def _restart(self, number: int) -> None:
        """The operator's systemd."""
        self.machine.scheduler.sleep(self.machine.random.choice((0.2, 1.0, 6.0)))
        self._start_worker(number)

    # --- faults ------------------------------------------------------------------------------------------

    def before_step(self) -> None:
        while self._faults and self._faults[0].at_step <= self.machine.scheduler.steps:
            self._happen(self._faults.pop(0))

    def _happen(self, fault: Fault) -> None:  # noqa: PLR0912 (a case each)
        machine = self.machine
        what, whom = fault.what, fault.whom
        virtual = self.workers.get(whom % self.plan.workers)
        machine.note(f"FAULT: {what} {whom} {fault.amount}")
        if what in self.ground.faults:
            self.ground.faults[what](self, fault.amount)
        elif what.startswith("run "):
            machine.runs.append(what.removeprefix("run "))
        elif what.startswith("put "):
            machine.refused_puts.append(what.removeprefix("put "))
        elif what == "lose answer":
            machine.lost_answers += 1
        elif what == "refuse commit":
            machine.refused_commits += 1
        elif what == "clock":
            machine.wall_offset_ms += (-1) ** whom * int(fault.amount * 86_400_000)
        elif what == "sleep":
            # Every machine, for days: deadlines pass, orphans and old results are due.
            machine.scheduler.now_s += fault.amount * (1 + whom % 2) * 86_400
            for worker in self.all_workers.values():
                worker.has_stood_still = True
        elif what.startswith("kill api") and self.apis:
            api = self.apis[whom % 2]
            self._kill(api.process, is_inside="inside" in what, number=-1 - whom % 2)
        elif virtual is None or virtual.process.is_dead:
            return
        elif what.startswith("kill worker"):
            self._kill(virtual.process, is_inside="inside" in what, number=virtual.number)
        elif what == "freeze worker":
            virtual.has_stood_still = True
            virtual.process.frozen_until = machine.scheduler.now_s + fault.amount
            self.ground.frozen(virtual.process, fault.amount)
        elif what == "drain worker" and virtual.worker is not None and not virtual.is_draining:
            virtual.is_draining = True
            machine.scheduler.spawn(
                f"{virtual.process.name}.stop", virtual.process, partial(self._drain, virtual)
            )

    def _kill(self, process: Process, *, is_inside: bool, number: int) -> None:
        def born_again() -> None:
            if number < 0:
                self.machine.scheduler.spawn("init", self.outside, partial(self._restart_api, -1 - number))
            else:
                self.machine.scheduler.spawn("init", self.outside, partial(self._restart, number))

        process.on_death.append(born_again)
        if is_inside:
            self.machine.doomed = process
        else:
            self.machine.scheduler.kill(process)

    def _restart_api(self, number: int) -> None:
        self.machine.scheduler.sleep(0.3)
        self.apis[number] = self._api(number)

    def _drain(self, virtual: VirtualWorker) -> None:
        """SIGTERM, and after it a new worker."""
        virtual.has_stood_still = True
        virtual.worker.stop()
        self.machine.note(f"{virtual.process.name} has stopped")
        scheduler = self.machine.scheduler
        virtual.process.on_death.clear()
        scheduler.spawn("init", self.outside, partial(self._restart, virtual.number))

    # --- callers -----------------------------------------------------------------------------------------

    def ask(self, number: int, work: Callable[[Api], Any]) -> Any:
        """A request to one API process; Lost when no answer comes."""
        api = self.apis[number % 2]
        answer: list[Any] = []
        arrived = threading.Event()

        def handle() -> None:
            try:
                answer.append((work(api), None))
            except Exception as error:
                answer.append((None, error))
            arrived.set()

        self.machine.scheduler.spawn(f"{api.process.name}.request", api.process, handle)
        if not arrived.wait(ANSWER_S):
            raise Lost
        result, error = answer[0]
        if error is not None:
            raise error
        return result

    def persist(self, api: int, work: Callable[[Api], Any]) -> Any:
        """The same, sent again until there is an answer."""
        for attempt in range(50):
            try:
                return self.ask(api + attempt, work)
            except (Lost, Unavailable):
                self.machine.scheduler.sleep(0.5 + attempt)
        raise Broken("no answer after 50 tries")

    def _call(self, number: int) -> None:
        """One caller, from its first step to its last."""

        def take_steps() -> None:
            for step in self.plan.steps:
                if step.caller != number or self.is_over:
                    continue
                work = partial(getattr(self, f"_{step.what}"), step)
                if step.at_once:
                    # No pause, however short: that ends only when no thread has anything to do.
                    self.busy_callers += 1
                    scheduler.spawn(f"caller {number} at once", self.outside, partial(self._ask, work))
                else:
                    scheduler.sleep(step.pause_s)
                    work()

        scheduler = self.machine.scheduler
        self._ask(take_steps)

    def _ask(self, work: Callable[[], None]) -> None:
        """What a caller does; an error that it should not get ends the world."""
        try:
            work()
        except Broken as error:
            self.broken = self.broken or str(error)
            self.is_over = True
        except TenutoError as error:
            self.broken = self.broken or f"a caller gets {error!r}"
            self.is_over = True
        finally:
            self.busy_callers -= 1

    def _submit(self, step: Step) -> None:
        caller = self.callers[step.caller]
        key = (step.caller, step.job)
        text = f"{'metered' if step.model == METERED else 'plain'} {step.text}"
        body = {"model": step.model, "parameters": {"text": text, "stream": step.stream}}
        request = request_of(caller, f"key {step.job}", body)
        try:
            accepted = self.persist(step.api, lambda api: submit(api.context, request))
        except InsufficientBalance:
            if key in self.accepted:
                raise Broken(f"{key} was accepted, and is refused now") from None
            return
        except IdempotencyConflict:
            if not step.text.endswith("x") and key not in self.accepted:
                return
            if not step.text.endswith("x"):
                raise Broken(f"{key}: the same body is refused as another one") from None
            return
        if step.text.endswith("x") and key in self.accepted:
            raise Broken(f"{key}: another body under the same key was accepted")
        if self.accepted.setdefault(key, accepted.job_id) != accepted.job_id:
            raise Broken(f"{key} has two jobs: {self.accepted[key]} and {accepted.job_id}")

    def _cancel(self, step: Step) -> None:
        job_id = self.accepted.get((step.caller, step.job))
        if job_id is None:
            return
        caller = any_key(self.callers[step.caller].account_id)

        def cancel(api: Api) -> bool:
            now_ms, context = self.machine.clock(), api.context
            wanted = context.database.write(
                lambda tx: finish.cancel(tx, context.ids, caller, job_id=job_id, now_ms=now_ms)
            )
            if wanted:
                context.database.wake("cancel")
            return wanted

        self.persist(step.api, cancel)

    def _wait(self, step: Step) -> None:
        """Poll until the job ends, then download its result."""
        job_id = self.accepted.get((step.caller, step.job))
        if job_id is None:
            return
        account_id = self.callers[step.caller].account_id
        for _ in range(600):
            operation = self.persist(
                step.api,
                lambda api: api.context.database.read(
                    lambda tx: read.get(tx, account_id=account_id, job_id=job_id)
                ),
            )
            if operation.is_final():
                break
            self.machine.scheduler.sleep(1.0)
        if operation.state == "succeeded":
            self._download(step, account_id, operation)

    def _download(self, step: Step, account_id: str, operation: read.Job) -> None:
        if not operation.artifacts:
            raise Broken(f"{operation.id} has succeeded without a result")
        artifact = operation.artifacts[0]

        def download(api: Api) -> bytes:
            opened = api.context.database.read(
                lambda tx: artifacts.open_artifact(tx, account_id=account_id, artifact_id=artifact.id)
            )
            return api.context.blobs.read_all(opened.blob)

        with suppress(Erased):
            content = self.persist(step.api, download)
            if (hashlib.sha256(content).hexdigest(), len(content)) != (artifact.sha256, artifact.size_bytes):
                raise Broken(f"the result of {operation.id} is not what was promised")

    def _erase(self, step: Step) -> None:
        job_id = self.accepted.get((step.caller, step.job))
        if job_id is None:
            return
        caller = any_key(self.callers[step.caller].account_id)

        def erase(api: Api) -> None:
            now_ms, context = self.machine.clock(), api.context
            blobs = context.database.write(
                lambda tx: erasure.erase_content(tx, caller, job_id=job_id, now_ms=now_ms)
            )
            remove(context.database, context.blobs, blobs)

        with suppress(InvalidRequest):
            self.persist(step.api, erase)

    # --- the operator ------------------------------------------------------------------------------------

    def _operate(self) -> None:
        """Decides about jobs that wait for that, and sees when all have ended."""
        random = self.machine.random
        try:
            while not self.is_over:
                self.machine.scheduler.sleep(1.0)
                try:
                    waiting = self.database.read(recover.waiting)
                except Unavailable:
                    continue
                for job in waiting:
                    self._decide(job.id, random.choice(("requeue", "void", "complete")))
                self.is_over = not self.busy_callers and not waiting and self._all_ended()
        except Broken as error:
            self.broken = self.broken or str(error)
            self.is_over = True

    # --- who follows all events --------------------------------------------------------------------------

    def _follow(self) -> None:
        """Reads every event once, in the order in which they are shown; woken by each commit."""
        assert self.news is not None
        while not self.is_over:
            with suppress(Unavailable):
                self._note_events(self.database.read(partial(feed_store.after, mark=self.mark, limit=100)))
            self.news.wait(1.0)
            self.news.clear()

    def _note_events(self, events: list[feed_store.EventInOrder]) -> None:
        for event in events:
            self.followed.add((event.job_id, event.sequence))
            self.mark = event.mark

    def _check_followed(self) -> None:
        """Once all transactions have ended, the follower has seen every event."""
        self.ground.end_transactions()
        while events := feed_store.after(self.ground.tx(), self.mark, 100):
            self._note_events(events)
        rows = self.ground.connection.execute("select job_id, sequence from event").fetchall()
        if missed := {tuple(row) for row in rows} - self.followed:
            raise Broken(f"a follower of all events has missed {sorted(missed)}")

    def _all_ended(self) -> bool:
        return (
            self.ground.connection.execute(
                "select 1 from job where state not in ('succeeded', 'failed', 'cancelled') limit 1"
            ).fetchone()
            is None
        )

    def _decide(self, job_id: str, how: str) -> None:
        ids, now_ms = self._ids(f"operator {self.machine.scheduler.steps}"), self.machine.clock()
        by = Decision("an operator", entry_id=ids.new("entry"))

        def decide(tx: Transaction) -> None:
            if how == "requeue":
                recover.requeue(tx, ids, job_id, by=by, now_ms=now_ms)
            elif how == "void":
                recover.void(tx, ids, job_id, cancel=False, by=by, now_ms=now_ms)
            else:
                recover.complete(tx, ids, job_id, None, by=by, now_ms=now_ms)

        for _ in range(10):
            try:
                self.database.write(decide)
            except OperatorError:
                return
            except Unavailable:
                self.machine.scheduler.sleep(0.5)
                continue
            self.machine.note(f"the operator decides: {how}")
            if how == "requeue":
                text = self._text(job_id)
                self.requeued[text] = self.requeued.get(text, 0) + 1
            return

    def _text(self, job_id: str) -> str:
        import json

        row = self.ground.connection.execute("select parameters from job where id = ?", (job_id,)).fetchone()
        return str(json.loads(row[0])["text"])


def _free(lock: Any) -> None:
    import os

    with suppress(OSError):
        os.close(lock._descriptor)


__all__ = ["Fault", "Ground", "Killed", "Outcome", "Plan", "Step", "plan_of", "run"]
