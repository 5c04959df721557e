"""From the 202 to running: on an idle service, and while 32 clients submit without pause.

Running is what the database says: a look into it about every millisecond finds the moment when the claim
was committed, so the claim's own commit is in the figure. Heartbeats are timed the same way: from the moment
that a heartbeat was issued, which stands in the worker's row, to the moment that the row says so.
"""

import itertools
import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event

from lab.bench.client import Connection, flood
from lab.bench.report import Row, below, p50_ms, quantile
from lab.bench.stage import TEXT, Stage, clients, stage, submissions

from servers.postgres import PostgresServer

IDLE_PROBES = 200
FIRST_PROBES = 5
LOOK_S = 0.0005
CLIENTS = 32
SLOTS = 8
BUSY_TEXT = "[fake:sleep=0.3] Busy."
LOADED_S = 12.0
SETTLE_S = 1.0
HEARTBEAT_S = "0.2"
STARTED_WITHIN_S = 20.0

_LOOK = (
    """select (select state from job where id = :id) as state, (select max(seen_at) from worker) as seen_at"""
)
_ENDS = "select ended_at from attempt where ended_at is not null"


@dataclass(frozen=True, slots=True)
class Probe:
    """A job whose start was watched: wall times in milliseconds."""

    accepted_ms: float
    running_ms: float

    def start_s(self, ends: list[int]) -> float:
        """From when it could start, given the moments when slots were released: a slot's next job is it."""
        released = next((end for end in ends if end >= self.accepted_ms), self.accepted_ms)
        return (self.running_ms - min(released, self.running_ms)) / 1000


@dataclass(slots=True)
class Watch:
    """Looks into the database: at the state of jobs, and on the way at the worker's heartbeat."""

    running: Stage
    connection: Connection
    seen_at: int = 0
    heartbeats_s: list[float] = field(default_factory=list)
    """How long each heartbeat took until it was committed."""

    def look(self, job_id: str) -> str:
        """The job's state now."""
        row = self.running.query(_LOOK, id=job_id)[0]
        if row["seen_at"] != self.seen_at:
            self.heartbeats_s.append((_now_ms() - row["seen_at"]) / 1000)
            self.seen_at = row["seen_at"]
        time.sleep(LOOK_S)
        state: str = row["state"]
        return state

    def probe(self, request: bytes) -> tuple[str, Probe]:
        """Submit a job and watch it start."""
        answer = self.connection.ask(request)
        accepted_ms = _now_ms()
        assert answer.status == 202, answer
        job_id: str = json.loads(answer.body)["id"]
        until = time.monotonic() + STARTED_WITHIN_S
        while self.look(job_id) == "queued":
            assert time.monotonic() < until, "the job does not start"
        return job_id, Probe(accepted_ms, _now_ms() - LOOK_S * 1000)


def measure(postgres: PostgresServer | None) -> list[Row]:
    """The idle rows and the loaded ones, each on a service of its own."""
    with stage(postgres) as running:
        rows = _idle(running)
    variables = {"TENUTO_SPEECH_SLOTS": str(SLOTS), "TENUTO_HEARTBEAT_S": HEARTBEAT_S}
    with stage(postgres, **variables) as running:
        return rows + _loaded(running)


def idle_starts_s(running: Stage, probes: int) -> list[float]:
    """Seconds from the 202 to running, of one job at a time."""
    script = submissions(running.keys[0], TEXT, replays=0)
    watch = Watch(running, Connection(running.port, running.host))
    took_s = []
    for number in range(FIRST_PROBES + probes):
        job_id, probe = watch.probe(next(script))
        if number >= FIRST_PROBES:  # the first ones load the engine
            took_s.append((probe.running_ms - probe.accepted_ms) / 1000)
        running.wait(job_id, "succeeded")
        time.sleep(random.uniform(0.0, 0.02))
    watch.connection.close()
    return took_s


def _idle(running: Stage) -> list[Row]:
    took_s = idle_starts_s(running, IDLE_PROBES)
    p50, p99 = p50_ms(took_s), quantile(took_s, 0.99) * 1000
    how = "fixed; until the claim's commit is seen in the database, one job at a time, an instant engine"
    return [
        below(f"{running.name}: 202 → running, idle, p50 of {IDLE_PROBES}", p50, 2, "ms", how, digits=1),
        below(f"{running.name}: 202 → running, idle, p99", p99, 50, "ms", how, digits=1),
    ]


def _loaded(running: Stage) -> list[Row]:
    """32 clients of four accounts fill the queue and the slots; the other accounts' jobs are the probes."""
    running.wait(running.submit(TEXT), "succeeded")
    context = multiprocessing.get_context("fork")
    ending = context.Event()
    crowd = context.Process(target=_crowd, args=(running.port, running.keys[:4], ending))
    crowd.start()
    time.sleep(SETTLE_S)
    probes, heartbeats_s = _watch(running, running.keys[4:])
    ending.set()
    crowd.join()
    jobs_per_s = running.query("select count(*) as jobs from job")[0]["jobs"] / (LOADED_S + SETTLE_S)
    ends = sorted(row["ended_at"] for row in running.query(_ENDS))
    took_s = [probe.start_s(ends) for probe in probes]
    how = (
        f"fixed; {jobs_per_s:.0f} jobs/s accepted meanwhile, {SLOTS} slots busy with 0.3 s jobs; jobs whose "
        f"account's turn it is, from the next release of a slot after the 202; p50 {p50_ms(took_s):.1f} ms"
    )
    p99 = quantile(took_s, 0.99) * 1000
    what = f"{running.name}: 202 → running, {CLIENTS} clients submitting, p99 of {len(took_s)}"
    waits = f"{running.name}: longest wait of {len(heartbeats_s)} heartbeats meanwhile"
    issued = "fixed; from issuing the heartbeat until it is seen in the database"
    return [
        below(what, p99, 100, "ms", how, digits=1),
        below(waits, max(heartbeats_s), 1, "s", issued),
    ]


def _crowd(port: int, keys: list[str], ending: Event) -> None:
    """The 32 clients, in a process of their own."""
    flood(port, clients(keys, CLIENTS, BUSY_TEXT), lambda answers: not ending.is_set())


def _watch(running: Stage, keys: list[str]) -> tuple[list[Probe], list[float]]:
    """Probes of the accounts in turn, each so long after its last one that its turn has come again."""
    scripts: Iterator[Iterator[bytes]] = itertools.cycle([submissions(k, BUSY_TEXT, replays=0) for k in keys])
    watch = Watch(running, Connection(running.port, running.host))
    probes = []
    until = time.monotonic() + LOADED_S
    while time.monotonic() < until:
        job_id, probe = watch.probe(next(next(scripts)))
        probes.append(probe)
        rest = time.monotonic() + random.uniform(0.05, 0.1)
        while time.monotonic() < rest:
            watch.look(job_id)
    watch.connection.close()
    return probes, watch.heartbeats_s[1:]


def _now_ms() -> float:
    return time.time() * 1000
