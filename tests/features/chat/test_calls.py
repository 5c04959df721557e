"""Calls of models with a price: one end each, whoever comes to it first, also while the database is away."""

import asyncio
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.lost_answer import LostAnswer
from servers.rig import Interrupted, Rig
from servers.world import World
from tenuto.account.caller import Caller
from tenuto.config import ModelSettings, Price, Settings, UpstreamSettings
from tenuto.errors import (
    IdempotencyConflict,
    InsufficientBalance,
    OperatorError,
    SettingsInvalid,
    Unavailable,
)
from tenuto.features.chat import model_calls
from tenuto.features.chat import priced_calls as billing
from tenuto.features.chat.answers import Usage
from tenuto.features.chat.duties import ABANDONED_CALL_S, CALLS_S
from tenuto.features.chat.meter import Meter
from tenuto.features.chat.model_calls import Calls, ModelCall
from tenuto.features.chat.rows import CallRow
from tenuto.features.chat.settings import ChatSettings
from tenuto.features.history import usage_rows as usage
from tenuto.features.history.rows import ChatUsageRow, Used
from tenuto.ids import Ids
from tenuto.kind.model import Model, models
from tenuto.money.rules import token_charge_micros

MODEL = "there/chat"
MOST = Usage(100, 100)
HOLD_MICROS = 1000


def priced() -> Model:
    """A model of an upstream: 2 CNY for a million input tokens, 8 for a million of the output."""
    there = UpstreamSettings("http://there/v1", input_price_micros=2_000_000, output_price_micros=8_000_000)
    return models(Settings(Path(), models={MODEL: ModelSettings(upstream=there)}))[MODEL]


def calls_of(world: World, database: Any) -> Calls:
    return Calls(database, world.ids, lambda: world.now_ms, Meter(database, world.ids, lambda: world.now_ms))


def begun(world: World, caller: Caller) -> str:
    call_id = world.ids.new("call")
    row = CallRow(call_id, caller.account_id, caller.key_id, MODEL, "open", 2_000_000, 8_000_000, HOLD_MICROS)
    world.write(lambda tx: billing.begin(tx, world.ids, row, now_ms=world.now_ms))
    return call_id


def types(world: World, call_id: str) -> list[str]:
    entries = world.all("select type from entry where call_id = :id order by id", id=call_id)
    return [row["type"] for row in entries]


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**15), st.integers(0, 10**15))
def test_a_part_of_a_micro_is_charged_as_one(prompt: int, completion: int, dear: int, dearer: int) -> None:
    """ceil((input × price + output × price) / 1,000,000) on integers (P3)."""
    price = Price("million_tokens", dear, output_price_micros=dearer)
    exact = ceil(Fraction(prompt * dear + completion * dearer, 1_000_000))

    assert exact == token_charge_micros(price, prompt, completion)


def test_a_call_has_one_end(world: World) -> None:
    """Settled, it is not released, and not charged again; released, it is not charged (P3, P4)."""
    caller = world.caller(credit_micros=10_000)
    one, other = begun(world, caller), begun(world, caller)

    def settle(call_id: str) -> int | None:
        used = Used(1, 50, 50)
        return world.write(lambda tx: billing.settle(tx, world.ids, call_id, used, now_ms=world.now_ms))

    def release(call_id: str) -> bool:
        return world.write(lambda tx: billing.release(tx, world.ids, call_id, now_ms=world.now_ms))

    assert [500, False, 500] == [settle(one), release(one), settle(one)]
    assert [True, None, False] == [release(other), settle(other), release(other)]
    assert [["hold", "settle"], ["hold", "void"]] == [types(world, one), types(world, other)]
    assert (9_500, 0) == world.balance(caller.account_id)


def test_a_charge_is_never_above_the_hold(world: World) -> None:
    """An upstream that counts more than the bound is believed up to the bound (P3)."""
    caller = world.caller(credit_micros=10_000)
    call_id = begun(world, caller)
    used = Used(1, 10**9, 10**9)
    charge = world.write(lambda tx: billing.settle(tx, world.ids, call_id, used, now_ms=world.now_ms))

    assert HOLD_MICROS == charge


