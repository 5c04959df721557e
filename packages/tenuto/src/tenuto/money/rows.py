"""Rows of the ledger and of balances, as the store here reads them.

The ledger is append-only: a line is written in the transaction that changes the balance, and no field of it
ever changes. Amounts are micro-CNY.
"""

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """One double entry; the four amounts sum to zero (the database checks this too)."""

    entry_id: str
    type: str
    account_id: str
    job_id: str | None
    available_micros: int = 0
    held_micros: int = 0
    revenue_micros: int = 0
    funding_micros: int = 0
    note: str | None = None
    call_id: str | None = None


class LedgerLine(msgspec.Struct, frozen=True):
    """A line of the ledger: one double entry, whose four amounts sum to zero."""

    id: str
    """Rises with time. Chosen by the caller of the operation: an entry that exists is not written again."""
    type: str
    """credit, hold, settle, void or adjust. The database allows one hold and one settle or void per job."""
    account_id: str
    """Whose balance it changed."""
    job_id: str | None
    """The job behind it; null for calls, credits and what the operator took back."""
    available_micros: int
    """What it added to `available`, or took from it."""
    held_micros: int
    """What it added to `held`, or took from it."""
    revenue_micros: int
    """What was charged; 0 except in a settlement."""
    funding_micros: int
    """What came from outside the service: the negative of a credit or adjustment; else 0."""
    note: str | None
    """The operator's note on it."""
    created_at: int
    """When its transaction began, by the clock of the machine that began it."""
    call_id: str | None
    """The call of a chat or embedding model behind it, if any."""


class HoldRow(msgspec.Struct, frozen=True):
    """What a job holds: its hold entry, written in the transaction that queues the job."""

    account_id: str
    """The account whose money is held."""
    held_micros: int
    """What is held, and the most that the job can be charged."""


class BalanceRow(msgspec.Struct, frozen=True):
    """The sums of an account's entries, stored so that no request has to add them up.

    Both are written in the transaction of each entry; the audit adds up the entries and compares.
    """

    available_micros: int
    """What can be spent; never below 0."""
    held_micros: int
    """What open jobs hold; never below 0."""
