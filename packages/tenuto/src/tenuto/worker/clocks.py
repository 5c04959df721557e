"""Whether the wall clock can be trusted: what would act on it asks here first. Knows no jobs."""

import threading

CLOCKS_AGREE_MS = 60_000
CLOCKS_AGREE_FOR_S = 600.0


class ClockAgreement:
    """Whether wall and monotonic time have gone side by side long enough to act on it."""

    def __init__(self, wall_ms: int, monotonic_s: float) -> None:
        self._lock = threading.Lock()
        self._wall_ms = wall_ms
        self._since = self._monotonic_s = monotonic_s
        self._jumped_at = float("-inf")

    def holds(self, wall_ms: int, monotonic_s: float) -> bool:
        """Look at both clocks; a jump of more than a minute restarts the ten minutes."""
        with self._lock:
            passed_ms = (monotonic_s - self._monotonic_s) * 1000
            if abs((wall_ms - self._wall_ms) - passed_ms) > CLOCKS_AGREE_MS:
                self._since = self._jumped_at = monotonic_s
                self._wall_ms, self._monotonic_s = wall_ms, monotonic_s
            return monotonic_s - self._since >= CLOCKS_AGREE_FOR_S

    def is_steady(self, monotonic_s: float) -> bool:
        """Whether no jump was seen for as long: who was at work during one may look a day late, or years."""
        return monotonic_s - self._jumped_at >= CLOCKS_AGREE_FOR_S
