"""The overhead of a host: an engine that does nothing, in a child process and in a Ray pool of one node.

The pool's part runs under the interpreter that `make ray` sets up; without it the rows say so.
"""

import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

from lab.bench import ROOT
from lab.bench.report import Row, below, quantile

from servers.postgres import PostgresServer
from servers.ray_pool import ray_pool
from tenuto.config import RaySettings
from tenuto.host.child_host import ChildHost
from tenuto.host.host import EngineSpec

CALLS = 1000
WARM_UP = 100
BIG_RUNS = 9
BIG_BYTES = 30_000_000
LIMITS_MS = {"child": 0.4, "ray": 1.5}
BIG_LIMIT_MS = 100.0
RAY_PYTHON = ROOT / "build" / "ray" / "bin" / "python"


def measure(postgres: PostgresServer | None) -> list[Row]:
    """No database is asked, so they are measured once."""
    if postgres is not None:
        return []
    rows = _rows("child", _timed("child"))
    if not RAY_PYTHON.exists():
        return [*rows, Row("Ray: a call of an engine that does nothing", "not measured: `make ray` first")]
    command = [str(RAY_PYTHON), "-m", "lab.bench.hosts", "ray"]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return rows + _rows("ray", json.loads(told))


def _rows(host: str, timed: dict[str, list[float]]) -> list[Row]:
    name = {"child": "child process", "ray": "Ray actor"}[host]
    calls, big = timed["calls_s"], timed["big_s"]
    p90 = f"fixed; p50 of {CALLS} calls, p90 {quantile(calls, 0.9) * 1000:.2f} ms"
    span = f"fixed; median of {BIG_RUNS}, {min(big) * 1000:.0f} to {max(big) * 1000:.0f} ms"
    return [
        below(
            f"{name}: a call of an engine that does nothing",
            statistics.median(calls) * 1000,
            LIMITS_MS[host],
            "ms",
            p90,
            digits=3,
        ),
        below(
            f"{name}: a run with a result of 30 MB", statistics.median(big) * 1000, BIG_LIMIT_MS, "ms", span
        ),
    ]


def _timed(where: str) -> dict[str, list[float]]:
    with ExitStack() as stack:
        ray = RaySettings(stack.enter_context(ray_pool(cpus=1)).address) if where == "ray" else None
        engines = str(ROOT / "tests" / "core" / "host" / "engines")
        host = ChildHost(EngineSpec("demo:Demo", sys.executable, path=engines, ray=ray))
        stack.callback(host.close)
        host.load()
        calls = [_call(host, mode="echo") for _ in range(WARM_UP + CALLS)]
        # The first ones pay for fresh memory on either side.
        big = [_call(host, mode="big", size_bytes=BIG_BYTES) for _ in range(2 + BIG_RUNS)]
    return {"calls_s": calls[WARM_UP:], "big_s": big[2:]}


def _call(host: ChildHost, **parameters: Any) -> float:
    began = time.perf_counter()
    host.run(parameters, {}, on_segment=lambda *_: None, on_progress=lambda _: None, deadline_s=60)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(_timed(sys.argv[1])))
