"""Accepting a job over HTTP, beside the disk's fsync and the database's own commits."""

import statistics
import time

from bench.client import Connection, flood, for_seconds
from bench.references import Fsync, PostgresCommit, Reference, SqliteCommit, steps_per_s, time_step
from bench.report import Row, above, below, p50_ms
from bench.stage import Stage, clients, stage, submissions
from servers.postgres import PostgresServer

PAIRS = 300
ROUNDS = 5
ROUND_S = 1.5
CLIENTS = 32
BEHIND = "jobs wait behind a busy slot"


def measure(postgres: PostgresServer | None) -> list[Row]:
    """One client in turns with the reference, then 32 clients in turns with single commits."""
    with stage(postgres) as running:
        # The only slot is occupied, so that accepting is measured, not running.
        running.wait(running.submit("[fake:sleep=3600] Busy."), "running")
        commits: Reference
        if postgres is None:
            commits = SqliteCommit(running.folder)
            rows = [_one_client(running, Fsync(running.folder), "the disk's fsync of 4 KiB", 1.5)]
        else:
            commits = PostgresCommit(postgres)
            rows = [_one_client(running, commits, "a single-row commit of this server", 2.0)]
        rows.append(_many_clients(running, commits))
        return rows


def _one_client(running: Stage, reference: Reference, what: str, more_ms: float) -> Row:
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
    p50 = p50_ms(reference_s)
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


def _many_clients(running: Stage, commits: Reference) -> Row:
    scripts = clients(running.keys, CLIENTS)
    singles, accepted = [], []
    replayed = 0
    for _ in range(ROUNDS):
        singles.append(steps_per_s(commits, ROUND_S / 2))
        tally = flood(running.port, scripts, for_seconds(ROUND_S))
        assert not tally.other, tally.other
        accepted.append(tally.new / tally.seconds)
        replayed += tally.replayed
    single = statistics.median(singles)
    return above(
        f"{running.name}: accept, {CLIENTS} clients",
        statistics.median(accepted),
        2 * single,
        "jobs/s",
        f"2 × {single:.0f} single-row commits/s of the same database, between the rounds; {replayed} replays "
        f"answered besides and not counted; {BEHIND}",
    )
