"""Who may have how much of a process at once: connections by address, requests under way by account.

Strangers are known by their address alone, callers by their account. Both have a fixed bound, and both yield
when it gets full: connections that nobody is answered on are closed for new ones, and the last half of what
can be under way is kept for accounts with little. Knows neither HTTP nor the database.
"""

import ipaddress
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from tenuto.addresses import Network
from tenuto.errors import RateLimited

RESERVED_EACH = 4
"""Requests that every account may have under way, however many others have."""
YIELD_S = 1.0
"""A connection on which nothing was under way for so long is closed if somebody else needs its place."""
YIELDING_AT_ONCE = 8
"""Looking for them takes the time of all connections; so a few are closed each time."""


class Requests:
    """Requests under way in one process, by account; from any thread."""

    def __init__(self, per_account: int, connections: int) -> None:
        self._per_account = per_account
        self._open = connections // 2
        self._under_way: Counter[str] = Counter()
        self._total = 0
        # Entered in the database's threads on PostgreSQL, in the event loop on SQLite.
        self._lock = threading.Lock()

    def enter(self, account_id: str) -> None:
        """One more of this account. RateLimited when it has its share (0 per account: no limit)."""
        with self._lock:
            count = self._under_way[account_id]
            is_full = self._total >= self._open and count >= RESERVED_EACH
            if self._per_account and (is_full or count >= self._per_account):
                raise RateLimited(
                    f"this account already has {count} requests in progress, its limit for now; "
                    "wait for their answers",
                    limit="requests_at_once",
                )
            self._under_way[account_id] = count + 1
            self._total += 1

    def leave(self, account_id: str) -> None:
        """It is answered, or its client has gone."""
        with self._lock:
            self._total -= 1
            self._under_way[account_id] -= 1
            if not self._under_way[account_id]:
                del self._under_way[account_id]


class Guest(Protocol):
    """A connection, as far as its place is concerned."""

    address: str | None

    def idle_s(self) -> float | None:
        """For how long nothing has been under way on it; None: something is, or it is closing."""
        ...

    def give_way(self) -> None:
        """Close; somebody else needs the place."""
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
        """Notes a new connection and gives its address.

        None stands for a trusted proxy, behind which are many, and for a socket without an address: they have
        no share.
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
        """How many connections an address has too many (0 per address: no limit)."""
        if address is None or not self._per_address:
            return 0
        return max(0, self._of_address[address] - self._per_address)

    def beyond_most(self, guests: Iterable[Guest], count: int) -> int:
        """How many connections there are too many, when those that can have given way."""
        beyond = count - self._yielding - self._most
        if beyond > 0:
            beyond -= self._make_room(guests)
        return max(0, beyond)

    def _make_room(self, guests: Iterable[Guest]) -> int:
        """Closes a few connections on which nothing is under way: of whoever has most, the longest idle."""
        idle = [(guest, seconds) for guest in guests if (seconds := guest.idle_s() or 0.0) >= YIELD_S]
        idle.sort(key=lambda each: (-self._of_address.get(each[0].address or "", 0), -each[1]))
        for guest, _ in idle[:YIELDING_AT_ONCE]:
            self._yielding += 1
            guest.give_way()
        return len(idle[:YIELDING_AT_ONCE])


def _origin(host: str, proxies: Sequence[Network]) -> str | None:
    """An IPv4 address, or the 64 bits of IPv6 that one customer usually has; None for a trusted proxy."""
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
