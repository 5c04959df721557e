"""Requests per second of each key: token buckets in memory, so that a flood costs no database.

A restart forgets them, and every API process counts for itself: they protect the service, not a quota. A key
that goes on asking after it was refused is answered late, so that its flood is as slow as its connections;
so are strangers without a key, all together, when they ask for more than one key might.
"""

import random
import threading
import time
from collections.abc import Callable

from tenuto.errors import RateLimited

BURST_SECONDS = 2
MAX_KEYS = 20_000
PROMPT_REFUSALS_PER_SECOND = 10
PROMPT_REFUSALS = 20
"""So many refusals of a key are answered at once, and a few more each second; the rest after a pause."""
PAUSE_S = (0.15, 0.35)
"""From, to: each pause is of another length, or a flood's connections would come back together, wave by wave,
and whoever asks during a wave would wait for all of it."""


class Buckets:
    """Token buckets by key id: so many tokens come in a second, and so many are kept. From any thread."""

    def __init__(self, per_second: int, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        # Keys are admitted in the database's threads on PostgreSQL, in the event loop on SQLite.
        self._lock = threading.Lock()

    def take(self, key_id: str) -> bool:
        """Whether there was a token."""
        with self._lock:
            now = self._clock()
            tokens, since = self._left.get(key_id, (float(self._burst), now))
            tokens = min(self._burst, tokens + (now - since) * self._per_second)
            allowed = tokens >= 1
            self._left[key_id] = (tokens - 1 if allowed else tokens, now)
            if len(self._left) > MAX_KEYS:
                self._forget_full(now)
            return allowed

    def _forget_full(self, now: float) -> None:
        """Drop buckets that are full again; when that is not enough, the oldest half."""
        kept = {
            key: (tokens, since)
            for key, (tokens, since) in self._left.items()
            if tokens + (now - since) * self._per_second < self._burst
        }
        if len(kept) > MAX_KEYS:
            kept = dict(sorted(kept.items(), key=lambda item: item[1][1])[MAX_KEYS // 2 :])
        self._left = kept


class Rates:
    """How often each key may ask; `per_second` 0 lets everything through."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._requests = Buckets(per_second, per_second * BURST_SECONDS, clock)
        self._refusals = Buckets(PROMPT_REFUSALS_PER_SECOND, PROMPT_REFUSALS, clock)
        self._strangers = Buckets(per_second, per_second * BURST_SECONDS, clock)

    def take(self, key_id: str) -> None:
        """One request of this key. Raises RateLimited, which says how long its answer is held back."""
        if self._per_second == 0 or self._requests.take(key_id):
            return
        # Not by a name of this frame: error, traceback and frame would keep each other until a collection.
        raise self._refusal(key_id)

    def _refusal(self, key_id: str) -> RateLimited:
        refusal = RateLimited(
            f"this key makes more than {self._per_second} requests a second; wait as Retry-After says",
            limit="requests_per_second",
        )
        refusal.pause_s = 0.0 if self._refusals.take(key_id) else random.uniform(*PAUSE_S)
        return refusal

    def strangers_pause_s(self) -> float:
        """How long the refusal of one without a valid key is held back."""
        return 0.0 if self._per_second == 0 or self._strangers.take("") else random.uniform(*PAUSE_S)
