"""Read by Python at the start of each process of a service under test: its wall clock may be moved.

The file that `WALL_CLOCK_FILE` names holds by how many seconds; it may change at any time. Only the wall
clock is moved, as a person or a time server does it; the monotonic one goes on as it is.
"""

import os
import time

_FILE = os.environ.get("WALL_CLOCK_FILE")

if _FILE:
    _time_ns, _file = time.time_ns, _FILE

    def _moved_ns() -> int:
        with open(_file) as file:  # noqa: PTH123 (called often)
            return _time_ns() + int(float(file.read() or 0) * 1_000_000_000)

    time.time_ns = _moved_ns
    time.time = lambda: _moved_ns() / 1_000_000_000
