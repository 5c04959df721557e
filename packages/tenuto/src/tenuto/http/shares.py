"""The limits that all connections of a process share: how many there are, and how many linger.

At the limit, connections without a request in progress are closed to make room for new ones. Used by the
event loop alone. Knows neither HTTP nor the database.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from tenuto.addresses import Network

YIELD_S = 1.0
"""A connection without a request for this long is closed if a new connection needs its place."""
YIELDING_AT_ONCE = 8
"""Finding them means a scan of all connections, so a few are closed each time."""


BYTES_PER_SWEEP = 64 * 1024 * 1024
"""What all lingering connections may send between two sweeps, so that discarding never occupies the loop."""


class Guest(Protocol):
    """A connection, as `Connections` sees it."""

    address: str | None

    def idle_s(self) -> float | None:
        """Seconds without a request in progress; None: one is in progress, or it is closing."""
        ...

    def give_way(self) -> None:
        """Close; a new connection needs the place."""
        ...


class Connections:
    """Open connections of one process, by address. Used by the event loop alone."""

    def __init__(self, most: int, per_address: int, proxies: Sequence[Network] = ()) -> None:
        self._most, self._per_address = most, per_address
        self._of_address: Counter[str] = Counter()
        self._yielding = 0

        @lru_cache(maxsize=4096)
        def origin(host: str) -> str | None:
            return _origin(host, proxies)

        self._origin = origin

    def enter(self, client: tuple[str, int] | None) -> str | None:
        """Counts a new connection and returns its address.

        None stands for a trusted proxy, which speaks for many clients, and for a socket without an address:
        the limit per address does not apply to them.
        """
        address = None if client is None else self._origin(client[0])
        if address is not None:
            self._of_address[address] += 1
        return address

    def leave(self, address: str | None, *, gave_way: bool) -> None:
        """A connection has ended."""
        self._yielding -= gave_way
        if address is not None:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def beyond_share(self, address: str | None) -> int:
        """By how many connections an address exceeds its limit (0 per address: no limit)."""
        if address is None or not self._per_address:
            return 0
        return max(0, self._of_address[address] - self._per_address)

    def beyond_most(self, guests: Iterable[Guest], count: int) -> int:
        """By how many connections the limit is exceeded, after idle ones were closed."""
        beyond = count - self._yielding - self._most
        if beyond > 0:
            beyond -= self._close_idle(guests)
        return max(0, beyond)

    def _close_idle(self, guests: Iterable[Guest]) -> int:
        """Closes a few idle connections: first of the address with the most, and there the longest idle."""
        idle = [(guest, seconds) for guest in guests if (seconds := guest.idle_s() or 0.0) >= YIELD_S]
        idle.sort(key=lambda each: (-self._of_address.get(each[0].address or "", 0), -each[1]))
        for guest, _ in idle[:YIELDING_AT_ONCE]:
            self._yielding += 1
            guest.give_way()
        return len(idle[:YIELDING_AT_ONCE])


def _origin(host: str, proxies: Sequence[Network]) -> str | None:
    """An IPv4 address, or the IPv6 /64 that one customer usually has; None for a trusted proxy."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in network for network in proxies):
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class Lingering:
    """How many connections may still send a body that nobody reads, and how fast each one is discarded.

    Plain HTTP clients send a whole body before they look at the answer; if we closed earlier, they would see
    a broken connection instead of their 413 or 415. So we read and discard for a while, as nginx does. A
    little of that is allowed to every connection; beyond it, one needs one of a few places. Callers with a
    key and strangers have separate places.
    """

    def __init__(self, places: int) -> None:
        self._free = {True: places, False: places}
        self._taken = 0

    def take(self, *, is_known: bool) -> bool:
        """Take a place, for a caller with a key or for a stranger; False if none is free."""
        if not self._free[is_known]:
            return False
        self._free[is_known] -= 1
        self._taken += 1
        return True

    def give_back(self, *, is_known: bool) -> None:
        """Free the place again."""
        self._free[is_known] += 1
        self._taken -= 1

    def share_bytes(self) -> int:
        """What one connection with a place may send until the next sweep."""
        return BYTES_PER_SWEEP // max(1, self._taken)
