"""How long to wait: the contract's rules for `Retry-After`, and the backoff after a lost response. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

DEFAULT_WAIT_S = 3.0
"""If `Retry-After` is missing or cannot be parsed."""
MIN_WAIT_S = 1.0
MAX_BACKOFF_S = 16.0
GIVE_UP_S = 2 * 3600.0
"""How long to wait for a job, and how long to retry a request; the job itself continues."""
MAX_HOLD_S = 30
"""The longest `wait` in a read of a job: how long the service may delay its response."""
SEGMENT_POLL_S = 0.7
"""From one listing of a preview to the next; the contract asks for 0.5 to 1 second."""
SEGMENT_PAUSE_S = 0.5
"""The shortest pause after a listing, however long it took."""

CLOCK_STEP_S = 0.05
"""How much two clocks may differ over the same interval."""

RETRIED = frozenset({429, 503})
"""Any request may be retried: nothing was done, or doing it twice does no harm. Where that is unknown, the
answer says `x-should-retry: false`."""
RETRIED_WHEN_REPEATABLE = frozenset({408, 500, 502, 504})
"""Perhaps done, perhaps not: only idempotent requests are retried."""

_SECONDS = re.compile(r"\d{1,9}(\.\d+)?\Z", re.ASCII)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that `Retry-After` asks for, a number or an HTTP date; None if missing or unreadable.

    A date is compared with the `Date` header of the same response, if any: this machine's clock may be wrong.
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
    seconds = retry_after_s(headers, now)
    return DEFAULT_WAIT_S if seconds is None else max(MIN_WAIT_S, seconds)


def backoff_s(tries: int) -> float:
    """Seconds to wait after the response was lost for the `tries`-th time: 1, 2, 4, 8, 16."""
    return min(MAX_BACKOFF_S, MIN_WAIT_S * 2.0 ** (tries - 1))


def hold_s(wait: float, left_s: float) -> int:
    """Whole seconds for which the service is asked to delay a read instead of a pause here, at most 30."""
    return max(0, min(MAX_HOLD_S, math.ceil(wait), math.floor(left_s)))


def held_s(headers: Mapping[str, str], asked_s: int, took_s: float) -> float:
    """How long the service held a read back: `asked_s` seconds or 0.

    An early response was not held back, nor was one that is merely slow: the header `Preference-Applied`
    (RFC 7240) shows the difference. If the service does not send it, the client itself pauses.
    """
    applied = headers.get("preference-applied", "").strip().lower() == f"wait={asked_s}"
    return float(asked_s) if asked_s and applied and took_s >= asked_s - CLOCK_STEP_S else 0.0


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text.strip())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
