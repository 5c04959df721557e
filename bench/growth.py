"""The same figures with a million finished and twenty thousand queued jobs in the database, and with few; and
how long an operator's commands take there, and how much memory.

Two services on two databases of one server, asked in turns, so that what else the machine does meets both.
The queue is of a model whose workers are away, and stands in the lane of the jobs that are measured.
`BENCH_FINISHED` and `BENCH_WAITING` are for those who have less than a quarter of an hour, or hours.
"""

import itertools
import os
import random
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bench import slots, start
from bench.client import Connection, flood, for_seconds, get
from bench.report import Row, above, below, p50_ms
from bench.stage import PRICES, TEXT, Stage, clients, stage, submissions
from cluster import grown
from servers.forking import TENUTO
from servers.plans import plans_of
from servers.postgres import PostgresServer
from servers.world import OPEN, World, request_of
from tenuto.accounts import operations as accounts
from tenuto.accounts.restrictions import Caller
from tenuto.catalog import rules
from tenuto.catalog.rules import Model
from tenuto.config import load
from tenuto.db.database import Transaction
from tenuto.ids import Ids
from tenuto.jobs import lifecycle, queue, read
from tenuto.jobs.audit import runs
from tenuto.jobs.submit import submit

FINISHED = int(os.environ.get("BENCH_FINISHED", "1000000"))
WAITING = int(os.environ.get("BENCH_WAITING", "20000"))
FEW = 1_000
"""How many finished jobs the other database has, because there must be something to poll."""
MORE = 1.10
PAIRS, PROBES, ROUNDS, ROUND_S = 300, 60, 5, 1.5
CLIENTS, SLOTS = 32, 8
LONGER = 16
"""By how many characters each copied text is longer than the one before."""
COMMANDS = {"doctor": 60, "audit": 1_800}
"""The commands, and how many seconds each may take."""
MOST_MIB = 256
AWAY = "fake/metered-speech"
CLOSED = f'[models."fake/speech"]\nprice = "0.001"\n[models."{AWAY}"]\nenabled = false\n'


