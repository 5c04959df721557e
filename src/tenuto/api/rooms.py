"""How many more jobs an account may queue, as last counted, so that few submissions have to count.

Counting takes as long as the queue is. What is remembered is on the safe side: in this process every job
takes from it, and jobs that run make room that is seen with the next count. What other API processes accept
meanwhile is not seen. So where there is much room a quarter of it is taken as known, for half a minute: four
processes together cannot go beyond it. Where there is little, all of it is, for a second.
"""

import time
from collections.abc import Callable

FRESH_S = 1.0
MUCH, SHARE, MUCH_FRESH_S = 400, 4, 30.0
MAX_KNOWN = 20_000


class Rooms:
    """Room by account and lane."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[int, float]] = {}

    def take(self, account_id: str, lane: str) -> bool:
        """Whether there surely is room for one more job, which is then taken; False: count."""
        left, until = self._known.get((account_id, lane), (0, 0.0))
        if left < 1 or self._clock() >= until:
            return False
        self._known[account_id, lane] = (left - 1, until)
        return True

    def counted(self, account_id: str, lane: str, left: int) -> None:
        """So many more jobs were allowed just now."""
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        if left >= MUCH:
            self._known[account_id, lane] = (left // SHARE, self._clock() + MUCH_FRESH_S)
        else:
            self._known[account_id, lane] = (left, self._clock() + FRESH_S)
