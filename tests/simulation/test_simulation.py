"""A few seconds of the simulation; `make simulation` is the long form. Each mutant shows that it can fail."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
import structlog

from simulation.mutants import Mutant, applied, mutants
from simulation.postgres import PostgresGround
from simulation.scheduler import Lock, Scheduler, installed
from simulation.world import AnyGround, Ground, run

ROOT = Path(__file__).parents[2]
WORLDS = int(os.environ.get("TENUTO_SIMULATION_WORLDS", "0"))
"""How many worlds; 0: what a test run takes, which leaves out mutants that only few worlds show."""

# A world takes 30 ms of the processor, and a loaded machine gives a test a twentieth of it.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """The database and the folder in which all worlds of this file take place."""
    shared = Ground()
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def on_postgres() -> Iterator[PostgresGround]:
    """The same with a PostgreSQL server, on which a world takes ten times as long."""
    shared = PostgresGround()
    yield shared
    shared.close()


def test_no_interleaving_breaks_a_promise(ground: Ground) -> None:
    """Workers, callers and an operator in any order, with deaths, pauses, lost answers, wrong clocks."""
    outcomes = [run(ground.plan(seed), ground) for seed in range(WORLDS or 60)]

    assert [] == [(outcome.plan.seed, outcome.broken) for outcome in outcomes if outcome.broken is not None]


def test_no_interleaving_of_statements_breaks_a_promise(on_postgres: PostgresGround) -> None:
    """The same on PostgreSQL, where transactions are beside each other: some have to wait for a lock."""
    outcomes = [run(on_postgres.plan(seed), on_postgres) for seed in range(WORLDS // 5 or 6)]

    assert [] == [(outcome.plan.seed, outcome.broken) for outcome in outcomes if outcome.broken is not None]
    assert any("waits for a lock" in line for outcome in outcomes for line in outcome.trace)
    assert [] == [(outcome.plan.seed, outcome.broken) for outcome in outcomes if outcome.broken is not None]


@pytest.mark.parametrize(
    "mutant", [each for each in mutants() if each.often or WORLDS], ids=lambda mutant: mutant.name
)
def test_each_mutant_is_found(request: pytest.FixtureRequest, mutant: Mutant) -> None:
    """A service with this fault breaks a promise within the limit of worlds."""
    where = "on_postgres" if mutant.database == "postgresql" else "ground"
    shared: AnyGround = request.getfixturevalue(where)
    with applied(mutant):
        found = any(run(shared.plan(seed), shared).broken is not None for seed in range(mutant.worlds))

    assert found


def test_a_seed_gives_the_same_trace_on_postgres(on_postgres: PostgresGround) -> None:
    """Whichever worlds came before, however quick each backend is."""

    def traces(seeds: Sequence[int]) -> dict[int, list[str]]:
        return {seed: run(on_postgres.plan(seed), on_postgres).trace for seed in seeds}

    assert traces((2, 4)) == traces((4, 2))


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    """Whatever the hashes of strings are, and whichever worlds came before."""
    program = (
        "import hashlib; from simulation.world import Ground, run; ground = Ground();"
        "text = '\\n'.join(line for seed in range(8) for line in run(ground.plan(seed), ground).trace);"
        "ground.close(); print(hashlib.sha256(text.encode()).hexdigest(), text.count('FAULT'))"
    )

    def trace(hash_seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "tests")},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=400,
            check=True,
        )
        return done.stdout

    assert trace("1") == trace("2")


def test_no_virtual_lock_outlives_its_world() -> None:
    """A log's file and a module imported meanwhile keep theirs, which real threads wait for afterwards."""
    log, module = io.StringIO(), {"__name__": "imported_meanwhile"}
    with installed(Scheduler(Random(0), lambda line: None)):
        structlog.PrintLogger(log)
        exec("import threading; lock, inner = threading.Lock(), (lambda: threading.Lock())()", module)
    kept = [structlog._output.WRITE_LOCKS[log], module["lock"], module["inner"]]

    assert [False, False, True] == [isinstance(lock, Lock) for lock in kept]