def test_a_call_that_the_balance_does_not_cover_leaves_nothing(world: World) -> None:
    """No row, no entry (P4)."""
    caller = world.caller(credit_micros=HOLD_MICROS - 1)

    async def scenario() -> None:
        async with calls_of(world, world.database).begun(caller, priced(), MOST):
            raise AssertionError("it has no hold")

    with pytest.raises(InsufficientBalance, match="This request needs"):
        asyncio.run(scenario())

    assert [] == world.all("select id from model_call")
    assert (HOLD_MICROS - 1, 0) == world.balance(caller.account_id)


def test_a_key_is_charged_once(world: World) -> None:
    """Open, it says that a retry may help; settled, that it does not (P3)."""
    one, other = world.caller(credit_micros=10_000), world.caller(credit_micros=10_000)

    async def scenario() -> list[str]:
        own = calls_of(world, world.database)
        async with own.begun(one, priced(), MOST, "same"):
            refusals = [await refusal(own, one)]
            async with own.begun(other, priced(), MOST, "same"):
                pass
        async with own.begun(one, priced(), MOST, "same") as call:
            await call.settle(Usage(1, 1))
        refusals.append(await refusal(own, one))
        await own.close()
        return refusals

    refusals = asyncio.run(scenario())

    assert ["CallStillOpen", "IdempotencyConflict"] == refusals
    assert (10_000 - 10, 0) == world.balance(one.account_id)
    assert (10_000, 0) == world.balance(other.account_id)


async def refusal(own: Calls, caller: Caller) -> str:
    """The error of a second call with the key."""
    with pytest.raises(IdempotencyConflict) as refused:
        async with own.begun(caller, priced(), MOST, "same"):
            raise AssertionError("its key is taken")
    return type(refused.value).__name__


def test_what_no_end_was_said_of_is_released(world: World) -> None:
    """An error in the block, also one that nobody foresaw."""
    caller = world.caller(credit_micros=10_000)

    async def scenario() -> None:
        own = calls_of(world, world.database)
        try:
            async with own.begun(caller, priced(), MOST):
                raise ZeroDivisionError
        finally:
            await own.close()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(scenario())

    assert (10_000, 0) == world.balance(caller.account_id)


def test_a_charge_of_unknown_outcome_is_made_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settlement was stored and its answer lost: it is tried again, and known (P3)."""
    monkeypatch.setattr(model_calls, "RETRY_S", 0.01)
    caller = world.caller(credit_micros=10_000)
    call_id = begun(world, caller)
    lost = LostAnswer(world.database)

    async def scenario() -> int | None:
        own = calls_of(world, lost)
        call = ModelCall(own, caller, priced(), call_id)
        await call.settle(Usage(50, 50))
        await own.close()
        return call.charged_micros

    assert (500, 2) == (asyncio.run(scenario()), lost.writes)
    assert ["hold", "settle"] == types(world, call_id)


def test_a_hold_of_unknown_outcome_is_released(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is answered with 503, and nothing stays held."""
    monkeypatch.setattr(model_calls, "RETRY_S", 0.01)
    caller = world.caller(credit_micros=10_000)

    async def scenario() -> None:
        own = calls_of(world, LostAnswer(world.database))
        try:
            async with own.begun(caller, priced(), MOST):
                raise AssertionError("it is not known to have a hold")
        finally:
            await own.close()

    with pytest.raises(Unavailable):
        asyncio.run(scenario())

    assert (10_000, 0) == world.balance(caller.account_id)
    assert ["void"] == [row["state"] for row in world.all("select state from model_call")]


