"""`python -m lab.simulation [--postgres] [--seed N] [--count N] [--seconds S] [--mutant NAME]`: worlds.

A broken promise is printed with its seed and the trace of the smallest plan that breaks it; the exit
code is then 1. `--seed N` alone runs that one world and prints its whole trace, which is the same each time.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext

from lab.simulation.shrinking import shrunk

from simulation.mutants import applied, mutants
from simulation.postgres import PostgresGround
from simulation.world import AnyGround, Ground, Outcome, run


def main() -> int:
    """0 when every promise was kept."""
    options = argparse.ArgumentParser(prog="python -m lab.simulation")
    options.add_argument("--seed", type=int, help="the first world; alone: this one, with its trace")
    options.add_argument("--count", type=int, help="how many worlds")
    options.add_argument("--seconds", type=float, help="as many worlds as fit into this time")
    options.add_argument("--mutant", choices=[mutant.name for mutant in mutants()], help="with this fault")
    options.add_argument("--postgres", action="store_true", help="on a PostgreSQL server of its own")
    asked = options.parse_args()
    is_one = asked.seed is not None and asked.count is None and asked.seconds is None
    mutant = next((each for each in mutants() if each.name == asked.mutant), None)
    is_elsewhere = mutant is not None and mutant.database == "postgresql"
    ground = PostgresGround() if asked.postgres or is_elsewhere else Ground()
    try:
        with nullcontext() if mutant is None else applied(mutant):
            if is_one:
                return _one(asked.seed, ground)
            return _many(asked.seed or 0, asked.count, asked.seconds, ground)
    finally:
        ground.close()


def _one(seed: int, ground: AnyGround) -> int:
    outcome = run(ground.plan(seed), ground)
    print("\n".join(outcome.trace))
    if outcome.broken is None:
        print(f"seed {seed}: {outcome.switches} switches, {outcome.commits} commits, nothing is broken")
        return 0
    _explain(outcome, ground)
    return 1


def _many(first: int, count: int | None, seconds: float | None, ground: AnyGround) -> int:
    began, busy = time.monotonic(), time.process_time()
    worlds = switches = commits = 0
    for seed in _seeds(first, count, seconds, began):
        outcome = run(ground.plan(seed), ground)
        worlds, switches, commits = worlds + 1, switches + outcome.switches, commits + outcome.commits
        if outcome.broken is not None:
            _explain(outcome, ground)
            return 1
    took_s, busy_s = time.monotonic() - began, time.process_time() - busy
    print(
        f"{worlds} worlds from seed {first}: {switches} switches, {commits} commits, nothing is broken;"
        f" {worlds / took_s:.0f} worlds and {switches / took_s:.0f} switches a second"
        f" ({worlds / busy_s:.0f} and {switches / busy_s:.0f} a second of the processor)"
    )
    return 0


def _seeds(first: int, count: int | None, seconds: float | None, began: float) -> Iterator[int]:
    """All seeds that were asked for; without any limit a thousand."""
    last = None if count is None and seconds is not None else first + (1000 if count is None else count)
    seed = first
    while (last is None or seed < last) and (seconds is None or time.monotonic() - began < seconds):
        yield seed
        seed += 1


def _explain(outcome: Outcome, ground: AnyGround) -> None:
    seed = outcome.plan.seed
    print(f"seed {seed}: {outcome.broken}", flush=True)
    smallest = shrunk(outcome, ground)
    plan = smallest.plan
    print(f"the smallest plan that breaks a promise: {plan}")
    print("\n".join(smallest.trace))
    print(f"again, from its first step: python -m lab.simulation --seed {seed}")


if __name__ == "__main__":
    sys.exit(main())
