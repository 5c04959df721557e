"""Bodies that nobody reads: how many connections may still send one, and how fast each is thrown away.

Plain HTTP clients send a whole body before they look at the answer; if we close earlier, they see a broken
connection instead of their 413 or 415. So an answered connection is read into nothing for a while, as nginx
does. A little of that is free for everybody; beyond it a connection needs one of a few places. Callers with
a key and strangers have places of their own. Knows no connection; used by the event loop alone.
"""

BYTES_PER_SWEEP = 64 * 1024 * 1024
"""What all of them together may send between two sweeps, so that throwing away never occupies the loop."""


class Lingering:
    """The places of one process."""

    def __init__(self, places: int) -> None:
        self._free = {True: places, False: places}
        self._taken = 0

    def take(self, *, is_known: bool) -> bool:
        """Whether there was a place, for a caller with a key or for a stranger."""
        if not self._free[is_known]:
            return False
        self._free[is_known] -= 1
        self._taken += 1
        return True

    def give_back(self, *, is_known: bool) -> None:
        """The place is free again."""
        self._free[is_known] += 1
        self._taken -= 1

    def share_bytes(self) -> int:
        """What one connection with a place may send until the next sweep."""
        return BYTES_PER_SWEEP // max(1, self._taken)
