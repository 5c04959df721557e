"""What jobs made for an account, by day, model and key. Only jobs that succeeded count."""

import datetime
from dataclasses import dataclass

from tenuto.db.database import Transaction
from tenuto.jobs import charge_store
from tenuto.jobs.charge_store import UsageRow
from tenuto.jobs.days import days, iso_day


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
    """From one day to another, both included, newest first; counts every job of these days."""
    rows = charge_store.usage(tx, account_id, days("job", since, until), limit=limit)
    return [_usage(row) for row in rows]


def _usage(row: UsageRow) -> JobUsage:
    return JobUsage(
        day=iso_day(row.day),
        model=row.model,
        kind=row.kind,
        key_id=row.key_id,
        jobs=row.jobs,
        characters=row.characters,
        audio_ms=row.audio_ms,
        charged_micros=row.charged_micros,
    )
