"""How slow this machine currently is, for tests that limit processor time.

The same instructions can take several times as long while other processes or virtual machines share the
core, its caches and its memory. A fixed limit in seconds would then measure that load, not the code.
"""

import json
import time

ROUNDS = 3
QUIET_S = 0.0065
"""Processor seconds that `_work` takes on a quiet machine."""
MOST = 6.0
"""The upper limit, so that no measurement makes a test meaningless."""


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
