"""Days of UTC as what a query looks for: moments, and the ids that were made in them. Knows no table."""

import datetime
from dataclasses import dataclass

from tenuto.ids import encode

DAY_MS = 24 * 3600 * 1000
_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Days:
    """From the first moment up to the second, and below which ids its rows are found."""

    since_ms: int
    until_ms: int
    low: str
    high: str


def days(kind: str, since: datetime.date, until: datetime.date) -> Days:
    """From one day to another, both included; `kind` is the word that the ids begin with."""
    since_ms, until_ms = _start_ms(since), _start_ms(until) + DAY_MS
    # Ids tell the time and never go back, so that of a clock set back they run ahead.
    return Days(since_ms, until_ms, _first_id(kind, since_ms), _first_id(kind, until_ms + DAY_MS))


def iso_day(number: int) -> str:
    """A day by its number since 1970, as `2026-11-21`."""
    return (_EPOCH + datetime.timedelta(days=number)).isoformat()


def _start_ms(day: datetime.date) -> int:
    return (day - _EPOCH).days * DAY_MS


def _first_id(kind: str, at_ms: int) -> str:
    """Below every id that was made from this moment on."""
    return f"{kind}_{encode(at_ms << 80)}"
