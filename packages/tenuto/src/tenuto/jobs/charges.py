"""What jobs cost an account, summed from the ledger, and the ledger's lines with their jobs. Read only."""

import datetime
from dataclasses import dataclass
from typing import Literal

from tenuto.db.database import Transaction
from tenuto.jobs import charge_store as store
from tenuto.jobs.charge_store import ChargeRow, LedgerRow
from tenuto.jobs.days import days, iso_day

Grouping = Literal["model", "key", "day"]


@dataclass(frozen=True, slots=True)
class Charge:
    """What the jobs of one model, key or day were charged."""

    group: str
    """The model's name, the key's id, or the day (UTC, `2026-11-21`) on which they were charged."""
    label: str
    jobs: int
    charged_micros: int


@dataclass(frozen=True, slots=True)
class AccountLedgerLine:
    """A line of the ledger, and the job and key behind it where there is one."""

    id: str
    created_at: int
    type: str
    amount_micros: int
    """What its type names, as `billing.reads` has it."""
    available_micros: int
    held_micros: int
    job_id: str | None
    model: str | None
    key_name: str | None
    note: str | None
    """What the operator said of a credit; what was said of a job is for operators alone."""


def of_account(
    tx: Transaction, account_id: str, grouping: Grouping, *, since: datetime.date, until: datetime.date
) -> list[Charge]:
    """From one day to another, both included: days in their order, models and keys dearest first."""
    rows = store.charges(tx, grouping, account_id, days("entry", since, until))
    charges = [_charge(row, grouping) for row in rows]
    if grouping == "day":
        return sorted(charges, key=lambda charge: charge.group)
    return sorted(charges, key=lambda charge: (-charge.charged_micros, charge.group))


def ledger_lines(tx: Transaction, account_id: str, *, after: str, limit: int) -> list[AccountLedgerLine]:
    """Lines behind this id (empty: from the first), oldest first."""
    return [_line(row) for row in store.ledger_rows(tx, account_id, after=after, limit=limit)]


def _charge(row: ChargeRow, grouping: Grouping) -> Charge:
    group = iso_day(int(row.grouping)) if grouping == "day" else str(row.grouping)
    return Charge(group, row.label or group, row.jobs, row.charged_micros)


def _line(row: LedgerRow) -> AccountLedgerLine:
    amounts = {"hold": row.held_micros, "settle": row.revenue_micros}
    return AccountLedgerLine(
        id=row.id,
        created_at=row.created_at,
        type=row.type,
        amount_micros=amounts.get(row.type, row.available_micros),
        available_micros=row.available_micros,
        held_micros=row.held_micros,
        job_id=row.job_id,
        model=row.model,
        key_name=row.key_name,
        note=row.note if row.job_id is None else None,
    )
