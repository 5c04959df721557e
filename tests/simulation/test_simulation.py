"""A few seconds of the simulation; `make simulation` is the long form. Each mutant shows that it can fail."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import structlog

from simulation.mutants import Mutant, applied, mutants
from simulation.scheduler import Lock, Scheduler, installed
from simulation.shrinking import shrunk
from simulation.world import Ground, plan_of, run

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


def test_no_interleaving_breaks_a_promise(ground: Ground) -> None:
    """Workers, callers and an operator in any order, with deaths, pauses, lost answers, wrong clocks."""
    outcomes = [run(plan_of(seed), ground) for seed in range(WORLDS or 60)]

    assert [] == [(outcome.plan.seed, outcome.broken) for outcome in outcomes if outcome.broken is not None]


@pytest.mark.parametrize(
    "mutant", [each for each in mutants() if each.often or WORLDS], ids=lambda mutant: mutant.name
)
def test_each_mutant_is_found(ground: Ground, mutant: Mutant) -> None:
    """A service with this fault breaks a promise within the limit of worlds."""
    with applied(mutant):
        found = any(run(plan_of(seed), ground).broken is not None for seed in range(mutant.worlds))

    assert found


def test_a_finding_is_shrunk_and_replays(ground: Ground) -> None:
    """The smallest plan has no more than the first one, and its world is the same each time."""
    mutant = next(each for each in mutants() if each.name == "rescue keeps the slot")
    with applied(mutant):
        outcomes = (run(plan_of(seed), ground) for seed in range(mutant.worlds))
        first = next(outcome for outcome in outcomes if outcome.broken is not None)
        smallest = shrunk(first, ground)
        again = run(smallest.plan, ground)

    assert len(smallest.plan.faults) + len(smallest.plan.steps) < len(first.plan.faults) + len(
        first.plan.steps
    )
    assert smallest.trace == again.trace


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    """Whatever the hashes of strings are, and whichever worlds came before."""
    program = (
        "import hashlib; from simulation.world import Ground, plan_of, run; ground = Ground();"
        "text = '\\n'.join(line for seed in range(8) for line in run(plan_of(seed), ground).trace);"
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
