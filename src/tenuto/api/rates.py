"""Requests per second of each key: a token bucket in memory, so that a flood costs no database.

A restart forgets it, and every API process counts for itself: it protects the service, not a quota.
"""

import time
from collections.abc import Callable

from tenuto.errors import RateLimited

BURST_SECONDS = 2
MAX_KEYS = 20_000


class Rates:
    """Token buckets by key id; `per_second` 0 lets everything through."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = per_second * BURST_SECONDS
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key_id: str) -> bool:
        """Whether this key may make a request now."""
        if self._per_second == 0:
            return True
        now = self._clock()
        tokens, since = self._buckets.get(key_id, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        allowed = tokens >= 1
        self._buckets[key_id] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > MAX_KEYS:
            self._forget_full(now)
        return allowed

    def refusal(self) -> RateLimited:
        """What a key is told that may not."""
        return RateLimited(
            f"this key makes more than {self._per_second} requests a second; wait as Retry-After says",
            limit="requests_per_second",
        )

    def _forget_full(self, now: float) -> None:
        """Drop buckets that are full again; when that is not enough, the oldest half."""
        kept = {
            key: (tokens, since)
            for key, (tokens, since) in self._buckets.items()
            if tokens + (now - since) * self._per_second < self._burst
        }
        if len(kept) > MAX_KEYS:
            kept = dict(sorted(kept.items(), key=lambda item: item[1][1])[MAX_KEYS // 2 :])
        self._buckets = kept
