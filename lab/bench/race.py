"""`python -m lab.bench.race [--only NAME] [--short] [--write]`: Tenuto beside its peers, in turns in one run.

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
from lab.bench import ROOT, doors, report
from lab.bench.client import Answer, Connection, flood, for_seconds, get
from lab.bench.contestants import (
    REDIS_SERVER,
    SUCCEEDED,
    Contestant,
    bentoml,
    celery,
    dbos,
    family,
    memory_bytes,
    procrastinate,
    python,
    ray_serve,
    spent_s,
    tenuto,
)
from lab.bench.race_page import (
    Cost,
    DoorResult,
    Kill,
    Result,
    as_chart,
    as_chats,
    as_kills,
    as_models,
    as_table,
    panels_of,
    write,
)
from lab.bench.stage import TEXT, submissions

PAGE = ROOT / "lab" / "records" / "race.md"
CHART = ROOT / "docs" / "pictures" / "race.svg"
TEMPLATE = Path(__file__).parent / "race_page.txt"

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
    "Ray Serve": ray_serve,
    "BentoML": bentoml,
}
ENVIRONMENTS = {"Tenuto": "", "Tenuto, SQLite": "", "Ray Serve": "race-ray", "BentoML": "race-bentoml"}
"""Of those that are not in `race`."""
KILLED: dict[str, Callable[[str], AbstractContextManager[Contestant]]] = {
    "FastAPI + Celery": lambda name: celery(name, VISIBILITY_S),
    "Ray Serve": lambda name: ray_serve(name, VISIBILITY_S),
}
"""Made otherwise in the probe that kills."""
UNKNOWN = "unknown"
NOT_MEASURED = "Not measured in this run."
DOORS: dict[str, Callable[[Size], list[DoorResult]]] = {
    "chat": lambda size: doors.chats(size.rounds, size.alone, size.flood_s),
    "speech": lambda size: doors.speeches(size.rounds),
    "recognition": lambda size: doors.transcripts(size.rounds),
}
"""Comparisons of what answers at once."""
LIBRARIES = {
    "race": ("fastapi", "uvicorn", "procrastinate", "dbos", "celery", "redis", "pydantic"),
    "race-ray": ("ray", "celery"),
    "race-bentoml": ("bentoml",),
    "race-litellm": ("litellm",),
    "race-models": ("fastapi", "faster-whisper", "kokoro-onnx", "onnxruntime", "ctranslate2"),
}
"""Of each environment, those whose versions the page names."""


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
        return self.accepted(next(self.requests(text)))

    def accepted(self, request: bytes) -> str:
        """The id of the job that a request makes, or has made."""
        answer, dialect = self.ask(request), self.contestant.dialect
        assert answer.status == dialect.accepted, answer
        job_id: str = json.loads(answer.body)[dialect.id]
        return job_id

    def requests(self, text: str = TEXT) -> Iterator[bytes]:
        """Submissions without end."""
        contestant = self.contestant
        return map(contestant.dialect.submission, submissions(contestant.key, text, replays=0))

    def poll(self, job_id: str) -> bytes:
        return get(self.contestant.dialect.show.format(job_id), self.contestant.key)

    def state(self, job_id: str) -> str:
        """The contestant's own word; UNKNOWN where it does not know the job."""
        answer = self.ask(self.poll(job_id))
        if answer.status == 404:
            return UNKNOWN
        assert answer.status == 200, answer
        state: str = json.loads(answer.body)[self.contestant.dialect.state]
        return state

    def wait(self, job_id: str, is_so: Callable[[str], bool], timeout_s: float = 60.0) -> None:
        until = time.monotonic() + timeout_s
        while not is_so(self.state(job_id)):
            assert time.monotonic() < until, f"{self.result.name}: {job_id} takes too long"
            time.sleep(LOOK_S)

    def wait_until_begun(self, job_id: str) -> None:
        self.wait(job_id, lambda state: not self.contestant.is_waiting(job_id, state))

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
    size = SHORT if options.short else WHOLE
    about = [*report.machine(), _versions(), _size(size)]
    began = time.monotonic()
    left_out = _not_installed()
    wanted = options.only or [*CONTESTANTS, *DOORS]
    results = _race([name for name in CONTESTANTS if name in wanted and name not in left_out], size, left_out)
    _tell("kills")
    kills = _kills([result.name for result in results], left_out)
    for result in results:
        result.kill = kills.get(result.name)
    measured = {name: _doors(name, size, left_out) if name in wanted else [] for name in DOORS}
    took_s, load = time.monotonic() - began, os.getloadavg()[0]
    about.append(f"The whole run took {took_s:.0f} s; load average at the end {load:.1f}")
    about += [f"Left out: {name}, {reason}" for name, reason in left_out.items()]
    places = {
        "about": "\n".join(f"- {line}" for line in about),
        "table": as_table(results),
        "kills": as_kills(results),
        "chat": as_chats(measured["chat"]) or NOT_MEASURED,
        "speech": as_models(measured["speech"]) or NOT_MEASURED,
        "recognition": as_models(measured["recognition"]) or NOT_MEASURED,
    }
    print("\n\n".join(places.values()))
    if options.write:
        write(
            PAGE, CHART, as_chart(results, panels_of(*measured.values())), TEMPLATE.read_text("utf-8"), places
        )
    return 0


