"""The rows of the ledger, balances and chat usage. Takes a transaction, never commits, decides nothing."""

import msgspec
from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Deferred, Transaction
from tenuto.money.rows import BalanceRow, CallRow, ChatUsageRow, HoldRow, LedgerLine, OpenCall, Use, Used

_AFTER_ALL = "entrz"
"""Greater than any entry id."""
_LINE = """
    select id, type, account_id, job_id, available_micros, held_micros, revenue_micros, funding_micros, note,
           created_at, call_id
"""


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


def add_chat_usage(tx: Transaction, usage_id: str, use: Use, used: Used) -> None:
    tx.do(
        """insert into chat_usage
               (id, account_id, key_id, model, day, calls, prompt_tokens, completion_tokens, estimated,
                charged_micros)
           values (:id, :account_id, :key_id, :model, :day, :calls, :prompt_tokens, :completion_tokens,
                   :estimated_calls, :charged_micros)
           on conflict (id) do nothing""",
        id=usage_id,
        **asdict(use),
        **asdict(used),
    )


def chat_usage_by_day(
    tx: Transaction, account_id: str, *, since_day: str, until_day: str
) -> list[ChatUsageRow]:
    return records.all_records(
        tx,
        ChatUsageRow,
        """select model, key_id, day, cast(sum(calls) as bigint) as calls,
                  cast(sum(prompt_tokens) as bigint) as prompt_tokens,
                  cast(sum(completion_tokens) as bigint) as completion_tokens,
                  cast(sum(estimated) as bigint) as estimated,
                  cast(sum(charged_micros) as bigint) as charged_micros
           from chat_usage where account_id = :account_id and day >= :since_day and day <= :until_day
           group by day, model, key_id order by day desc, model, key_id""",
        account_id=account_id,
        since_day=since_day,
        until_day=until_day,
    )


def add_call(tx: Transaction, call: CallRow, now_ms: int) -> None:
    tx.do(
        """insert into model_call (id, account_id, key_id, model, state, input_price_micros,
                                   output_price_micros, hold_micros, charged_micros, request_key, created_at)
           values (:id, :account_id, :key_id, :model, :state, :input_price_micros, :output_price_micros,
                   :hold_micros, cast(:charged_micros as bigint), cast(:request_key as text), :now)""",
        **asdict(call),
        now=now_ms,
    )


def call(tx: Transaction, call_id: str) -> CallRow | None:
    return records.one(
        tx,
        CallRow,
        """select id, account_id, key_id, model, state, input_price_micros, output_price_micros, hold_micros,
                  charged_micros, request_key
           from model_call where id = :id""",
        id=call_id,
    )


def state_of_key(tx: Transaction, key_id: str, request_key: str) -> str | None:
    """The state of the call with this idempotency key, `open` or `settled`. None: the key is free."""
    row = tx.one(
        "select state from model_call where key_id = :key_id and request_key = :key and state <> 'void'",
        key_id=key_id,
        key=request_key,
    )
    return None if row is None else str(row["state"])


def settle_call(tx: Transaction, call_id: str, used: Used, now_ms: int) -> int:
    """1, or 0 if the call is no longer open."""
    return tx.run(
        """update model_call
           set state = 'settled', charged_micros = :charged, prompt_tokens = :prompt,
               completion_tokens = :completion, finished_at = :now
           where id = :id and state = 'open'""",
        id=call_id,
        charged=used.charged_micros,
        prompt=used.prompt_tokens,
        completion=used.completion_tokens,
        now=now_ms,
    )


def void_call(tx: Transaction, call_id: str, now_ms: int) -> int:
    """1, or 0 if the call is no longer open."""
    return tx.run(
        "update model_call set state = 'void', finished_at = :now where id = :id and state = 'open'",
        id=call_id,
        now=now_ms,
    )


def open_calls(tx: Transaction, limit: int) -> list[OpenCall]:
    """Oldest first."""
    return records.all_records(
        tx,
        OpenCall,
        "select id, created_at as seen_at from model_call where state = 'open' order by id limit :limit",
        limit=limit,
    )
