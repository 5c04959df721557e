"""How long to wait: the contract's rules about `Retry-After`, and what a lost answer waits. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

DEFAULT_WAIT_S = 3.0
"""When `Retry-After` is missing or cannot be read."""
MIN_WAIT_S = 1.0
MAX_BACKOFF_S = 16.0
GIVE_UP_S = 2 * 3600.0
"""How long waiting for a job lasts, and how long a request that is refused for now is kept; waiting again
continues."""
MAX_HOLD_S = 30
"""How long a read of a job may be asked to be held back at the service."""
SEGMENT_POLL_S = 0.7
"""From one request for a preview's list to the next: 0.5 to 1 second."""
SEGMENT_PAUSE_S = 0.5
"""The least pause after an answer with the list, however long the answer took."""

CLOCK_STEP_S = 0.05
"""By how much two clocks may differ about the same seconds."""

RETRIED = frozenset({429, 503})
"""Refused for now: nothing was done."""
RETRIED_WHEN_REPEATABLE = frozenset({408, 500, 502, 504})
"""Perhaps done, perhaps not: only what makes nothing twice is sent again."""

_SECONDS = re.compile(r"\d{1,9}(\.\d+)?\Z", re.ASCII)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that `Retry-After` asks for, a number or an HTTP date; None when missing or unreadable.

    A date is held against the `Date` of the same answer where there is one: this machine's clock may be off.
    """
    text = headers.get("retry-after", "").strip()
    if _SECONDS.match(text):
        return float(text)
    until = _moment(text)
    if until is None:
        return None
    return max(0.0, (until - (_moment(headers.get("date", "")) or now)).total_seconds())


def wait_s(headers: Mapping[str, str], now: datetime) -> float:
    """Seconds to wait before the next read or try, at least 1."""
    asked = retry_after_s(headers, now)
    return DEFAULT_WAIT_S if asked is None else max(MIN_WAIT_S, asked)


def backoff_s(tries: int) -> float:
    """Seconds to wait after the answer was lost for the `tries`-th time: 1, 2, 4, 8, 16."""
    return min(MAX_BACKOFF_S, MIN_WAIT_S * 2.0 ** (tries - 1))


def hold_s(wait: float, left_s: float) -> int:
    """Seconds to ask the service to hold a read back, in place of waiting here; whole ones, at most 30."""
    return max(0, min(MAX_HOLD_S, math.ceil(wait), math.floor(left_s)))


def held_s(headers: Mapping[str, str], asked_s: int, took_s: float) -> float:
    """For how many seconds the service held a read back, of the `asked_s` that it was asked for.

    All of them or none: an answer that merely took long was not held, nor was one that came early.
    `Preference-Applied` (RFC 7240) tells the difference; a service that does not send it is paused for.
    """
    applied = headers.get("preference-applied", "").strip().lower() == f"wait={asked_s}"
    return float(asked_s) if asked_s and applied and took_s >= asked_s - CLOCK_STEP_S else 0.0


def _moment(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text.strip())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
