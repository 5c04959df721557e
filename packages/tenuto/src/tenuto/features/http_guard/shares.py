"""The limits that all connections of a process share: how many there are, and how many linger.

At the limit, connections without a request in progress are closed to make room for new ones: those of
strangers first, and of the address with the most. Used by the event loop alone. Knows neither HTTP nor the
database.
"""

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from tenuto.config.addresses import Network

YIELD_S = 1.0
"""A connection without a request for this long is closed if a new connection needs its place."""
FEW = 16
"""An address with more connections takes no place from one that has fewer, …"""
LONG_YIELD_S = 10.0
"""… unless the place has not been used for this long."""
MAX_KNOWN = 10_000
"""Addresses from which callers with a valid key came last; from any other comes a stranger."""
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

    def is_unproven(self) -> bool:
        """Whether it has not sent the whole head of a request since it was opened, or since the last one."""
        ...

    def give_way(self) -> None:
        """Close; a new connection needs the place."""
        ...


Weight = tuple[bool, int]
"""Of an address: whether strangers come from there, and how many connections it has."""


class Connections:
    """Open connections of one process, by address. Used by the event loop alone."""

    def __init__(self, most: int, per_address: int, proxies: Sequence[Network] = ()) -> None:
        self._most, self._per_address = most, per_address
        self._of_address: Counter[str] = Counter()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._yielding: Counter[str] = Counter()
        """Connections that were asked to close, by address."""

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
        self._yielding -= Counter([address or ""] * gave_way)  # Without those of which none is left.
        if address is not None:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def beyond_share(self, guests: Iterable[Guest], address: str | None) -> int:
        """By how many connections an address exceeds its limit (0 per address: no limit), after its own idle
        ones made room: behind one address may be many people, whose browsers keep what they do not use.
        """
        if address is None or not self._per_address:
            return 0
        beyond = self._of_address[address] - self._yielding[address] - self._per_address
        if beyond > 0:
            own = ((guest.idle_s() or 0.0, guest) for guest in guests if guest.address == address)
            idle = sorted(
                (each for each in own if each[0] >= YIELD_S), key=lambda each: each[0], reverse=True
            )
            beyond -= self._close([guest for _, guest in idle[: beyond + YIELDING_AT_ONCE - 1]])
        return max(0, beyond)

    def note_known(self, address: str | None) -> None:
        """A caller with a valid key, or somebody signed in, was answered there."""
        if address is not None:
            self._known[address] = None
            self._known.move_to_end(address)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)

    def beyond_most(self, guests: Iterable[Guest], count: int, address: str | None) -> int:
        """By how many connections the limit is exceeded, after others made room for one from this address."""
        beyond = count - self._yielding.total() - self._most
        if beyond > 0:
            beyond -= self._make_room(guests, beyond, self._weight(address))
        return max(0, beyond)

    def _make_room(self, guests: Iterable[Guest], wanted: int, newcomer: Weight) -> int:
        """Closes so many connections if it can, and a few more, so that not every newcomer needs a scan.

        Those of strangers first, then of the address with the most, and there the longest idle.
        """
        # Whoever is as heavy as anybody displaces only what is idle: a flood of refusals needs no weights.
        takes_young = not newcomer[0] or newcomer[1] < max(self._of_address.values(), default=0)
        found = []
        for guest in guests:
            seconds = guest.idle_s()
            if seconds is not None and (takes_young or seconds >= YIELD_S):
                weight = self._weight(guest.address)
                if _gives_way(guest, seconds, weight, newcomer):
                    found.append((weight, seconds, guest))
        found.sort(key=lambda each: each[:2], reverse=True)
        surplus = [each for each in found[wanted : wanted + YIELDING_AT_ONCE - 1] if each[0] >= newcomer]
        return self._close([guest for _, _, guest in found[:wanted] + surplus])

    def _close(self, guests: Sequence[Guest]) -> int:
        """Closes them; returns how many they are."""
        for guest in guests:
            self._yielding[guest.address or ""] += 1
            guest.give_way()
        return len(guests)

    def _weight(self, address: str | None) -> Weight:
        is_stranger = address is not None and address not in self._known
        return is_stranger, self._of_address.get(address or "", 0)


def _gives_way(guest: Guest, seconds: float, weight: Weight, newcomer: Weight) -> bool:
    """Whether a connection that is idle for so long is closed for a newcomer.

    At any age, if it has not sent a whole request or is a stranger's, and weighs more: otherwise, whoever
    renews such connections often enough would keep everybody out.
    """
    if weight > newcomer and (weight[0] or guest.is_unproven()):
        return True
    may_take = weight >= newcomer or newcomer[1] <= FEW
    return seconds >= (YIELD_S if may_take else LONG_YIELD_S)


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