def _not_installed() -> dict[str, str]:
    """Why each contestant is left out that cannot take part."""
    needed = {name: ENVIRONMENTS.get(name, "race") for name in CONTESTANTS}
    needed |= {"LiteLLM's proxy": "race-litellm", "the servers of single models": "race-models"}
    missing = {
        name: f"requirements/{place}.txt could not be installed"
        for name, place in needed.items()
        if place and not python(place).exists()
    }
    if not REDIS_SERVER.exists():
        missing |= {"Ray Serve": "its Redis is that of requirements/race.txt"}
    return missing


def _doors(name: str, size: Size, left_out: dict[str, str]) -> list[DoorResult]:
    """What was measured; `left_out` gains the comparison where one side did not answer to the end."""
    _tell(name)
    try:
        return DOORS[name](size)
    except (AssertionError, OSError, httpx2.HTTPError) as error:
        left_out[f"all of {name}"] = f"it did not come to its end: {_reason(error)}"
        return []


def _reason(error: Exception) -> str:
    """The last line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__} {lines[-1] if lines else ''}".strip()


def _race(names: Sequence[str], size: Size, left_out: dict[str, str]) -> list[Result]:
    """All that start; `left_out` gains those that don't."""
    with ExitStack() as stack:
        runners = []
        for name in names:
            try:
                runners.append(_enter(stack, name))
            except (AssertionError, OSError, subprocess.CalledProcessError) as error:
                left_out[name] = f"it did not start: {_reason(error)}"
        for step in (_starts, _slots, _idle, _accept, _poll, _twice) if runners else ():
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
            runner.wait_until_begun(job_id)
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
            runner.wait_until_begun(job_id)
        flood(runner.contestant.port, _clients(runner), for_seconds(size.flood_s / 2))
    for runner in _turns(runners, size.rounds):
        time.sleep(PAUSE_S)
        script = runner.requests()
        for _ in range(size.alone):
            request = next(script)
            began = time.perf_counter()
            answer = runner.ask(request)
            runner.result.alone_s.append(time.perf_counter() - began)
            assert answer.status == runner.contestant.dialect.accepted, answer
        runner.result.accepts.append(runner.cost(lambda runner=runner: _flood(runner, size)))  # type: ignore[misc]


def _flood(runner: Runner, size: Size) -> tuple[int, float]:
    tally = flood(runner.contestant.port, _clients(runner), for_seconds(size.flood_s))
    assert not tally.other, tally.other
    runner.result.together_s += tally.took_s
    return tally.new, tally.seconds


def _clients(runner: Runner) -> list[Iterator[bytes]]:
    return [runner.requests() for _ in range(CLIENTS)]


def _poll(runners: Sequence[Runner], size: Size) -> None:
    for runner in _turns(runners, size.rounds):
        poll = runner.poll(runner.done)

        def act(runner: Runner = runner, poll: bytes = poll) -> tuple[int, float]:
            scripts = [itertools.repeat(poll)] * POLLERS
            tally = flood(runner.contestant.port, scripts, for_seconds(size.poll_s))
            assert not tally.other, tally.other
            return tally.answers, tally.seconds

        time.sleep(PAUSE_S)
        runner.result.polls.append(runner.cost(act))


def _twice(runners: Sequence[Runner], size: Size) -> None:
    for runner in runners:
        request = next(runner.requests())
        runner.result.is_one = runner.accepted(request) == runner.accepted(request)


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


def _kills(names: Sequence[str], left_out: dict[str, str]) -> dict[str, Kill]:
    """Each is killed in the middle of its work and started again; all have the same patience."""
    with ExitStack() as stack:
        killed = {}
        for name in names:
            _tell(f"killing {name}")
            try:
                killed[name] = _kill(stack.enter_context(KILLED.get(name, CONTESTANTS[name])(name)))
            except (AssertionError, OSError, subprocess.CalledProcessError) as error:
                left_out[f"{name} among the killed"] = f"it did not start: {_reason(error)}"
        until = max((one.back_at for one in killed.values()), default=0.0) + PATIENCE_S
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
    """Of what is installed; Ray Serve's FastAPI and Celery are of its own environment."""
    found = []
    for environment, names in LIBRARIES.items():
        if python(environment).exists():
            script = (
                "import importlib.metadata as of; print(*(n + ' ' + of.version(n) for n in {}), sep=', ')"
            )
            found.append(_printed(python(environment), "-c", script.format(names)).strip())
    if REDIS_SERVER.exists():
        found.append("redis-server " + _printed(REDIS_SERVER, "--version").split()[2].removeprefix("v="))
    return "Peers: " + "; ".join(found)


def _printed(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.bench.race", description=__doc__)
    parser.add_argument("--only", action="append", choices=[*CONTESTANTS, *DOORS], help="a part; repeatable")
    parser.add_argument("--short", action="store_true", help="fewer rounds: to see that it works")
    parser.add_argument("--write", action="store_true", help="write the page and the chart, too")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
