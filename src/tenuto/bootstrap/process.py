"""What every process of ours has: the wall clock, its log, words for the terminal, armed failpoints."""

import os
import time
from collections.abc import Callable
from typing import Any

from tenuto import failpoints

Say = Callable[[str], None]
"""Takes a line for the person at the terminal."""


def clock() -> int:
    """Wall time in milliseconds UTC."""
    return time.time_ns() // 1_000_000


def arm_failpoints() -> None:
    """For tests alone; whoever finds the variable set by mistake finds this line in the log."""
    text = os.environ.get(failpoints.VARIABLE, "")
    failpoints.arm(text)
    if text:
        log().warning("failpoints.armed", text=text)


def log() -> Any:
    """Loaded by the processes that log, for it takes as long as all the rest of a short command."""
    import structlog

    if not structlog.is_configured():
        # A short command has set none up, and stdout is for its results alone.
        from tenuto.logs import set_up_logs

        set_up_logs("info")
    return structlog.get_logger("tenuto")
