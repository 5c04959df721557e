"""The same figures with a million finished and twenty thousand queued jobs in the database, and with few; and
how long an operator's commands and the retention take there, and how much memory.

Two services on two databases, asked in turns, so that what else the machine does meets both. The contents of
most finished jobs are erased, as the retention leaves them; the newest `BENCH_KEPT` have theirs, with bytes.
The queue is of a model whose workers are away, and stands in the lane of the jobs that are measured.
`BENCH_FINISHED`, `BENCH_WAITING` and `BENCH_KEPT` are for those who have less than half an hour, or hours.
"""

import itertools
import multiprocessing
import os
import random
import statistics
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.bench import slots, start
from lab.bench.client import Connection, flood, for_seconds, get
from lab.bench.report import Row, above, below, p50_ms, quantile
from lab.bench.stage import PRICES, TEXT, Stage, clients, stage, submissions
from msgspec.structs import replace

from cluster import grown
from servers.forking import TENUTO
from servers.plans import plans_of
from servers.postgres import PostgresServer
from servers.world import OPEN, World, request_of
from tenuto.account import operations as accounts
from tenuto.account.caller import Caller
from tenuto.config import Settings, load
from tenuto.db.database import Transaction
from tenuto.db.database_opening import open_database
from tenuto.features.audit import runs
from tenuto.file.directory import DirectoryBlobs
from tenuto.ids import Ids
from tenuto.job import erasure, finish, queue, read
from tenuto.job.fate import Cause
from tenuto.job.submit import submit
from tenuto.kind import model as catalog
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import Pace
from tenuto.worker.retention import retain

FINISHED = int(os.environ.get("BENCH_FINISHED", "1000000"))
WAITING = int(os.environ.get("BENCH_WAITING", "20000"))
KEPT = int(os.environ.get("BENCH_KEPT", "100000"))
"""How many finished jobs have their contents, and are due for the retention once it is switched on."""
KEPT_FROM, WAITING_FROM = 5 * 10**8, 10**9
"""The numbers of the first copies: the erased ones are from 1 on."""
FEW = 1_000
"""How many finished jobs the other database has, because there must be something to poll."""
MORE = 1.10
PAIRS, PROBES, ROUNDS, ROUND_S = 300, 60, 5, 1.5
CLIENTS, SLOTS = 32, 8
LONGER = 16
"""By how many characters each copied text is longer than the one before."""
COMMANDS = {"doctor": (), "audit": (), "backup": ("{folder}/backup",)}
"""The operator's commands, with their arguments."""
MINUTES_PER_MILLION = 3
LEAST_MINUTES = 1
"""A command may take so many minutes for each million of jobs."""
MOST_MIB = 256
RETENTION_DAYS = 30
DAY_MS = 86_400_000
AGE_MS = (RETENTION_DAYS + 10) * DAY_MS
PER_MINUTE = 10_000
"""Jobs that the retention has to get through in a minute."""
REST_S = 0.1
LOOKS = {
    "list of 20 failed jobs (there are none)": "limit=20&state=failed",
    "list of 20 jobs of one model and state": "limit=20&model=fake/speech&state=succeeded",
    "search for a word of none": "q=nowhere",
}
LOOKED, LOOK_MS = 20, 200
AWAY = "fake/metered-speech"
CLOSED = f'[models."fake/speech"]\nprice = "0.001"\n[models."{AWAY}"]\nenabled = false\n'


