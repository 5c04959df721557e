"""What an idle service takes: memory, time to start, CPU time."""

import statistics
import time
from contextlib import ExitStack

from lab.bench.client import Connection, flood, for_seconds, get
from lab.bench.references import cpu_s
from lab.bench.report import Row, below
from lab.bench.stage import TEXT, Stage, clients, stage

from servers.postgres import PostgresServer

STARTS = 5
IDLE_S = 20.0
SETTLE_S = 2.0
LOAD_S = 2.0
CLIENTS = 32
MIB = 1024 * 1024


def measure(postgres: PostgresServer | None) -> list[Row]:
    """Starts on empty folders; then one service on each database, loaded, then left alone together."""
    rows = [_ready(None)]
    with ExitStack() as stack:
        both = [stack.enter_context(stage(server)) for server in (None, postgres)]
        for running in both:
            running.wait(running.submit(TEXT), "succeeded")
        idle = _idle(both)
        for running, one in zip(both, idle, strict=True):
            rows += [one, _memory(running)]
    return rows


def _ready(postgres: PostgresServer | None) -> Row:
    took_s = []
    for _ in range(STARTS):
        with stage(postgres) as running:
            took_s.append(running.ready_s)
    return below(
        "`tenuto serve` on an empty folder, until /readyz answers 200 (a worker has registered)",
        statistics.median(took_s),
        0.4,
        "s",
        f"fixed; median of {STARTS} starts",
    )


def _idle(stages: list[Stage]) -> list[Row]:
    """All processes of each service over the same stretch of time."""
    time.sleep(SETTLE_S)
    before = [_spent_s(running) for running in stages]
    time.sleep(IDLE_S)
    rows = []
    for running, spent_s in zip(stages, before, strict=True):
        share = (_spent_s(running) - spent_s) / IDLE_S * 100
        number = len(running.processes())
        how = f"fixed; {number} processes (API, worker, a loaded host) over {IDLE_S:.0f} s"
        rows.append(below(f"{running.name}: the idle service, of one core", share, 0.5, "%", how))
    return rows


def _spent_s(running: Stage) -> float:
    return sum(cpu_s(process.pid) for process in running.processes())


def _memory(running: Stage) -> Row:
    connection = Connection(running.port)
    fresh = running.api().memory_info().rss / MIB
    connection.ask(get("/v1/models", running.keys[0]))
    connection.close()
    flood(running.port, clients(running.keys, CLIENTS), for_seconds(LOAD_S))
    return below(
        f"{running.name}: memory of the API process after {CLIENTS} clients",
        running.api().memory_info().rss / MIB,
        80,
        "MiB",
        f"fixed; resident, {fresh:.0f} MiB before them",
        digits=0,
    )
