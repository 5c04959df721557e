"""`python -m bench.race [--only NAME] [--short] [--write]`: Tenuto beside its peers, in turns, in one run.

Contestants differ in the service alone: one client sends all of them the same requests. All are running all
the time, idle while another one's turn lasts. It prints where it is.
"""

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from bench import ROOT, report
from bench.client import Answer, Connection, flood, for_seconds, get
from bench.contestants import (
    PYTHON,
    SUCCEEDED,
    Contestant,
    celery,
    dbos,
    family,
    memory_bytes,
    procrastinate,
    spent_s,
    tenuto,
)
from bench.race_page import Cost, Kill, Result, as_kills, as_table, write
from bench.stage import TEXT, submissions

PAGE = ROOT / "docs" / "race.md"
CHART = ROOT / "docs" / "pictures" / "race.svg"
TEMPLATE = ROOT / "bench" / "race_page.txt"

SLOTS = 8
CLIENTS = 32
POLLERS = 8
PATIENCE_S = 120.0
VISIBILITY_S = 30
"""Celery's in the probe that kills: an hour, its default, is longer than the race."""
KILLED_JOBS = 40
KILLED_AFTER = 10
"""So many have run to their end when the service is killed, or a few more."""
KILLED_TEXT = "[fake:sleep=1] Killed."
BUSY_TEXT = "[fake:sleep=0.3] Busy."
BLOCK_TEXT = "[fake:sleep=3600] Block."
BUSY_JOBS = 64
KEPT_S = 2.0
LOOK_S = 0.002
PAUSE_S = 0.3


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything is measured."""

    rounds: int
    starts: int
    alone: int
    flood_s: float
    poll_s: float
    idle_s: float


WHOLE = Size(rounds=5, starts=10, alone=60, flood_s=2.0, poll_s=1.5, idle_s=15.0)
SHORT = Size(rounds=2, starts=4, alone=20, flood_s=0.7, poll_s=0.7, idle_s=4.0)

CONTESTANTS: dict[str, Callable[[str], AbstractContextManager[Contestant]]] = {
    "Tenuto": lambda name: tenuto(name, is_sqlite=False),
    "Tenuto, SQLite": lambda name: tenuto(name, is_sqlite=True),
    "FastAPI + Procrastinate": procrastinate,
    "FastAPI + DBOS": dbos,
    "FastAPI + Celery": celery,
}


@dataclass(slots=True)
class Runner:
    """A contestant in the race, and what is known of it so far."""

    contestant: Contestant
    result: Result
    done: str = ""
    """A job that has succeeded, to be polled."""
    _connection: Connection | None = None
    _used_at: float = 0.0

    def ask(self, request: bytes) -> Answer:
        """One request, on a connection that is too young for the service to have closed it."""
        if self._connection is None or time.monotonic() - self._used_at > KEPT_S:
            if self._connection is not None:
                self._connection.close()
            self._connection = Connection(self.contestant.port)
        answer = self._connection.ask(request)
        self._used_at = time.monotonic()
        return answer

    def reconnect(self) -> None:
        """The service was started again."""
        self._used_at = 0.0

    def submit(self, text: str) -> str:
        """One job; gives its id."""
        answer = self.ask(next(submissions(self.contestant.key, text, replays=0)))
        assert answer.status == 202, answer
        job_id: str = json.loads(answer.body)["id"]
        return job_id

    def state(self, job_id: str) -> str:
        answer = self.ask(get(f"/v1/jobs/{job_id}", self.contestant.key))
        assert answer.status == 200, answer
        state: str = json.loads(answer.body)["state"]
        return state

    def wait(self, job_id: str, is_so: Callable[[str], bool], timeout_s: float = 60.0) -> None:
        until = time.monotonic() + timeout_s
        while not is_so(self.state(job_id)):
            assert time.monotonic() < until, f"{self.result.name}: {job_id} takes too long"
            time.sleep(LOOK_S)

    def wait_until_done(self, job_id: str, timeout_s: float = 60.0) -> None:
        self.wait(job_id, SUCCEEDED.__contains__, timeout_s)

    def spent(self) -> tuple[float, float]:
        """Processor seconds of the service and of its store."""
        return spent_s(self.contestant.service()), spent_s(self.contestant.stores())

    def cost(self, act: Callable[[], tuple[int, float]]) -> Cost:
        """What an act costs that gives the number of its requests and its seconds."""
        service, store = self.spent()
        requests, seconds = act()
        after = self.spent()
        return Cost(requests, seconds, after[0] - service, after[1] - store)


def main() -> int:
    """Runs, prints, and writes the page where that is asked for."""
    options = _options()
    names = [name for name in CONTESTANTS if not options.only or name in options.only]
    size = SHORT if options.short else WHOLE
    about = [*report.machine(), _versions(), _size(size)]
    began = time.monotonic()
    results = _race(names, size)
    _tell("kills")
    kills = _kills(names)
    for result in results:
        result.kill = kills[result.name]
    took_s, load = time.monotonic() - began, os.getloadavg()[0]
    about.append(f"The whole run took {took_s:.0f} s; load average at the end {load:.1f}")
    print("\n".join([*about, "", as_table(results), "", as_kills(results)]))
    if options.write:
        write(PAGE, CHART, results, about, TEMPLATE.read_text("utf-8"))
    return 0


def _race(names: Sequence[str], size: Size) -> list[Result]:
    with ExitStack() as stack:
        runners = [_enter(stack, name) for name in names]
        for step in (_starts, _slots, _idle, _accept, _poll, _twice):
            _tell(step.__name__.strip("_"))
            step(runners, size)
        return [runner.result for runner in runners]


def _enter(stack: ExitStack, name: str) -> Runner:
    _tell(f"starting {name}")
    contestant = stack.enter_context(CONTESTANTS[name](name))
    runner = Runner(contestant, Result(name, contestant.store))
    # The first jobs load the engine and fill the pools of connections.
    for _ in range(SLOTS):
        runner.done = runner.submit(TEXT)
        runner.wait_until_done(runner.done)
    return runner


def _turns(runners: Sequence[Runner], rounds: int) -> list[Runner]:
    """Every runner once a round, in another order each time."""
    order = random.Random(1)
    return [runner for _ in range(rounds) for runner in order.sample(list(runners), len(runners))]


def _starts(runners: Sequence[Runner], size: Size) -> None:
    for runner in _turns(runners, size.rounds):
        for _ in range(size.starts):
            # Not in step with those that look every second.
            time.sleep(random.Random(len(runner.result.starts_s)).random() * PAUSE_S)
            job_id = runner.submit(TEXT)
            accepted = time.perf_counter()
            runner.wait(job_id, lambda state, runner=runner: not runner.contestant.is_waiting(state))  # type: ignore[misc]
            runner.result.starts_s.append(time.perf_counter() - accepted)
            runner.wait_until_done(job_id)


def _slots(runners: Sequence[Runner], size: Size) -> None:
    for runner in _turns(runners, min(size.rounds, 2)):
        began = time.perf_counter()
        jobs = [runner.submit(BUSY_TEXT) for _ in range(BUSY_JOBS)]
        for job_id in jobs:
            runner.wait_until_done(job_id)
        runner.result.busy.append(BUSY_JOBS * 0.3 / (SLOTS * (time.perf_counter() - began)))


def _idle(runners: Sequence[Runner], size: Size) -> None:
    """All of them over the same stretch of time."""
    time.sleep(2 * PAUSE_S)
    before = [sum(runner.spent()) for runner in runners]
    time.sleep(size.idle_s)
    for runner, spent in zip(runners, before, strict=True):
        result, contestant = runner.result, runner.contestant
        result.idle = (sum(runner.spent()) - spent) / size.idle_s
        result.processes = len(family(contestant.service()))
        result.service_bytes = memory_bytes(contestant.service())
        result.store_bytes = memory_bytes(contestant.stores())


def _accept(runners: Sequence[Runner], size: Size) -> None:
    """All slots are occupied, so that accepting is measured, not running."""
    for runner in runners:
        for job_id in [runner.submit(BLOCK_TEXT) for _ in range(SLOTS)]:
            runner.wait(job_id, lambda state, runner=runner: not runner.contestant.is_waiting(state))  # type: ignore[misc]
        flood(runner.contestant.port, _clients(runner), for_seconds(size.flood_s / 2))
    for runner in _turns(runners, size.rounds):
        time.sleep(PAUSE_S)
        script = submissions(runner.contestant.key, replays=0)
        for _ in range(size.alone):
            request = next(script)
            began = time.perf_counter()
            answer = runner.ask(request)
            runner.result.alone_s.append(time.perf_counter() - began)
            assert answer.status == 202, answer
        runner.result.accepts.append(runner.cost(lambda runner=runner: _flood(runner, size)))  # type: ignore[misc]


def _flood(runner: Runner, size: Size) -> tuple[int, float]:
    tally = flood(runner.contestant.port, _clients(runner), for_seconds(size.flood_s))
    assert not tally.other, tally.other
    runner.result.together_s += tally.took_s
    return tally.new, tally.seconds


def _clients(runner: Runner) -> list[itertools.chain[bytes]]:
    return [itertools.chain(submissions(runner.contestant.key, replays=0)) for _ in range(CLIENTS)]


def _poll(runners: Sequence[Runner], size: Size) -> None:
    for runner in _turns(runners, size.rounds):
        poll = get(f"/v1/jobs/{runner.done}", runner.contestant.key)

        def act(runner: Runner = runner, poll: bytes = poll) -> tuple[int, float]:
            scripts = [itertools.repeat(poll)] * POLLERS
            tally = flood(runner.contestant.port, scripts, for_seconds(size.poll_s))
            assert not tally.other, tally.other
            return tally.answers, tally.seconds

        time.sleep(PAUSE_S)
        runner.result.polls.append(runner.cost(act))


def _twice(runners: Sequence[Runner], size: Size) -> None:
    for runner in runners:
        request = next(submissions(runner.contestant.key, replays=0))
        first, second = (json.loads(runner.ask(request).body)["id"] for _ in range(2))
        runner.result.is_one = first == second


@dataclass(slots=True)
class _Killed:
    """A contestant that was killed and started again."""

    runner: Runner
    jobs: list[str]
    done_before: int
    back_at: float
    """Wall time of the restart."""

    def open_jobs(self) -> list[str]:
        return [job_id for job_id in self.jobs if self.runner.state(job_id) not in SUCCEEDED]

    def outcome(self) -> Kill:
        runs, lost = self.runner.contestant.runs(), len(self.open_jobs())
        return Kill(
            accepted=len(self.jobs),
            ended_before=self.done_before,
            lost=lost,
            began_twice=sum(runs.begun[job_id] > 1 for job_id in self.jobs),
            ended_twice=sum(runs.ended[job_id] > 1 for job_id in self.jobs),
            settled_s=PATIENCE_S if lost else runs.last_at - self.back_at,
        )


def _kills(names: Sequence[str]) -> dict[str, Kill]:
    """Each is killed in the middle of its work and started again; all have the same patience."""
    with ExitStack() as stack:
        killed = {}
        for name in names:
            _tell(f"killing {name}")
            made = celery(name, VISIBILITY_S) if name == "FastAPI + Celery" else CONTESTANTS[name](name)
            killed[name] = _kill(stack.enter_context(made))
        until = max(one.back_at for one in killed.values()) + PATIENCE_S
        while any(one.open_jobs() for one in killed.values()) and time.time() < until:
            time.sleep(0.5)
        return {name: one.outcome() for name, one in killed.items()}


def _kill(contestant: Contestant) -> _Killed:
    runner = Runner(contestant, Result(contestant.name, contestant.store))
    runner.wait_until_done(runner.submit(TEXT))
    jobs = [runner.submit(KILLED_TEXT) for _ in range(KILLED_JOBS)]
    until = time.monotonic() + PATIENCE_S
    while sum(contestant.runs().ended.values()) <= KILLED_AFTER and time.monotonic() < until:
        time.sleep(LOOK_S * 10)
    contestant.kill()
    ended = contestant.runs().ended
    back_at = time.time()
    contestant.restart()
    runner.reconnect()
    return _Killed(runner, jobs, sum(ended[job_id] > 0 for job_id in jobs), back_at)


def _size(size: Size) -> str:
    return (
        f"{size.rounds} rounds, each with {size.alone} jobs of one client, {size.flood_s} s of {CLIENTS} "
        f"clients, {size.poll_s} s of polls and {size.starts} starts; {size.idle_s:.0f} s of idleness"
    )


def _versions() -> str:
    names = ("fastapi", "uvicorn", "procrastinate", "dbos", "celery", "redis", "pydantic")
    script = (
        f"from importlib.metadata import version\nprint(', '.join(n + ' ' + version(n) for n in {names}))"
    )
    libraries = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=True).stdout
    redis = subprocess.run(
        [PYTHON.with_name("redis-server"), "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[2]
    return f"Peers: {libraries.strip()}; redis-server {redis.removeprefix('v=')}"


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.race", description=__doc__)
    parser.add_argument("--only", action="append", choices=[*CONTESTANTS], help="one contestant; repeatable")
    parser.add_argument("--short", action="store_true", help="fewer rounds: to see that it works")
    parser.add_argument("--write", action="store_true", help="write the page and the chart, too")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