def measure(postgres: PostgresServer | None) -> list[Row]:
    """The same on either database."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenuto-bench-")))
        few, many = (stack.enter_context(stage(postgres, **closed(folder))) for _ in range(2))
        began = time.monotonic()
        grow(few, folder, finished=0, kept=FEW, waiting=0)
        grow(many, folder, finished=FINISHED - KEPT, kept=KEPT, waiting=WAITING)
        much = f"{FINISHED:,} finished and {WAITING:,} queued jobs"
        grew_s = time.monotonic() - began
        return [
            *hot_paths(Pair(few, many), f"{much}, made in {grew_s:.0f} s"),
            *commands(many, folder, FINISHED + WAITING, much),
            *retention(many, KEPT, much),
        ]


@dataclass(frozen=True, slots=True)
class Pair:
    """The two services."""

    few: Stage
    many: Stage

    def each(self) -> tuple[Stage, Stage]:
        return self.few, self.many


def closed(folder: Path) -> dict[str, str]:
    """The settings of services that do not offer the model of the queue."""
    (folder / "open.toml").write_text(PRICES)
    (folder / "closed.toml").write_text(CLOSED)
    return {
        "TENUTO_CONFIG": str(folder / "closed.toml"),
        "TENUTO_SPEECH_SLOTS": str(SLOTS),
        "TENUTO_QUEUED_JOBS": str(2 * max(WAITING, 20_000)),
    }


def grow(running: Stage, folder: Path, *, finished: int, kept: int, waiting: int) -> None:
    """Copies of finished jobs of every account, erased and kept, and of some that wait; no audit is due for
    an hour.

    They differ in length, as jobs do. Copies of one length leave the same gap in each page of the table, and
    a new row, shorter while it waits, then goes into a page of its own each time. A table that has lived is
    not so: of 200,000 rows inserted, lengthened twice and vacuumed at each fifth of dead ones, the last
    20,000 went into 270 to 610 pages for each 2,000 of them, whatever fill factor the table had.
    """
    url, now_ms = running.service.database_url, _now_ms()
    assert url is not None, "a stage says where its database is"
    if finished:
        erased = _finished(running)
        for job_id, key in zip(erased, running.keys, strict=True):
            _erase(running, job_id, key, now_ms)
        grown.copy(url, erased, finished)
    made = _finished(running)
    for job_id in made:
        _age(running, job_id)
    grown.copy(url, made, kept, first=KEPT_FROM)
    _store(running, made, range(KEPT_FROM, KEPT_FROM + kept))
    if waiting:
        grown.copy(url, _waiting(running, folder), waiting, first=WAITING_FROM)
    now_ms = _now_ms()
    running.database.write(lambda tx: runs.begin(tx, "bench", now_ms=now_ms))


def _finished(running: Stage) -> list[str]:
    """A job of each account, which has succeeded."""
    texts = [(TEXT * 3)[: 1 + LONGER * nth].strip() for nth in range(len(running.keys))]
    made = [running.submit(text, key=key) for text, key in zip(texts, running.keys, strict=True)]
    for job_id in made:
        running.wait(job_id, "succeeded")
    return made


def _erase(running: Stage, job_id: str, key: str, now_ms: int) -> None:
    """The contents of a job, as its owner would."""
    caller = running.database.read(lambda tx: accounts.authenticate(tx, key, now_ms=now_ms))
    running.database.write(lambda tx: erasure.erase_content(tx, caller, job_id=job_id, now_ms=now_ms))


def _age(running: Stage, job_id: str) -> None:
    """A job that ended long enough ago for the retention."""
    running.database.write(
        lambda tx: tx.run(
            "update job set finished_at = finished_at - :age_ms where id = :id", age_ms=AGE_MS, id=job_id
        )
    )


def _store(running: Stage, made: list[str], numbers: range) -> None:
    """The bytes of copies: one more name for those of the job that they are copies of."""
    blobs = running.folder / "data" / "blobs"
    of_job = "select blob_id from artifact where job_id = :id"
    models = [running.query(of_job, id=job_id)[0]["blob_id"] for job_id in made]
    for number in numbers:
        blob_id = models[number % len(models)]
        copied = grown.copy_of(blob_id, number)
        os.link(blobs / blob_id[-2:] / blob_id, blobs / copied[-2:] / copied)


def _waiting(running: Stage, folder: Path) -> list[str]:
    """A job of each key's account, accepted while a worker offered its model, which has gone since."""
    models = catalog.models(load({"TENUTO_ENGINES": "fake", "TENUTO_CONFIG": str(folder / "open.toml")}))
    database, now_ms = running.database, _now_ms()
    world = World(database, folder, now_ms)
    world.register(OPEN, frozenset({AWAY}))
    made = []
    for key in running.keys:
        caller = database.read(lambda tx, key=key: accounts.authenticate(tx, key, now_ms=now_ms))  # type: ignore[misc]
        request = request_of(caller, str(uuid.uuid4()), {"model": AWAY, "parameters": {"text": TEXT}})
        made.append(submit(replace(world.submitting, models=models), request).job_id)
    world.forget(OPEN)
    return made


