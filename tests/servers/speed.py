"""How slow this machine is at the moment, for bounds on processor time.

The same instructions take several times as long while other processes share the core, its caches and its
memory, or where a virtual machine pays for each page. A bound in seconds then says more of the neighbours
than of the code that it bounds.
"""

import json
import time

ROUNDS = 3
QUIET_S = 0.0065
"""What `_work` took on the quiet machine on which the bounds were set."""
MOST = 6.0
"""No machine is believed to be slower, or a bound would allow anything."""


def slowness() -> float:
    """How many times as long as on a quiet machine a piece of work takes at the moment; from 1 to `MOST`.

    Measured by processor time, and over three rounds: what is bounded takes as long as several of them.
    """
    began_s = time.thread_time()
    for _ in range(ROUNDS):
        _work()
    return min(MOST, max(1.0, (time.thread_time() - began_s) / ROUNDS / QUIET_S))


def _work() -> None:
    """Statements, objects and bytes in about the shares of a request or a parser."""
    rows = [{"number": number, "text": f"row {number}", "half": number / 2} for number in range(4000)]
    json.loads(json.dumps(rows))
    sorted(rows, key=lambda row: str(row["text"]))
