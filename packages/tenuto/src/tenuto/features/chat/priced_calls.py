"""Calls of priced chat and embedding models: a maximum is held, then charged by tokens or released.

A call is a row with its hold. One conditional update of its state decides between the process that answers it
and the upkeep that finds it abandoned: the loser changes nothing. Its usage is counted in the transaction
that settles it. Knows no model and no HTTP.
"""

from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.errors import CallStillOpen, IdempotencyConflict
from tenuto.features.chat import store
from tenuto.features.chat.rows import CallRow, OpenCall
from tenuto.features.history.rows import Use, Used
from tenuto.features.history.usage_rows import day_of, record_chats
from tenuto.ids import Ids
from tenuto.money import operations
from tenuto.money.ledger_sql import Entry, HoldRow
from tenuto.money.rules import token_charge_micros

MOST_LOOKED_AT = 10_000
"""The most open calls, oldest first, that upkeep checks in one round."""


def begin(tx: Transaction, ids: Ids, call: CallRow, *, now_ms: int) -> None:
    """Hold the most that the call can cost.

    Raises InsufficientBalance; CallStillOpen or IdempotencyConflict if its key belongs to a call that is
    open or was charged. In each case the call must not be made.
    """
    if call.request_key is not None:
        _take_key(tx, call, call.request_key)
    operations.hold(
        tx,
        ids,
        account_id=call.account_id,
        call_id=call.id,
        amount_micros=call.hold_micros,
        now_ms=now_ms,
    ).check()
    store.add_call(tx, call, now_ms)


def check(tx: Transaction, call: CallRow) -> None:
    """Raise what `begin` would raise now; holds nothing."""
    if call.request_key is not None:
        _refuse_used(tx, call, call.request_key)
    operations.refuse_uncovered(tx, call.account_id, call.hold_micros, "request")


def _take_key(tx: Transaction, call: CallRow, request_key: str) -> None:
    operations.lock(tx, call.account_id)  # Two calls with the same key wait for each other here.
    _refuse_used(tx, call, request_key)


def _refuse_used(tx: Transaction, call: CallRow, request_key: str) -> None:
    state = store.state_of_key(tx, call.key_id, request_key)
    if state == "open":
        raise CallStillOpen
    if state is not None:
        raise IdempotencyConflict(
            "the call with this Idempotency-Key was answered and charged, and answers are not kept;"
            " use a new key for a new call"
        )


def settle(tx: Transaction, ids: Ids, call_id: str, used: Used, *, now_ms: int) -> int | None:
    """Charge the tokens of an open call, at most its hold; returns the micros charged. None: it was released.

    May be repeated: nothing is charged twice.
    """
    call = store.call(tx, call_id)
    assert call is not None, "a call is written before it is settled"
    price = Price("", call.input_price_micros, 0, call.output_price_micros)
    charge_micros = min(
        token_charge_micros(price, used.prompt_tokens, used.completion_tokens), call.hold_micros
    )
    used = Used(used.calls, used.prompt_tokens, used.completion_tokens, used.estimated_calls, charge_micros)
    if store.settle_call(tx, call_id, used, now_ms) == 0:
        return call.charged_micros
    entry = Entry(ids.new("entry"), "settle", call.account_id, None, call_id=call.id)
    operations.resolve(tx, _hold(call), entry, charge_micros=charge_micros, now_ms=now_ms)
    use = Use(call.account_id, call.key_id, call.model, day_of(now_ms))
    record_chats(tx, {call_id: (use, used)})
    return charge_micros


def release(tx: Transaction, ids: Ids, call_id: str, *, now_ms: int, used: Used | None = None) -> bool:
    """Release the hold of an open call. False: it is not open. `used` is counted, and costs nothing."""
    if store.void_call(tx, call_id, now_ms) == 0:
        return False
    call = store.call(tx, call_id)
    assert call is not None, "it was changed just now"
    entry = Entry(ids.new("entry"), "void", call.account_id, None, call_id=call.id)
    operations.resolve(tx, _hold(call), entry, charge_micros=0, now_ms=now_ms)
    if used is not None:
        use = Use(call.account_id, call.key_id, call.model, day_of(now_ms))
        record_chats(tx, {call_id: (use, used)})
    return True


def open_calls(tx: Transaction) -> list[OpenCall]:
    """The calls that hold money, oldest first."""
    return store.open_calls(tx, MOST_LOOKED_AT)


def _hold(call: CallRow) -> HoldRow:
    return HoldRow(call.account_id, call.hold_micros)
