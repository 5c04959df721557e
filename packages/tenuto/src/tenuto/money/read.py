"""An account's view of its money: the balance and the ledger entries. Read only."""

import msgspec

from tenuto.db.database import Transaction
from tenuto.errors import NotFound
from tenuto.money import ledger_sql
from tenuto.money.ledger_sql import LedgerLine
from tenuto.money.rules import cny

_AFTER_ALL = "entrz"
"""Greater than any entry id."""


class Balance(msgspec.Struct, frozen=True):
    """What can be spent, what open jobs hold, and both together, in CNY with six places."""

    available: str
    held: str
    total: str
    currency: str = "CNY"
    object: str = "balance"


class LedgerEntry(msgspec.Struct, frozen=True):
    """An entry of the ledger.

    `amount` is what its type says: credited, adjusted (negative, or 0 if an operator had a job run
    again), held, charged (settle) or released (void).
    The two changes are its effect on the balance, which is their sum over all entries.
    """

    id: str
    created_at: int
    type: str
    amount: str
    available_change: str
    held_change: str
    job_id: str | None
    call_id: str | None
    """The chat or embedding request that the entry held money for, charged or released."""
    currency: str = "CNY"
    object: str = "ledger_entry"


def balance(tx: Transaction, account_id: str) -> Balance:
    """The balance of an existing account."""
    sums = ledger_sql.balance(tx, account_id)
    assert sums is not None, "whoever asks has an account"
    total_micros = sums.available_micros + sums.held_micros
    return Balance(cny(sums.available_micros), cny(sums.held_micros), cny(total_micros))


def ledger(
    tx: Transaction, account_id: str, *, after: str | None, limit: int
) -> tuple[list[LedgerEntry], str | None]:
    """Newest first, with the cursor of the next page."""
    lines = ledger_sql.entries(tx, account_id, after or _AFTER_ALL, limit + 1)
    entries = [_entry(line) for line in lines[:limit]]
    return entries, entries[-1].id if len(lines) > limit else None


def ledger_of_job(tx: Transaction, account_id: str, job_id: str) -> list[LedgerEntry]:
    """The entries of one of the account's jobs, oldest first. NotFound: there is no such job."""
    entries = [_entry(line) for line in lines_of_job(tx, job_id) if line.account_id == account_id]
    if not entries:
        raise NotFound
    return entries


def lines_of_job(tx: Transaction, job_id: str) -> list[LedgerLine]:
    """The entries of a job, oldest first, as they are stored."""
    return ledger_sql.entries_of_job(tx, job_id)


def _entry(line: LedgerLine) -> LedgerEntry:
    amounts = {
        "credit": line.available_micros,
        "adjust": line.available_micros,
        "hold": line.held_micros,
        "settle": line.revenue_micros,
        "void": line.available_micros,
    }
    return LedgerEntry(
        id=line.id,
        created_at=line.created_at // 1000,
        type=line.type,
        amount=cny(amounts[line.type]),
        available_change=cny(line.available_micros),
        held_change=cny(line.held_micros),
        job_id=line.job_id,
        call_id=line.call_id,
    )
