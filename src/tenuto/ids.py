"""Ids: `kind_` and 26 characters of Crockford's base32 in lower case, ordered by time.

128 bits: 48 of milliseconds, 80 of randomness, as in a ULID. Ids of one process always rise, also
within a millisecond and when the clock goes back, so that order of ids is order of acceptance.
"""

import re
import secrets
import threading
from collections.abc import Callable

Clock = Callable[[], int]
"""Wall time in integer milliseconds UTC; `bootstrap` alone makes the real one."""

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in ALPHABET for b in ALPHABET]
_STEP_BITS = 40
_PATTERN = re.compile(r"[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}\Z")


class Ids:
    """The source of new ids of one process."""

    def __init__(self, clock: Clock, random_bits: Callable[[int], int] = secrets.randbits) -> None:
        self._clock = clock
        self._random_bits = random_bits
        self._last = 0
        self._lock = threading.Lock()

    def new(self, kind: str) -> str:
        """A new id such as `job_01k…`; `kind` is the word before the underscore."""
        fresh = (self._clock() << 80) | self._random_bits(80)
        with self._lock:
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
