"""Many machines beside one: PostgreSQL and S3 with 1, 2 and 4 APIs and workers, and `tenuto serve` on SQLite.

All on this machine, so that processes share its cores: where these are few, more processes can't be quicker,
and what is seen is what they cost each other. Each is in a network namespace where that is allowed.
"""

import itertools
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.bench import slots, start
from lab.bench.client import flood, for_seconds, get
from lab.bench.report import Row, p50_ms, quantile
from lab.bench.stage import PRICES, TEXT, Stage, clients, make_keys, stage, submissions

from cluster.fleet import Fleet
from servers.postgres import PostgresServer

MACHINES = (1, 2, 4)
REQUESTS, PROBES = 200, 60
ROUND_S, ROUNDS = 2.0, 3
CLIENTS, SLOTS = 32, 8


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one setup."""

    accept_ms: float
    accept_per_s: float
    poll_ms: float
    poll_per_s: float
    start_ms: float
    start_p99_ms: float
    busy_percent: float


def measure(postgres: PostgresServer | None) -> list[Row]:
    """All shapes in one run; of the two calls, one is enough."""
    if postgres is not None:
        return []
    with stage(None, TENUTO_SPEECH_SLOTS=str(SLOTS)) as running:
        shapes = {"one machine (serve, SQLite, folder)": _figures(running, [running.host])}
    for machines in MACHINES:
        with _fleet(machines) as (fleet, running):
            name = f"{machines} API{'s' * (machines > 1)}, {machines} worker{'s' * (machines > 1)}"
            hosts = [api.machine.address for api in fleet.apis]
            shapes[f"{name} (PostgreSQL, S3)"] = _figures(running, hosts)
    return list(_rows(shapes))


def _rows(shapes: dict[str, Figures]) -> Iterator[Row]:
    """One row a figure and shape, those of one figure together."""
    shown = (
        ("accept, 1 client, p50", "accept_ms", "{:.2f} ms"),
        (f"accept, {CLIENTS} clients", "accept_per_s", "{:.0f} jobs/s"),
        ("poll of a succeeded job, 1 client, p50", "poll_ms", "{:.2f} ms"),
        ("polls, 8 clients", "poll_per_s", "{:.0f} requests/s"),
        ("202 → running, idle, p50", "start_ms", "{:.1f} ms"),
        ("202 → running, idle, p99", "start_p99_ms", "{:.1f} ms"),
        (f"{SLOTS} slots with jobs of {slots.JOB_S} s, engines busy", "busy_percent", "{:.1f} %"),
    )
    for what, figure, form in shown:
        for shape, figures in shapes.items():
            yield Row(f"{what}: {shape}", form.format(getattr(figures, figure)), reason="no limit; one run")


def _figures(running: Stage, hosts: list[str]) -> Figures:
    started = start.idle_starts_s(running, PROBES)
    busy, _ = slots.busy_percent(running, SLOTS)
    job_id = running.submit(TEXT)
    running.wait(job_id, "succeeded")
    poll = get(f"/v1/jobs/{job_id}", running.keys[0])
    polls = [
        flood(running.port, [itertools.repeat(poll)] * 8, for_seconds(ROUND_S), hosts=hosts)
        for _ in range(ROUNDS)
    ]
    asked = _asked_ms(running, itertools.repeat(poll))
    for _ in range(SLOTS):
        # The slots are occupied, so that accepting is measured, not running.
        running.submit("[fake:sleep=3600] Busy.")
    accepted = _asked_ms(running, submissions(running.keys[1], replays=0))
    floods = [
        flood(running.port, clients(running.keys, CLIENTS), for_seconds(ROUND_S), hosts=hosts)
        for _ in range(ROUNDS)
    ]
    for tally in (*polls, *floods):
        assert not tally.other, tally.other
    return Figures(
        accept_ms=accepted,
        accept_per_s=statistics.median(tally.new / tally.seconds for tally in floods),
        poll_ms=asked,
        poll_per_s=statistics.median(tally.answers / tally.seconds for tally in polls),
        start_ms=p50_ms(started),
        start_p99_ms=quantile(started, 0.99) * 1000,
        busy_percent=busy,
    )


def _asked_ms(running: Stage, script: Iterator[bytes]) -> float:
    """The p50 of one client."""
    tally = flood(running.port, [script], lambda answers: answers < REQUESTS, hosts=[running.host])
    assert not tally.other, tally.other
    return p50_ms(tally.took_s)


@contextmanager
def _fleet(machines: int) -> Iterator[tuple[Fleet, Stage]]:
    with tempfile.TemporaryDirectory(prefix="tenuto-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "prices.toml").write_text(PRICES)
        variables = {
            "TENUTO_CONFIG": str(folder / "prices.toml"),
            "TENUTO_REQUESTS_PER_SECOND": "0",
            "TENUTO_DRAIN_S": "0",
            "TENUTO_SPEECH_SLOTS": str(SLOTS),
        }
        fleet = Fleet(folder, variables, apis=machines, workers=machines, has_store=True)
        try:
            fleet.start()
            keys = make_keys(fleet.database)
            yield fleet, Stage("PostgreSQL, S3", fleet.operator, fleet.database, keys, folder, 0.0)
        finally:
            fleet.close()
