"""What jobs made for an account, by day, model and key. Only jobs that succeeded count."""

import datetime
from dataclasses import dataclass

from tenuto.db.database import Row, Transaction
from tenuto.ids import encode
from tenuto.jobs import read_store

DAY_MS = 24 * 3600 * 1000
_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class JobUsage:
    """The succeeded jobs that one key had accepted on one day (UTC) by one model."""

    day: str
    model: str
    kind: str
    key_id: str
    jobs: int
    characters: int
    """Spoken, of speech."""
    audio_ms: int
    """Made by speech, recognised by recognition."""
    charged_micros: int


def of_account(
    tx: Transaction, account_id: str, *, since: datetime.date, until: datetime.date, limit: int
) -> list[JobUsage]:
    """From one day to another, both included, newest first; reads every job of these days."""
    since_ms, until_ms = _start_ms(since), _start_ms(until) + DAY_MS
    rows = read_store.usage(
        tx,
        account_id,
        # Ids tell the time and never go back, so that of a clock set back they run ahead.
        low=_first_id(since_ms),
        high=_first_id(until_ms + DAY_MS),
        since_ms=since_ms,
        until_ms=until_ms,
        limit=limit,
    )
    return [_usage(row) for row in rows]


def _usage(row: Row) -> JobUsage:
    return JobUsage(
        day=(_EPOCH + datetime.timedelta(days=row["day"])).isoformat(),
        model=row["model"],
        kind=row["kind"],
        key_id=row["key_id"],
        jobs=row["jobs"],
        characters=row["characters"],
        audio_ms=row["audio_ms"],
        charged_micros=row["charged_micros"],
    )


def _start_ms(day: datetime.date) -> int:
    return (day - _EPOCH).days * DAY_MS


def _first_id(at_ms: int) -> str:
    """Below every id that was made from this moment on."""
    return "job_" + encode(at_ms << 80)