def hot_paths(pair: Pair, much: str) -> Iterator[Row]:
    """What callers wait for, in turns."""
    how = f"{MORE} × the same with {FEW:,} finished jobs, in turns; {much}"
    on = pair.many.name
    yield _quicker(on, "202 → running, idle, p50", *_starts(pair), how)
    busy = [slots.busy_percent(running, SLOTS)[0] for running in pair.each()]
    what = f"growth, {on}: {SLOTS} slots with jobs of {slots.JOB_S} s, engines busy"
    yield above(what, busy[1], busy[0] / MORE, "%", how, digits=1)
    polls = [_polls(running) for running in pair.each()]
    yield _quicker(
        on,
        f"poll of a finished job that was not asked for before, p50 of {PAIRS}",
        *_in_turns(pair, polls),
        how,
    )
    lists = [itertools.repeat(get("/v1/jobs?limit=20", running.keys[0])) for running in pair.each()]
    yield _quicker(on, "list of 20 jobs, p50", *_in_turns(pair, lists), how)
    for what, query in LOOKS.items():
        looks = [itertools.repeat(get(f"/v1/jobs?{query}", running.keys[0])) for running in pair.each()]
        few_s, many_s = _in_turns(pair, looks, LOOKED)
        yield below(
            f"growth, {on}: {what}, p50 of {LOOKED}",
            p50_ms(many_s),
            LOOK_MS,
            "ms",
            f"fixed; with few: {p50_ms(few_s):.2f} ms; {much}",
        )
    if on == "PostgreSQL":
        yield from _plans(pair.many)
    for running in pair.each():
        for _ in range(SLOTS):
            running.submit("[fake:sleep=3600] Busy.")
    accepts = [submissions(running.keys[1], replays=0) for running in pair.each()]
    yield _quicker(on, f"accept, 1 client, p50 of {PAIRS}", *_in_turns(pair, accepts), how)
    few, many = _floods(pair)
    yield above(f"growth, {on}: accept, {CLIENTS} clients", many, few / MORE, "jobs/s", how)


def _quicker(on: str, what: str, few_s: list[float], many_s: list[float], how: str) -> Row:
    return below(f"growth, {on}: {what}", p50_ms(many_s), MORE * p50_ms(few_s), "ms", how)


