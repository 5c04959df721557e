"""The rows of priced calls. Takes a transaction, never commits, decides nothing."""

from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.features.chat.rows import CallRow, OpenCall
from tenuto.features.history.rows import Used


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
