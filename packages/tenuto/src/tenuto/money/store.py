"""The rows of the ledger and of balances. Takes a transaction, never commits, decides nothing."""

from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Deferred, Transaction
from tenuto.money.rows import BalanceRow, Entry, HoldRow, LedgerLine

_AFTER_ALL = "entrz"
"""Greater than any entry id."""
_LINE = """
    select id, type, account_id, job_id, available_micros, held_micros, revenue_micros, funding_micros, note,
           created_at, call_id
"""


def append(tx: Transaction, entry: Entry, now_ms: int) -> None:
    tx.do(
        """insert into entry (id, type, account_id, job_id, available_micros, held_micros,
                              revenue_micros, funding_micros, note, call_id, created_at)
           values (:entry_id, :type, :account_id, :job_id, :available_micros, :held_micros,
                   :revenue_micros, :funding_micros, :note, :call_id, :now)""",
        **asdict(entry),
        now=now_ms,
    )


def entry(tx: Transaction, entry_id: str) -> LedgerLine | None:
    return records.one(tx, LedgerLine, f"{_LINE} from entry where id = :id", id=entry_id)


def lock(tx: Transaction, account_id: str) -> None:
    """Lock the account against other writers until the transaction ends."""
    tx.one("select id from account where id = :id for update", id=account_id)


def move(tx: Transaction, account_id: str, *, available_micros: int, held_micros: int) -> int:
    """Change both balances, or change no row if one of them would become negative."""
    return ask_move(tx, account_id, available_micros=available_micros, held_micros=held_micros).changed()


def ask_move(tx: Transaction, account_id: str, *, available_micros: int, held_micros: int) -> Deferred:
    """`move` for callers that read the number of changed rows later."""
    return tx.ask(
        """update account
           set available_micros = available_micros + :available, held_micros = held_micros + :held
           where id = :id and available_micros + :available >= 0 and held_micros + :held >= 0""",
        id=account_id,
        available=available_micros,
        held=held_micros,
    )


def add(tx: Transaction, account_id: str, *, available_micros: int, most_micros: int) -> int:
    """Add to what is available, or change no row if the account would exceed `most_micros`."""
    return tx.run(
        """update account set available_micros = available_micros + :available
           where id = :id and available_micros + held_micros <= :most - :available""",
        id=account_id,
        available=available_micros,
        most=most_micros,
    )


def hold_of_job(tx: Transaction, job_id: str) -> HoldRow | None:
    return records.one(
        tx,
        HoldRow,
        "select account_id, held_micros from entry where job_id = :job_id and type = 'hold'",
        job_id=job_id,
    )


def balance(tx: Transaction, account_id: str) -> BalanceRow | None:
    return records.one(
        tx, BalanceRow, "select available_micros, held_micros from account where id = :id", id=account_id
    )


def entries(tx: Transaction, account_id: str, *, after: str | None, limit: int) -> list[LedgerLine]:
    """Newest first; compares both columns of the index, so that the database uses no other index."""
    return records.all_records(
        tx,
        LedgerLine,
        f"""{_LINE} from entry
           where (account_id, id) > (:account_id, '') and (account_id, id) < (:account_id, :before)
           order by account_id desc, id desc limit :limit""",
        account_id=account_id,
        before=after or _AFTER_ALL,
        limit=limit,
    )


def entries_of_job(tx: Transaction, job_id: str) -> list[LedgerLine]:
    """Oldest first, by three look-ups, each with its own index."""
    return records.all_records(
        tx,
        LedgerLine,
        f"""{_LINE}
           from (select * from entry where job_id = :job_id and type = 'hold'
                 union all
                 select * from entry where job_id = :job_id and type in ('settle', 'void')
                 union all
                 select * from entry where job_id = :job_id and type = 'adjust') as lines
           order by id limit 1000""",  # noqa: S608 (a text of this file)
        job_id=job_id,
    )
