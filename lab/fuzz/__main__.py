"""`python -m lab.fuzz --minutes 10 [--seed N] [--target NAME]`: all targets in turn until the time is over.

A failure is printed with the seed that leads to it again, its input is kept in a file; the exit code is 1.
"""

import argparse
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from lab.fuzz.grow import grown
from lab.fuzz.targets import TARGETS, seeds

SLICE_S = 2.0
SLOW_S = 5.0


def main() -> int:
    """0 when nothing was found."""
    options = argparse.ArgumentParser(prog="python -m lab.fuzz")
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--target", choices=sorted(TARGETS), default=None)
    asked = options.parse_args()
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    names = [asked.target] if asked.target else list(TARGETS)
    runs, until, turn = dict.fromkeys(names, 0), time.monotonic() + asked.minutes * 60, 0
    while time.monotonic() < until:
        for name in names:
            failure = _turn(name, f"{seed} {name} {turn}", min(until, time.monotonic() + SLICE_S), runs)
            if failure is not None:
                print(f"{name}: seed {seed}, input in {failure}")
                return 1
        turn += 1
    print(f"seed {seed}: " + ", ".join(f"{name} {count}" for name, count in runs.items()))
    return 0


def _turn(name: str, seed: str, until: float, runs: dict[str, int]) -> Path | None:
    """One target for a while; the file with the input that failed, if one did."""
    target, draw = TARGETS[name][0], random.Random(seed)
    while time.monotonic() < until:
        content = grown(draw, seeds(name))
        began = time.monotonic()
        try:
            target(content)
            assert time.monotonic() - began < SLOW_S, "it took too long"
        except BaseException:
            traceback.print_exc()
            with tempfile.NamedTemporaryFile(prefix=f"fuzz-{name}-", delete=False) as file:
                file.write(content)
            return Path(file.name)
        runs[name] += 1
    return None


if __name__ == "__main__":
    sys.exit(main())
