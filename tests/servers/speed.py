"""Seconds are measured by `make limits` alone, and how slow this machine currently is.

`make test` runs beside whatever else a machine does: a limit in seconds would measure that load.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

IS_MEASURED = "TENUTO_MEASURED" in os.environ
"""Set by `make limits`, which runs the tests marked `measured`, and by `make fuzz`."""
HANG_S = 120.0
"""A wait that only a hang makes so long."""
ROUNDS = 3
QUIET_S = 0.0065
"""Processor seconds that `_work` takes on a quiet machine."""
MOST = 6.0
"""The upper limit, so that no measurement makes a test meaningless."""


@contextmanager
def within(limit_s: float) -> Iterator[None]:
    """Where seconds are measured, what is done inside takes at most so long."""
    began_s = time.monotonic()
    yield
    assert_within(limit_s, time.monotonic() - began_s)


def assert_within(limit_s: float, *taken_s: float) -> None:
    """The same of seconds that somebody else has counted."""
    assert not IS_MEASURED or max(taken_s) <= limit_s, taken_s


@contextmanager
def at_least(limit_s: float) -> Iterator[None]:
    """What is done inside takes at least so long, on any machine: load can only make it longer."""
    began_s = time.monotonic()
    yield
    assert limit_s <= time.monotonic() - began_s


def slowness() -> float:
    """Processor time of some work now, divided by that on a quiet machine: from 1 to `MOST`."""
    began_s = time.thread_time()
    for _ in range(ROUNDS):
        _work()
    return min(MOST, max(1.0, (time.thread_time() - began_s) / ROUNDS / QUIET_S))


def _work() -> None:
    """A mix of statements, objects and bytes, like a request or a parser."""
    rows = [{"number": number, "text": f"row {number}", "half": number / 2} for number in range(4000)]
    json.loads(json.dumps(rows))
    sorted(rows, key=lambda row: str(row["text"]))
