"""Who may have how many connections by address, and who gives way."""

from collections import Counter
from dataclasses import dataclass

import pytest

from tenuto.config.addresses import networks
from tenuto.features.http_guard.shares import YIELD_S, YIELDING_AT_ONCE, Connections


@dataclass(eq=False)
class Idle:
    """A connection of this address on which nothing has been under way for so long."""

    address: str | None
    seconds: float | None
    gave_way: bool = False
    unproven: bool = False

    def idle_s(self) -> float | None:
        return None if self.gave_way else self.seconds

    def is_unproven(self) -> bool:
        return self.unproven

    def give_way(self) -> None:
        self.gave_way = True


def test_an_address_has_a_share_of_the_connections() -> None:
    """Beyond it an address is told how many are too many; the 64 bits of a customer's IPv6 are one."""
    connections = Connections(100, 3)
    addresses = [connections.enter((host, 1)) for host in ["192.0.2.1"] * 4 + ["192.0.2.2"]]
    sixes = [connections.enter((host, 1)) for host in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")]

    assert [1, 0] == [connections.beyond_share([], address) for address in addresses[3:]]
    assert 2 == len(set(sixes))
    connections.leave(addresses[0], gave_way=False)
    assert 0 == connections.beyond_share([], addresses[3])


def test_idle_connections_make_room_within_their_address() -> None:
    """Three hundred browsers behind one address keep what they do not use; the next one gets in, and nobody
    elsewhere loses anything (P14)."""
    connections = Connections(100, 3)
    other = Idle(connections.enter(("192.0.2.2", 1)), 60.0)
    guests = [Idle(connections.enter(("192.0.2.1", 1)), seconds) for seconds in (YIELD_S, None, YIELD_S / 2)]
    beyond = []
    for _ in range(2):
        connections.enter(("192.0.2.1", 1))
        beyond.append(connections.beyond_share([other, *guests], "192.0.2.1"))
    connections.leave("192.0.2.1", gave_way=True)

    assert [0, 1] == beyond
    assert [False, True, False, False] == [guest.gave_way for guest in (other, *guests)]
    assert 1 == connections.beyond_share([], "192.0.2.1")


def test_trusted_proxies_have_no_share() -> None:
    """Behind a proxy are many clients, behind a socket without an address whoever holds it."""
    connections = Connections(100, 3, networks("10.0.0.0/8"))
    hosts = ["10.1.2.3", "::ffff:10.1.2.3"] * 5
    addresses = [*(connections.enter((host, 1)) for host in hosts), connections.enter(None)]

    assert {None} == set(addresses)
    assert 0 == connections.beyond_share([], None)


def test_idle_connections_give_way_to_a_new_one() -> None:
    """Of the address that has most, the longest idle ones; none that works or came just now."""
    connections = Connections(50, 0)
    guests = [Idle(connections.enter(("192.0.2.1", 1)), 10.0 + number) for number in range(30)]
    guests += [Idle(connections.enter(("192.0.2.2", 1)), 70.0) for _ in range(10)]
    guests += [Idle(connections.enter(("192.0.2.1", 1)), None) for _ in range(6)]
    guests += [Idle(connections.enter(("192.0.2.1", 1)), YIELD_S / 2) for _ in range(4)]
    assert 0 == connections.beyond_most(guests, 50, "192.0.2.3")
    guests.append(Idle(connections.enter(("192.0.2.3", 1)), 0.0))
    beyond = connections.beyond_most(guests, 51, "192.0.2.3")
    gone = [guest for guest in guests if guest.gave_way]

    assert (0, YIELDING_AT_ONCE) == (beyond, len(gone))
    assert {("192.0.2.1", 39.0 - number) for number in range(8)} == {(g.address, g.seconds) for g in gone}
    # Their places are given to those who come next, before the connections have ended.
    assert 0 == connections.beyond_most(guests, 51 + YIELDING_AT_ONCE - 1, "192.0.2.3")
    assert YIELDING_AT_ONCE == sum(guest.gave_way for guest in guests)


def test_a_flood_closes_its_own_connections_first() -> None:
    """Whoever comes with many takes places from himself, as long as he has any that are idle (P14)."""
    connections = Connections(100, 0)
    quiet = [Idle(connections.enter((f"192.0.2.{number}", 1)), 60.0) for number in range(10)]
    flood = [Idle(connections.enter(("198.51.100.1", 1)), 1.0) for _ in range(90)]
    for count in range(80):
        connections.enter(("198.51.100.1", 1))
        connections.beyond_most([*quiet, *flood], 101 + count, "198.51.100.1")

    assert Counter({False: 10}) == Counter(guest.gave_way for guest in quiet)


def test_heads_that_are_renewed_keep_nobody_out() -> None:
    """They give way at any age to an address that has fewer; one that has as many gets no place."""
    connections = Connections(30, 0)
    guests = [Idle(connections.enter((f"198.51.100.{n % 3}", 1)), 0.0, unproven=True) for n in range(30)]
    working = Idle(connections.enter(("192.0.2.1", 1)), 0.0)
    new = Idle(connections.enter(("192.0.2.2", 1)), 0.0, unproven=True)
    connections.enter(("198.51.100.1", 1))
    attackers = connections.beyond_most([*guests, working, new], 31, "198.51.100.1")
    owners = connections.beyond_most([*guests, working, new], 32, "192.0.2.2")

    assert (1, 0) == (attackers, owners)
    assert [False, False] == [working.gave_way, new.gave_way]
    assert any(guest.gave_way for guest in guests)


def test_an_address_from_which_a_key_came_displaces_strangers() -> None:
    """Of a thousand addresses with one connection each; that of another caller with a key stays."""
    connections = Connections(1000, 0)
    strangers = [Idle(connections.enter((f"198.51.{n // 250}.{n % 250}", 1)), 0.0) for n in range(1000)]
    for address in ("192.0.2.1", "192.0.2.2"):
        connections.note_known(address)
    other = Idle(connections.enter(("192.0.2.2", 1)), 0.0)
    connections.enter(("192.0.2.1", 1))
    known = connections.beyond_most([*strangers, other], 1002, "192.0.2.1")
    connections.enter(("203.0.113.1", 1))
    stranger = connections.beyond_most([*strangers, other], 1003 + YIELDING_AT_ONCE, "203.0.113.1")

    assert (0, False) == (known, other.gave_way)
    assert 0 < stranger


@pytest.mark.parametrize("gave_way", [True, False])
def test_a_place_is_free_once(gave_way: bool) -> None:
    """A connection that gave way is not counted twice when it ends."""
    connections = Connections(1, 0)
    old = Idle(connections.enter(("192.0.2.1", 1)), 5.0 if gave_way else None)
    connections.enter(("192.0.2.2", 1))
    first = connections.beyond_most([old], 2, "192.0.2.2")
    connections.leave("192.0.2.1", gave_way=gave_way)

    assert (0 if gave_way else 1, 0) == (first, connections.beyond_most([], 1, None))
