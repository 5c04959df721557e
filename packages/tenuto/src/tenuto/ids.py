"""Ids: `kind_` and 26 characters of Crockford's base32 in lower case, ordered by time.

128 bits: 48 of milliseconds, 80 of randomness, as in a ULID. Ids of one process always increase, even
within a millisecond or when the clock goes back, so that they sort in order of acceptance.
"""

import os
import re
import threading
from collections.abc import Callable

Clock = Callable[[], int]
"""Wall time in integer milliseconds UTC; `bootstrap` alone makes the real one."""

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in ALPHABET for b in ALPHABET]
_STEP_BITS = 40
_FETCHED_BYTES = 2000
_PATTERN = re.compile(r"[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}\Z")


class RandomBits:
    """System randomness, fetched for many ids at once: the system call would cost more than all the rest."""

    def __init__(self) -> None:
        self._left = memoryview(b"")

    def __call__(self, bits: int) -> int:
        """A random number of `bits` bits, a multiple of 8. One thread at a time."""
        size = bits // 8
        if len(self._left) < size:
            self._left = memoryview(os.urandom(_FETCHED_BYTES))
        taken, self._left = self._left[:size], self._left[size:]
        return int.from_bytes(taken, "big")


class Ids:
    """One process's source of new ids. It must not be shared with a forked process."""

    def __init__(self, clock: Clock, random_bits: Callable[[int], int] | None = None) -> None:
        self._clock = clock
        self._random_bits = random_bits or RandomBits()
        self._last = 0
        self._lock = threading.Lock()

    def new(self, kind: str) -> str:
        """A new id such as `job_01k…`; `kind` is the word before the underscore."""
        now_ms = self._clock()
        with self._lock:
            fresh = (now_ms << 80) | self._random_bits(80)
            if fresh <= self._last:
                fresh = self._last + 1 + self._random_bits(_STEP_BITS)
            self._last = fresh
        return f"{kind}_{encode(fresh)}"


def encode(number: int) -> str:
    """The 26 characters of a number below 2**130."""
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def is_id(text: str, kind: str) -> bool:
    """Whether `text` has the form of an id of this kind; whether it exists is another question."""
    return text.startswith(kind + "_") and len(text) == len(kind) + 27 and _PATTERN.match(text) is not None