def test_an_answer_does_not_wait_for_a_database_that_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given after a while; the charge follows when the database is back, and the usage with it."""
    monkeypatch.setattr(model_calls, "RETRY_S", 0.01)
    monkeypatch.setattr(model_calls, "SETTLE_S", 0.1)
    caller = world.caller(credit_micros=10_000)
    line = Interrupted(world.database)

    async def scenario() -> int | None:
        own = calls_of(world, line)
        async with own.begun(caller, priced(), MOST) as call:
            line.is_away = True
            await call.settle(Usage(50, 50))
        early = call.charged_micros
        line.is_away = False
        while call.charged_micros is None:
            await asyncio.sleep(0.01)
        await own.close()
        return early

    assert None is asyncio.run(scenario())
    assert (9_500, 0) == world.balance(caller.account_id)
    [row] = world.read(lambda tx: usage.chat_usage(tx, caller.account_id))
    assert (1, 50, 50, 500) == (row.calls, row.prompt_tokens, row.completion_tokens, row.charged_micros)


def test_a_service_without_prices_has_none_of_tokens() -> None:
    """`prices = "free"` beside a price is refused, not overruled."""
    there = UpstreamSettings("http://there/v1", input_price_micros=1)
    settings = Settings(Path(), prices="free", models={MODEL: ModelSettings(upstream=there)})

    with pytest.raises((OperatorError, SettingsInvalid), match="free"):
        models(settings)


def test_the_call_of_a_dead_process_is_released(world: World, rig: Rig) -> None:
    """After the longest that a call lasts, seen by itself, and not earlier; its late end changes nothing."""
    caller = world.caller(credit_micros=10_000)
    call_id = begun(world, caller)
    upkeep = rig.upkeep()
    longest = Settings(rig.folder).of(ChatSettings).chat_timeout_s + ABANDONED_CALL_S
    moments = [1000.0 + 5 * number for number in range(int(longest) // 5)]
    for now in (*moments, 1000.0 + longest - 0.1):
        upkeep.do_due(now)
    assert (9_000, 1000) == world.balance(caller.account_id)
    for after_s in (longest, longest + CALLS_S):
        upkeep.do_due(1000.0 + after_s)
    used = Used(1, 1, 1)
    late = world.write(lambda tx: billing.settle(tx, world.ids, call_id, used, now_ms=world.now_ms))

    assert (10_000, 0) == world.balance(caller.account_id)
    assert None is late
    assert ["hold", "void"] == types(world, call_id)


MIDNIGHT_MS = 1_795_219_199_999
"""The last millisecond of a day."""


def recorded(world: World, account_id: str) -> list[ChatUsageRow]:
    return world.read(lambda tx: usage.chat_usage(tx, account_id))


def test_calls_of_a_key_are_summed_by_model_and_day(world: World) -> None:
    account_id = world.caller().account_id
    moments = [MIDNIGHT_MS, MIDNIGHT_MS, MIDNIGHT_MS + 1, MIDNIGHT_MS]

    async def scenario() -> None:
        meter = Meter(world.database, Ids(lambda: MIDNIGHT_MS), lambda: moments.pop(0))
        meter.note(account_id, "key_1", "a/b", Usage(3, 4))
        meter.note(account_id, "key_1", "a/b", Usage(1, 1))
        meter.note(account_id, "key_1", "a/b", Usage(5, 0))
        meter.note(account_id, "key_2", "a/b", Usage(7, 8, is_estimated=True))
        await meter.close()

    asyncio.run(scenario())

    assert [
        ChatUsageRow("a/b", "key_1", "2026-11-21", 1, 5, 0, 0, 0),
        ChatUsageRow("a/b", "key_1", "2026-11-20", 2, 4, 5, 0, 0),
        ChatUsageRow("a/b", "key_2", "2026-11-20", 1, 7, 8, 1, 0),
    ] == recorded(world, account_id)


def test_a_write_of_unknown_outcome_counts_once(world: World) -> None:
    """The row has its id before it is written, so writing it again changes nothing."""
    account_id = world.caller().account_id
    interrupted = LostAnswer(world.database)

    async def scenario() -> None:
        meter = Meter(interrupted, Ids(lambda: MIDNIGHT_MS), lambda: MIDNIGHT_MS)
        meter.note(account_id, "key_1", "a/b", Usage(3, 4))
        while interrupted.writes < 2:
            await asyncio.sleep(0.01)
        await meter.close()

    asyncio.run(scenario())

    [row] = recorded(world, account_id)
    assert (1, 3, 4) == (row.calls, row.prompt_tokens, row.completion_tokens)
