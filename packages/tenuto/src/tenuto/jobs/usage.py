"""What jobs made for an account and what they cost it, by day, model and key; the ledger with its jobs.

Read only. Days are UTC. Only jobs that succeeded count.
"""

import datetime
from dataclasses import dataclass
from typing import Literal

from tenuto.db.database import Transaction
from tenuto.ids import encode
from tenuto.jobs import read_store as store
from tenuto.jobs.rows import DAY_MS, AccountLedgerLine, ChargeRow, JobUsage, iso_day

_EPOCH = datetime.date(1970, 1, 1)

Grouping = Literal["model", "key", "day"]


@dataclass(frozen=True, slots=True)
class Charge:
    """What the jobs of one model, key or day were charged."""

    group: str
    """The model's name, the key's id, or the day (UTC, `2026-11-21`) on which they were charged."""
    label: str
    jobs: int
    charged_micros: int


def of_account(
    tx: Transaction, account_id: str, *, since: datetime.date, until: datetime.date, limit: int
) -> list[JobUsage]:
    """Usage from one day to another, both included, newest first."""
    since_ms, until_ms = _start_ms(since), _start_ms(until) + DAY_MS
    return store.usage(tx, account_id, since_ms=since_ms, until_ms=until_ms, limit=limit)


def charges_of_account(
    tx: Transaction, account_id: str, grouping: Grouping, *, since: datetime.date, until: datetime.date
) -> list[Charge]:
    """From one day to another, both included: days in their order, models and keys by descending charge."""
    since_ms, until_ms = _start_ms(since), _start_ms(until) + DAY_MS
    # Ids contain the time and never go back, so those made under a clock that was set back are ahead of it.
    low, high = _first_entry_id(since_ms), _first_entry_id(until_ms + DAY_MS)
    rows = store.charges(
        tx, grouping, account_id, since_ms=since_ms, until_ms=until_ms, low_id=low, high_id=high
    )
    charges = [_charge(row, grouping) for row in rows]
    if grouping == "day":
        return sorted(charges, key=lambda charge: charge.group)
    return sorted(charges, key=lambda charge: (-charge.charged_micros, charge.group))


def ledger_lines(tx: Transaction, account_id: str, *, after: str, limit: int) -> list[AccountLedgerLine]:
    """Lines after this id (empty: from the first), oldest first."""
    return store.ledger_lines(tx, account_id, after=after, limit=limit)


def _charge(row: ChargeRow, grouping: Grouping) -> Charge:
    group = iso_day(int(row.grouping)) if grouping == "day" else str(row.grouping)
    return Charge(group, row.label or group, row.jobs, row.charged_micros)


def _start_ms(day: datetime.date) -> int:
    return (day - _EPOCH).days * DAY_MS


def _first_entry_id(at_ms: int) -> str:
    """Below the id of every ledger line made from this moment on."""
    return f"entry_{encode(at_ms << 80)}"
