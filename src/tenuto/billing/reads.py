"""What an account sees of its money: the balance, and the ledger line by line. Read only."""

import msgspec

from tenuto.billing import store
from tenuto.billing.rules import cny
from tenuto.db.database import Row, Transaction
from tenuto.errors import NotFound


class Balance(msgspec.Struct, frozen=True):
    """What can be spent, what open jobs hold, and both together, in CNY with six places."""

    available: str
    held: str
    total: str
    currency: str = "CNY"
    object: str = "balance"


class LedgerEntry(msgspec.Struct, frozen=True):
    """A line of the ledger.

    `amount` is what its type names: credited, adjusted (negative, or 0 where an operator had a job run
    again), held, charged (settle) or released (void).
    The two changes say what it did to the balance; over all lines they add up to it.
    """

    id: str
    created_at: int
    type: str
    amount: str
    available_change: str
    held_change: str
    job_id: str | None
    currency: str = "CNY"
    object: str = "ledger_entry"


def balance(tx: Transaction, account_id: str) -> Balance:
    """The balance of an account that there is."""
    row = store.balance(tx, account_id)
    assert row is not None, "whoever asks has an account"
    available, held = row["available_micros"], row["held_micros"]
    return Balance(cny(available), cny(held), cny(available + held))


def ledger(
    tx: Transaction, account_id: str, *, after: str | None, limit: int
) -> tuple[list[LedgerEntry], str | None]:
    """Newest first, with the cursor of the next page."""
    rows = store.entries(tx, account_id, after=after, limit=limit + 1)
    entries = [_entry(row) for row in rows[:limit]]
    return entries, entries[-1].id if len(rows) > limit else None


def ledger_of_job(tx: Transaction, account_id: str, job_id: str) -> list[LedgerEntry]:
    """The lines of one of the account's jobs, oldest first; NotFound, for every job has its hold."""
    entries = [_entry(row) for row in store.entries_of_job(tx, account_id, job_id)]
    if not entries:
        raise NotFound
    return entries


def _entry(row: Row) -> LedgerEntry:
    amounts = {
        "credit": row["available_micros"],
        "adjust": row["available_micros"],
        "hold": row["held_micros"],
        "settle": row["revenue_micros"],
        "void": row["available_micros"],
    }
    return LedgerEntry(
        id=row["id"],
        created_at=row["created_at"] // 1000,
        type=row["type"],
        amount=cny(amounts[row["type"]]),
        available_change=cny(row["available_micros"]),
        held_change=cny(row["held_micros"]),
        job_id=row["job_id"],
    )
