"""On PYTHONPATH it makes a client in another process wait a fiftieth of a second where it would wait longer.

The fake engines answer at once, so the waits between polls would be all that such a test takes; how long
they are is tested with a clock of its own.
"""

import time

from tenuto_client.exchange import SystemClock

SHORT_S = 0.02


def _sleep(clock: SystemClock, seconds: float) -> None:
    time.sleep(min(seconds, SHORT_S))


SystemClock.sleep = _sleep  # type: ignore[method-assign, assignment]
