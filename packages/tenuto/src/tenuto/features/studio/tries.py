"""Tries of passwords and links, and new accounts: how many at once, counted over all processes.

A count is one row with the time at which it will be empty. Rows name what they count by its digest. Knows no
requests; what a process counts by itself, before it asks the database, is in `features.studio.studio`.
"""

import hashlib
import math
from collections.abc import Sequence

from msgspec import Struct

from tenuto.db.database import Transaction
from tenuto.errors import RateLimited
from tenuto.features.studio import store

CLOCK_MS = 600_000
"""By how much the clocks of machines may differ. A row that is full for longer was written by a wrong clock
and counts as empty."""
PRUNED_AT_ONCE = 10
"""Empty rows removed with each try, which adds three at most."""


class Limit(Struct, frozen=True):
    """So many tries at once, then one each `leak_s`."""

    name: str
    size: int
    leak_s: int


OF_ADDRESS = Limit("address", 20, 10)
OF_PAIR = Limit("address and name", 5, 30)
OF_NAME = Limit("name", 50, 20)
"""A wide limit: while a name is guessed at from everywhere, its owner has to wait as well, but not where he
signed in lately: two addresses that try on would else keep him out for ever."""
KNOWN = Limit("known", 1, 30 * 86_400)
NEW_ACCOUNTS = Limit("new accounts of address", 5, 60)

Counts = Sequence[tuple[Limit, str]]
"""What a try counts for. Always in the same order, in which its rows are locked."""


def of_password(address: str, name: str, *, is_known: bool = False) -> Counts:
    """What a try of a name's password counts for; without a name, a try of a link."""
    if not name:
        return [(OF_ADDRESS, address)]
    of_name = [] if is_known else [(OF_NAME, name)]
    return [(OF_ADDRESS, address), (OF_PAIR, f"{address} {name}"), *of_name]


def is_known(tx: Transaction, address: str, name: str, *, now_ms: int) -> bool:
    """Whether this name signed in at this address lately."""
    return store.try_empty_at(tx, _digest(KNOWN, f"{address} {name}")) > now_ms


def note_known(tx: Transaction, address: str, name: str, *, now_ms: int) -> None:
    """This name has signed in there: its row begins anew, whatever is in it."""
    key, leak_ms = f"{address} {name}", KNOWN.leak_s * 1000
    store.count_try(
        tx, _digest(KNOWN, key), leak_ms=leak_ms, room_until=now_ms, latest=now_ms - 1, now_ms=now_ms
    )


def take(tx: Transaction, counts: Counts, *, limit: str, now_ms: int) -> None:
    """Count one try. RateLimited, named `limit`, which counts none."""
    for each, key in counts:
        leak_ms, counted = each.leak_s * 1000, _digest(each, key)
        full_ms = each.size * leak_ms
        room_until, latest = now_ms + full_ms - leak_ms, now_ms + full_ms + CLOCK_MS
        if not store.count_try(
            tx, counted, leak_ms=leak_ms, room_until=room_until, latest=latest, now_ms=now_ms
        ):
            raise refusal((store.try_empty_at(tx, counted) - room_until) / 1000, limit)
    store.forget_old_tries(tx, now_ms, PRUNED_AT_ONCE)


def give_back(tx: Transaction, counts: Counts) -> None:
    """The password was correct, or the link valid: its try does not count."""
    for each, key in counts:
        store.uncount_try(tx, _digest(each, key), each.leak_s * 1000)


def refusal(wait_s: float, limit: str) -> RateLimited:
    """What is answered until a try counts no more."""
    seconds = math.ceil(wait_s)
    return RateLimited(
        f"Too many attempts; try again in {seconds} seconds.", retry_after_s=seconds, limit=limit
    )


def _digest(limit: Limit, key: str) -> str:
    return hashlib.sha256(f"{limit.name}: {key}".encode()).hexdigest()
