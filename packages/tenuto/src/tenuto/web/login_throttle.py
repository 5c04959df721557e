"""How often a password may be guessed: of a name, from an address, and of a name from an address.

Buckets in memory that fill with tries and leak with time; a password that is right takes its try back. A
restart forgets them, and every process counts for itself: four processes allow four times as much.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from tenuto.errors import RateLimited

MAX_KEYS = 20_000
"""Of each sort; beyond, the one that was not touched for longest is forgotten."""


class Buckets:
    """Tries by key: so many at once, then one every so many seconds."""

    def __init__(self, size: int, leak_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._leak_s = leak_s
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: str) -> float:
        """How long until there is room for one more try."""
        return max(0.0, (self._level(key) + 1 - self._size) * self._leak_s)

    def add(self, key: str, tries: int) -> None:
        """So many tries were made, or are taken back."""
        level = max(0.0, self._level(key) + tries)
        self._levels.pop(key, None)
        if level:
            self._levels[key] = (level, self._clock())
        if len(self._levels) > MAX_KEYS:
            self._levels.popitem(last=False)

    def _level(self, key: str) -> float:
        level, since = self._levels.get(key, (0.0, 0.0))
        return max(0.0, level - (self._clock() - since) / self._leak_s)


class LoginThrottle:
    """The limits together. Used by the event loop alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._addresses = Buckets(20, 10.0, clock)
        self._pairs = Buckets(5, 30.0, clock)
        # Whoever is guessed at from everywhere has to wait as well; so it is wide.
        self._names = Buckets(50, 20.0, clock)
        self._accounts = Buckets(5, 60.0, clock)

    def take(self, address: str, name: str = "") -> None:
        """One try of this name's password, or of a link, from there. RateLimited, which counts no try."""
        tried = self._tried(address, name)
        _refuse_early([buckets.wait_s(key) for buckets, key in tried], "login_tries")
        for buckets, key in tried:
            buckets.add(key, 1)

    def give_back(self, address: str, name: str = "") -> None:
        """It was right."""
        for buckets, key in self._tried(address, name):
            buckets.add(key, -1)

    def take_account(self, address: str) -> None:
        """One new account from there. RateLimited."""
        _refuse_early([self._accounts.wait_s(address)], "new_accounts")
        self._accounts.add(address, 1)

    def _tried(self, address: str, name: str) -> list[tuple[Buckets, str]]:
        if not name:
            return [(self._addresses, address)]
        return [(self._addresses, address), (self._pairs, f"{address} {name}"), (self._names, name)]


def _refuse_early(waits_s: list[float], limit: str) -> None:
    if (wait_s := max(waits_s)) > 0:
        seconds = math.ceil(wait_s)
        message = f"Too many tries; the next one counts in {seconds} seconds."
        raise RateLimited(message, retry_after_s=seconds, limit=limit)
