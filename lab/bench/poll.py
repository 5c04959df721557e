"""What a poll costs the API process, beside a raw ASGI app that returns the same bytes."""

import itertools
import statistics

from lab.bench.client import flood, get
from lab.bench.references import cpu_s, raw_app
from lab.bench.report import Row, below
from lab.bench.stage import TEXT, Stage, stage

from servers.postgres import PostgresServer

ROUNDS = 7
REQUESTS = 2000
WARM_UP = 500
LIMITS = {"SQLite": 2.5, "PostgreSQL": 5.0}


def measure(postgres: PostgresServer | None) -> list[Row]:
    """Rounds of polls by eight clients, of the service and of the raw app in turns."""
    with stage(postgres) as running:
        jobs = [running.submit(TEXT, key=key) for key in running.keys]
        for job in jobs:
            running.wait(job, "succeeded")
        shown = running.shown(jobs[0], running.keys[0])
        assert b'"artifacts":[{' in shown, shown
        polls = [get(f"/v1/jobs/{job}", key) for job, key in zip(jobs, running.keys, strict=True)]
        with raw_app(shown, running.folder) as (raw_port, raw_pid):
            return _rows(running, polls, raw_port, raw_pid)


def _rows(running: Stage, polls: list[bytes], raw_port: int, raw_pid: int) -> list[Row]:
    scripts = [itertools.repeat(poll) for poll in polls]

    def cost_us(port: int, pid: int, requests: int) -> tuple[float, float]:
        """Microseconds of processor time a request, and requests a second."""
        before = cpu_s(pid)
        tally = flood(port, scripts, lambda answers: answers <= requests - len(scripts))
        assert not tally.other, tally.other
        return (cpu_s(pid) - before) / tally.answers * 1e6, tally.answers / tally.seconds

    api = running.api()
    for port, pid in ((raw_port, raw_pid), (running.port, api.pid)):
        cost_us(port, pid, WARM_UP)
    raws, ours = [], []
    for _ in range(ROUNDS):
        raws.append(cost_us(raw_port, raw_pid, REQUESTS))
        ours.append(cost_us(running.port, api.pid, REQUESTS))
    ratios = [our[0] / raw[0] for our, raw in zip(ours, raws, strict=True)]
    raw_us, our_us = (statistics.median([one[0] for one in several]) for several in (raws, ours))
    limit = LIMITS[running.name]
    row = below(
        f"{running.name}: poll of a succeeded job, processor time of the API process",
        statistics.median(ratios),
        limit,
        "× raw",
        f"{limit:g} × a raw ASGI app (uvicorn, uvloop, httptools) that returns the same bytes: "
        f"{our_us:.0f} µs beside {raw_us:.0f} µs a request, 8 clients, rounds in turns",
    )
    raw_rate, our_rate = (statistics.median([one[1] for one in several]) for several in (raws, ours))
    client = Row(
        f"{running.name}: polls by the load client",
        f"{our_rate:.0f} requests/s",
        reason=f"the same client gets {raw_rate:.0f}/s from the raw app: so much it could ask for",
    )
    return [row, client]
