"""The rows of the ledger and of balances. Takes a transaction, never commits, decides nothing.

Written by `scripts/sql_calls.py` from `ledger.sql`: change that.
"""

import msgspec

from tenuto.db import records
from tenuto.db.database import Deferred, Transaction


class Entry(msgspec.Struct, frozen=True):
    """What `append` writes."""

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
    """What `entry` returns."""

    id: str
    type: str
    account_id: str
    job_id: str | None
    available_micros: int
    held_micros: int
    revenue_micros: int
    funding_micros: int
    note: str | None
    created_at: int
    call_id: str | None
    """The call behind a hold, a settlement or a release; null where there is a job, and for credits."""


class HoldRow(msgspec.Struct, frozen=True):
    """What `hold_of_job` returns."""

    account_id: str
    held_micros: int


class BalanceRow(msgspec.Struct, frozen=True):
    """What `balance` returns."""

    available_micros: int
    held_micros: int


def append(tx: Transaction, new: Entry, now_ms: int) -> None:
    """Append one double entry; the four amounts sum to zero (the database checks this too)."""
    tx.do(
        """
        insert into entry (id, type, account_id, job_id, available_micros,
               held_micros, revenue_micros, funding_micros,
                           note, call_id, created_at)
        values (:entry_id, :type, :account_id, :job_id, :available_micros,
               :held_micros, :revenue_micros, :funding_micros,
                :note, :call_id, :now_ms)
        """,
        now_ms=now_ms,
        **msgspec.structs.asdict(new),
    )


def entry(tx: Transaction, entry_id: str) -> LedgerLine | None:
    return records.one(
        tx,
        LedgerLine,
        """
        select id, type, account_id, job_id, available_micros, held_micros, revenue_micros, funding_micros, note,
               created_at, call_id from entry where id = :entry_id
        """,
        entry_id=entry_id,
    )


def lock(tx: Transaction, account_id: str) -> bool:
    """Lock the account against other writers until the transaction ends."""
    return (
        tx.one(
            """
        select id from account where id = :account_id for update
        """,
            account_id=account_id,
        )
        is not None
    )


def move(tx: Transaction, account_id: str, available_micros: int, held_micros: int) -> int:
    """Change both balances, or change no row if one of them would become negative."""
    return tx.run(
        """
        update account
        set available_micros = available_micros + :available_micros, held_micros = held_micros + :held_micros
        where id = :account_id and available_micros + :available_micros >= 0 and held_micros + :held_micros >= 0
        """,
        account_id=account_id,
        available_micros=available_micros,
        held_micros=held_micros,
    )


def ask_move(tx: Transaction, account_id: str, available_micros: int, held_micros: int) -> Deferred:
    """`move` for callers that read the number of changed rows later."""
    return tx.ask(
        """
        update account
        set available_micros = available_micros + :available_micros, held_micros = held_micros + :held_micros
        where id = :account_id and available_micros + :available_micros >= 0 and held_micros + :held_micros >= 0
        """,
        account_id=account_id,
        available_micros=available_micros,
        held_micros=held_micros,
    )


def add(tx: Transaction, account_id: str, available_micros: int, most_micros: int) -> int:
    """Add to what is available, or change no row if the account would exceed `most_micros`."""
    return tx.run(
        """
        update account set available_micros = available_micros + :available_micros
        where id = :account_id and available_micros + held_micros <= :most_micros - :available_micros
        """,
        account_id=account_id,
        available_micros=available_micros,
        most_micros=most_micros,
    )


def hold_of_job(tx: Transaction, job_id: str) -> HoldRow | None:
    return records.one(
        tx,
        HoldRow,
        """
        select account_id, held_micros from entry where job_id = :job_id and type = 'hold'
        """,
        job_id=job_id,
    )


def balance(tx: Transaction, account_id: str) -> BalanceRow | None:
    return records.one(
        tx,
        BalanceRow,
        """
        select available_micros, held_micros from account where id = :account_id
        """,
        account_id=account_id,
    )


def entries(tx: Transaction, account_id: str, before: str, limit: int) -> list[LedgerLine]:
    """Newest first; compares both columns of the index, so that the database uses no other index."""
    return records.all_records(
        tx,
        LedgerLine,
        """
        select id, type, account_id, job_id, available_micros, held_micros, revenue_micros, funding_micros, note,
               created_at, call_id from entry
        where (account_id, id) > (:account_id, '') and (account_id, id) < (:account_id, :before)
        order by account_id desc, id desc limit :limit
        """,
        account_id=account_id,
        before=before,
        limit=limit,
    )


def entries_of_job(tx: Transaction, job_id: str) -> list[LedgerLine]:
    """Oldest first, by three look-ups, each with its own index."""
    return records.all_records(
        tx,
        LedgerLine,
        """
        select id, type, account_id, job_id, available_micros, held_micros, revenue_micros, funding_micros, note,
               created_at, call_id
        from (select * from entry where job_id = :job_id and type = 'hold'
              union all
              select * from entry where job_id = :job_id and type in ('settle', 'void')
              union all
              select * from entry where job_id = :job_id and type = 'adjust') as lines
        order by id limit 1000
        """,
        job_id=job_id,
    )