def measure(postgres: PostgresServer | None) -> list[Row]:
    """On PostgreSQL alone."""
    if postgres is None:
        return []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenuto-bench-")))
        for name, text in (("open", PRICES), ("closed", CLOSED)):
            (folder / f"{name}.toml").write_text(text)
        variables = {"TENUTO_CONFIG": str(folder / "closed.toml"), "TENUTO_SPEECH_SLOTS": str(SLOTS)}
        few, many = (stack.enter_context(stage(postgres, **variables)) for _ in range(2))
        models = rules.models(load({"TENUTO_ENGINES": "fake", "TENUTO_CONFIG": str(folder / "open.toml")}))
        began = time.monotonic()
        for running, finished, waiting in ((few, FEW, 0), (many, FINISHED, WAITING)):
            _grow(running, models, folder, finished, waiting)
        grew_s = time.monotonic() - began
        return list(
            _rows(
                Pair(few, many), f"{FINISHED:,} finished and {WAITING:,} queued jobs, made in {grew_s:.0f} s"
            )
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """The two services."""

    few: Stage
    many: Stage

    def each(self) -> tuple[Stage, Stage]:
        return self.few, self.many


def _grow(running: Stage, models: dict[str, Model], folder: Path, finished: int, waiting: int) -> None:
    """Copies of a finished job of every account, and of one that waits; no audit is due for an hour.

    They differ in length, as jobs do. Copies of one length leave the same gap in each page of the table, and
    a new row, shorter while it waits, then goes into a page of its own each time. A table that has lived is
    not so: of 200,000 rows inserted, lengthened twice and vacuumed at each fifth of dead ones, the last
    20,000 went into 270 to 610 pages for each 2,000 of them, whatever fill factor the table had.
    """
    texts = [(TEXT * 3)[: 1 + LONGER * nth].strip() for nth in range(len(running.keys))]
    made = [running.submit(text, key=key) for text, key in zip(texts, running.keys, strict=True)]
    for job_id in made:
        running.wait(job_id, "succeeded")
    url = running.service.database_url
    assert url is not None, "growth is for PostgreSQL"
    grown.copy(url, made, finished)
    if waiting:
        queued = _waiting(running, models, folder)
        grown.copy(url, queued, waiting, first=10**9)
    now_ms = time.time_ns() // 1_000_000
    running.database.write(lambda tx: runs.begin(tx, "bench", now_ms=now_ms))


def _waiting(running: Stage, models: dict[str, Model], folder: Path) -> list[str]:
    """A job of each key's account, accepted while a worker offered its model, which has gone since."""
    database, now_ms = running.database, time.time_ns() // 1_000_000
    world = World(database, folder, now_ms)
    world.register(OPEN, frozenset({AWAY}))
    made = []
    for key in running.keys:
        caller = database.read(lambda tx, key=key: accounts.authenticate(tx, key, now_ms=now_ms))  # type: ignore[misc]
        request = request_of(caller, str(uuid.uuid4()), {"model": AWAY, "parameters": {"text": TEXT}})
        made.append(submit(replace(world.submitting, models=models), request).job_id)
    world.forget(OPEN)
    return made


def _rows(pair: Pair, much: str) -> Iterator[Row]:
    how = f"{MORE} × the same with {FEW:,} finished jobs, in turns; {much}"
    yield _quicker("202 → running, idle, p50", *_starts(pair), how)
    busy = [slots.busy_percent(running, SLOTS)[0] for running in pair.each()]
    what = f"growth: {SLOTS} slots with jobs of {slots.JOB_S} s, engines busy"
    yield above(what, busy[1], busy[0] / MORE, "%", how, digits=1)
    polls = [_polls(running) for running in pair.each()]
    yield _quicker(
        f"poll of a finished job that was not asked for before, p50 of {PAIRS}", *_in_turns(pair, polls), how
    )
    lists = [itertools.repeat(get("/v1/jobs?limit=20", running.keys[0])) for running in pair.each()]
    yield _quicker("list of 20 jobs, p50", *_in_turns(pair, lists), how)
    yield from _plans(pair.many)
    for running in pair.each():
        for _ in range(SLOTS):
            running.submit("[fake:sleep=3600] Busy.")
    accepts = [submissions(running.keys[1], replays=0) for running in pair.each()]
    yield _quicker(f"accept, 1 client, p50 of {PAIRS}", *_in_turns(pair, accepts), how)
    yield from _commands(pair.many, much)
    few, many = _floods(pair)
    yield above(f"growth: accept, {CLIENTS} clients", many, few / MORE, "jobs/s", how)


def _quicker(what: str, few_s: list[float], many_s: list[float], how: str) -> Row:
    return below(f"growth: {what}", p50_ms(many_s), MORE * p50_ms(few_s), "ms", how)


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
        f"""select id from job where account_id = ({mine}) and state = 'succeeded' order by id limit {FEW}""",
        id=ours,
    )
    ids = [row["id"] for row in rows]
    random.shuffle(ids)
    return (get(f"/v1/jobs/{job_id}", running.keys[0]) for job_id in itertools.cycle(ids))


def _in_turns(pair: Pair, scripts: list[Iterator[bytes]]) -> tuple[list[float], list[float]]:
    """One client of each service, a request here and a request there."""
    took: tuple[list[float], list[float]] = ([], [])
    connections = [Connection(running.port, running.host) for running in pair.each()]
    for _ in range(PAIRS):
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


def _commands(running: Stage, much: str) -> Iterator[Row]:
    """What an operator runs over all records, beside the service. Copied jobs have no bytes: a backup would
    only count them as missing.
    """
    for command, most_s in COMMANDS.items():
        began, peak_mib = time.monotonic(), 0.0
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [TENUTO, "admin", command],
                env=running.service.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            while process.poll() is None:
                with suppress(OSError, IndexError):
                    peak_mib = max(peak_mib, _peak_mib(process.pid))
                time.sleep(0.05)
            took_s = time.monotonic() - began
            output.seek(0)
            answer = output.read().decode()
        assert process.returncode == 0, answer
        yield below(f"growth: tenuto admin {command}", took_s, most_s, "s", f"fixed; {much}")
        what = f"growth: tenuto admin {command}, its memory"
        yield below(what, peak_mib, MOST_MIB, "MiB", f"fixed; {much}")


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _plans(running: Stage) -> Iterator[Row]:
    """PostgreSQL's own plans of the hot statements."""
    now_ms = time.time_ns() // 1_000_000
    offered = frozenset({"fake/speech"})
    account_id, job_id = running.query("select account_id, id from job order by id limit 1")[0].values()
    ids = Ids(lambda: now_ms)

    def claim(tx: Transaction) -> None:
        # A job that somebody has just submitted is the worker's; this one is given back at once.
        claimed = queue.claim(
            tx, ids, worker_id="bench", lane="speech", slots=SLOTS, models=frozenset({AWAY}), now_ms=now_ms
        )
        assert claimed is not None
        lifecycle.release(tx, ids, claimed.attempt_id, now_ms=now_ms, reason="to see how it is done")

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
