"""Accepting a job over HTTP, beside the disk's fsync and the database's own commits, and what it costs."""

import statistics
import time

from lab.bench.client import Connection, flood, for_seconds
from lab.bench.references import Fsync, PostgresCommit, Reference, SqliteCommit, cpu_s, steps_per_s, time_step
from lab.bench.report import Row, above, below, p50_ms
from lab.bench.stage import Stage, clients, stage, submissions

from servers.postgres import PostgresServer

PAIRS = 300
ROUNDS = 5
ROUND_S = 1.5
CLIENTS = 32
BEHIND = "jobs wait behind a busy slot"
MORE_MS = {"SQLite": 1.0, "PostgreSQL": 2.0}
"""How much longer than the reference an acceptance may take with one client."""
RATE = {"SQLite": 1800, "PostgreSQL": 1100}
API_MS = {"SQLite": 0.35, "PostgreSQL": 0.7}
"""Processor time of the API process for each job that it accepts."""
OTHERS_MS = 0.03
"""The same of the worker and its hosts, which have no free slot."""


def measure(postgres: PostgresServer | None) -> list[Row]:
    """One client in turns with the reference, then 32 clients in turns with single commits."""
    with stage(postgres) as running:
        # The only slot is occupied, so that accepting is measured, not running.
        running.wait(running.submit("[fake:sleep=3600] Busy."), "running")
        commits: Reference
        if postgres is None:
            commits = SqliteCommit(running.folder)
            rows = [_one_client(running, Fsync(running.folder), "the disk's fsync of 4 KiB")]
        else:
            commits = PostgresCommit(postgres)
            rows = [_one_client(running, commits, "a single-row commit of this server")]
        return [*rows, *_many_clients(running, commits)]


def _one_client(running: Stage, reference: Reference, what: str) -> Row:
    connections = [Connection(running.port) for _ in running.keys]
    scripts = [submissions(key) for key in running.keys]
    took_s, reference_s = [], []
    for number in range(PAIRS):
        nth = number % len(connections)
        request = next(scripts[nth])
        began = time_step(reference)
        answered = _time_ask(connections[nth], request)
        if answered is not None:
            reference_s.append(began)
            took_s.append(answered)
    for connection in connections:
        connection.close()
    p50, more_ms = p50_ms(reference_s), MORE_MS[running.name]
    return below(
        f"{running.name}: accept, 1 client, p50 of {len(took_s)}",
        p50_ms(took_s),
        p50 + more_ms,
        "ms",
        f"{what}, p50 {p50:.2f} ms between the requests, + {more_ms} ms; {BEHIND}",
    )


def _time_ask(connection: Connection, request: bytes) -> float | None:
    """Seconds until a job was accepted; None for a replay."""
    began = time.perf_counter()
    answer = connection.ask(request)
    took_s = time.perf_counter() - began
    assert answer.status == 202, answer
    return None if answer.is_replay else took_s


def _many_clients(running: Stage, commits: Reference) -> list[Row]:
    scripts = clients(running.keys, CLIENTS)
    api, *others = [process.pid for process in running.processes()]
    singles, rates, api_ms, others_ms = [], [], [], []
    replayed = 0
    for _ in range(ROUNDS):
        singles.append(steps_per_s(commits, ROUND_S / 2))
        before = cpu_s(api), sum(map(cpu_s, others))
        tally = flood(running.port, scripts, for_seconds(ROUND_S))
        after = cpu_s(api), sum(map(cpu_s, others))
        assert not tally.other, tally.other
        rates.append(tally.new / tally.seconds)
        api_ms.append((after[0] - before[0]) * 1000 / tally.new)
        others_ms.append((after[1] - before[1]) * 1000 / tally.new)
        replayed += tally.replayed
    accept = f"{running.name}: accept, {CLIENTS} clients"
    how = f"fixed; median of {ROUNDS} rounds; {replayed} replays answered besides and not counted"
    return [
        above(
            accept,
            _median(rates),
            RATE[running.name],
            "jobs/s",
            f"{how}; {_median(singles):.0f} single-row commits/s of the same database, between the rounds; "
            f"{BEHIND}",
        ),
        below(
            f"{accept}, processor time of the API process",
            _median(api_ms),
            API_MS[running.name],
            "ms a job",
            how,
        ),
        below(
            f"{accept}, of the worker and its hosts",
            _median(others_ms),
            OTHERS_MS,
            "ms a job",
            BEHIND,
            digits=3,
        ),
    ]


def _median(values: list[float]) -> float:
    return statistics.median(values)
