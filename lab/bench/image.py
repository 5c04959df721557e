"""Time and memory for a picture of the embedded model, by size: only the engine, in its own process.

`python -m lab.bench.image` is that process: it loads the engine and prints what it measured as JSON.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from lab.bench import ROOT
from lab.bench.report import Row, below

from servers.postgres import PostgresServer
from tenuto.features.models.cache import default_cache
from tenuto.host.registry import entry_of

MODEL = "tenuto/pictograms"
SIDES = (256, 512, 1024, 2048)
PROMPT = "a red apple to the left of a green tree"
ROUNDS = 3
STEPS = 20
LIMIT_S = 6.0
LIMIT_MB = 800


class _Run:
    """A run without a service; it keeps when each step began."""

    run_id = "bench"

    def __init__(self, side: int) -> None:
        self.parameters: dict[str, Any] = {**entry_of(MODEL).defaults, "prompt": PROMPT, "seed": 1}
        self.parameters |= {"width": side, "height": side, "num_inference_steps": STEPS}
        self.inputs: dict[str, bytes] = {}
        self.steps_at: list[float] = []

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        raise AssertionError("an image has no segments")

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        self.steps_at.append(time.monotonic())

    def check_cancelled(self) -> None:
        pass


def measure(postgres: PostgresServer | None) -> list[Row]:
    """A row for each size, and one for the memory; the database plays no part."""
    if postgres is not None:
        return []
    done = subprocess.run(
        [sys.executable, "-m", "lab.bench.image"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    told = json.loads(done.stdout)
    rows = []
    for side, (picture_s, step_s) in zip(SIDES, told["seconds"], strict=True):
        name = f"{MODEL}: two things on {side} × {side}, {STEPS} steps"
        value = f"{picture_s:.2f} s a picture, {step_s * 1000:.1f} ms a step"
        if side == 512:
            rows.append(below(name, picture_s, LIMIT_S, "s", f"fixed; {value}"))
        else:
            rows.append(Row(name, value))

    rows.append(below(f"{MODEL}: memory after 512 × 512", told["mb_512"], LIMIT_MB, "MB", "fixed", digits=0))
    rows.append(Row(f"{MODEL}: memory in the end", f"{told['mb']:.0f} MB"))
    return rows


def main() -> None:
    from tenuto_pictograms import PictogramsEngine

    weights = {name: str(default_cache() / name) for name in entry_of(MODEL).weights}
    engine = PictogramsEngine({"weights": weights})
    seconds, at_512 = [], 0.0
    for side in SIDES:
        pictures, steps = [], []
        for _ in range(ROUNDS):
            run, began = _Run(side), time.monotonic()
            engine.run(run)
            pictures.append(time.monotonic() - began)
            steps.append((run.steps_at[-1] - run.steps_at[0]) / STEPS)
        seconds.append((statistics.median(pictures), statistics.median(steps)))
        if side == 512:
            at_512 = _megabytes()
    print(json.dumps({"seconds": seconds, "mb": _megabytes(), "mb_512": at_512}))


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