def _starts(pair: Pair) -> tuple[list[float], list[float]]:
    """From the 202 to running, in short rounds."""
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for running, took_s in zip(pair.each(), took, strict=True):
            took_s.extend(start.idle_starts_s(running, PROBES // ROUNDS))
    return took


def _polls(running: Stage) -> Iterator[bytes]:
    """Each of another job of one account: the API remembers the answers of those it was asked for."""
    mine = "select account_id from job where id = :id"
    ours = running.submit(TEXT)
    running.wait(ours, "succeeded")
    rows = running.query(
        f"""select id from job where account_id = ({mine}) and state = 'succeeded' and erased_at is null
            order by id limit {FEW}""",
        id=ours,
    )
    ids = [row["id"] for row in rows]
    random.shuffle(ids)
    return (get(f"/v1/jobs/{job_id}", running.keys[0]) for job_id in itertools.cycle(ids))


def _in_turns(
    pair: Pair, scripts: list[Iterator[bytes]], times: int = PAIRS
) -> tuple[list[float], list[float]]:
    """One client of each service, a request here and a request there."""
    took: tuple[list[float], list[float]] = ([], [])
    connections = [Connection(running.port, running.host) for running in pair.each()]
    for _ in range(times):
        for connection, script, took_s in zip(connections, scripts, took, strict=True):
            request = next(script)
            began = time.perf_counter()
            answer = connection.ask(request)
            took_s.append(time.perf_counter() - began)
            assert answer.status < 300, answer
    for connection in connections:
        connection.close()
    return took


def _floods(pair: Pair) -> tuple[float, float]:
    """Jobs a second of many clients, in rounds."""
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for running, accepted in zip(pair.each(), rates, strict=True):
            tally = flood(
                running.port, clients(running.keys, CLIENTS), for_seconds(ROUND_S), hosts=[running.host]
            )
            assert not tally.other, tally.other
            accepted.append(tally.new / tally.seconds)
    return statistics.median(rates[0]), statistics.median(rates[1])


def commands(running: Stage, folder: Path, jobs: int, much: str) -> Iterator[Row]:
    """What an operator runs over all records, beside the service, while one caller submits jobs."""
    most_s = 60 * max(LEAST_MINUTES, MINUTES_PER_MILLION * jobs / 1e6)
    for command, arguments in COMMANDS.items():
        what = f"growth, {running.name}: tenuto admin {command}"
        with tempfile.TemporaryFile() as output, _Caller(running) as caller:
            began = time.monotonic()
            process = subprocess.Popen(
                [TENUTO, "admin", command, *(argument.format(folder=folder) for argument in arguments)],
                env=running.service.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            peak_mib = 0.0
            while process.poll() is None:
                peak_mib = max(peak_mib, _peak_mib(process.pid))
                time.sleep(0.05)
            took_s = time.monotonic() - began
            output.seek(0)
            answer = output.read().decode()
        assert process.returncode == 0, answer
        yield below(what, took_s, most_s, "s", f"fixed; {much}")
        yield below(f"{what}, its memory", peak_mib, MOST_MIB, "MiB", f"fixed; {much}")
        yield caller.row(f"{what}, accept meanwhile")


def retention(running: Stage, due: int, much: str) -> Iterator[Row]:
    """What a worker does once the retention is switched on, in a process of its own: a service would begin
    ten minutes after its start.
    """
    arguments = running.service.database_url, running.folder / "data"
    most_s = 60 * max(LEAST_MINUTES, due / PER_MINUTE)
    process = multiprocessing.get_context("spawn").Process(target=_retain, args=arguments)
    peak_mib = 0.0
    with _Caller(running) as caller:
        began = time.monotonic()
        process.start()
        while process.is_alive():
            peak_mib = max(peak_mib, _peak_mib(process.pid or 0))
            time.sleep(0.05)
        took_s = time.monotonic() - began
    assert process.exitcode == 0
    left = running.query(
        "select id from job where finished_at < :before and erased_at is null limit 1",
        before=_now_ms() - RETENTION_DAYS * DAY_MS,
    )
    assert not left
    what = f"growth, {running.name}: retention of {due:,} jobs"
    yield below(what, took_s, most_s, "s", f"fixed; {much}")
    yield below(f"{what}, its memory", peak_mib, MOST_MIB, "MiB", f"fixed; {much}")
    yield caller.row(f"{what}, accept meanwhile")


def _retain(url: str, data: Path) -> None:
    """One round of a worker's retention."""
    with closing(open_database(url)) as database:
        context = WorkerContext(
            settings=Settings(folder=data, retention_days=RETENTION_DAYS, engines="fake"),
            database=database,
            blobs=DirectoryBlobs(data / "blobs"),
            models={},
            ids=Ids(_now_ms),
            clock=_now_ms,
            worker_id="worker_bench",
            locks=data / "locks",
        )
        retain(context, now_ms=_now_ms(), rest=Pace(threading.Event()).rest)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Caller:
    """One client that submits a job every `REST_S` while something else is going on."""

    def __init__(self, running: Stage) -> None:
        self._running = running
        self._took_s: list[float] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="caller")

    def __enter__(self) -> "_Caller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def row(self, what: str) -> Row:
        return Row(
            f"{what}, p50 and p99",
            f"{p50_ms(self._took_s):.1f} ms, {quantile(self._took_s, 0.99) * 1000:.1f} ms",
            reason=f"no limit; {len(self._took_s)} jobs",
        )

    def _run(self) -> None:
        script = submissions(self._running.keys[2], replays=0)
        connection = Connection(self._running.port, self._running.host)
        while not self._stopping.wait(REST_S):
            request = next(script)
            began = time.perf_counter()
            answer = connection.ask(request)
            self._took_s.append(time.perf_counter() - began)
            assert answer.status == 202, answer
        connection.close()


def _peak_mib(pid: int) -> float:
    """0 once the process has ended."""
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text("ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return 0.0


def _plans(running: Stage) -> Iterator[Row]:
    """PostgreSQL's own plans of the hot statements."""
    now_ms = _now_ms()
    offered = frozenset({"fake/speech"})
    account_id, job_id = running.query("select account_id, id from job order by id limit 1")[0].values()
    ids = Ids(lambda: now_ms)

    def claim(tx: Transaction) -> None:
        # A job that somebody has just submitted is the worker's; this one is given back at once.
        claimed = queue.claim(
            tx, ids, worker_id="bench", lane="speech", slots=SLOTS, models=frozenset({AWAY}), now_ms=now_ms
        )
        assert claimed is not None
        finish.end(tx, ids, claimed.attempt_id, Cause("given_back"), now_ms=now_ms)

    operations: dict[str, Callable[[Transaction], object]] = {
        "a claim": claim,
        "a look for work": lambda tx: queue.has_work(tx, "speech", models=offered, now_ms=now_ms),
        "a poll": lambda tx: read.get(tx, account_id=account_id, job_id=job_id),
        "a list of failed jobs": lambda tx: read.list_jobs(
            tx,
            Caller("", account_id, None, None),
            state="failed",
            kind=None,
            model=None,
            after=None,
            limit=20,
        ),
        "a look for lost attempts": queue.open_attempts,
    }
    for what, operation in operations.items():
        for plan in plans_of(running.database, operation):
            yield Row(f"growth: plan of {what}", f"{plan.pages} pages", reason=plan.line())
