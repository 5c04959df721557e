"""What a priced stream costs that ends early: what its caller or our limits end is charged."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from servers.upstream import UpstreamServer
from servers.world import World
from tenuto.accounts.restrictions import Caller
from tenuto.bodies.chat import ChatRequest
from tenuto.bodies.messages import Message
from tenuto.catalog import rules
from tenuto.chat import chats as chats_module
from tenuto.chat import upstream as upstream_module
from tenuto.chat.answers import Piece
from tenuto.chat.calls import Calls
from tenuto.chat.chats import Chats, make_engines
from tenuto.chat.meter import Meter
from tenuto.config import ModelSettings, Settings, UpstreamSettings
from tenuto.db.database import Database
from tenuto.errors import ModelUnavailable

MODEL = "there/chat"
CREDIT_MICROS = 1_000_000
Read = Callable[[AsyncGenerator[Piece, None]], Awaitable[None]]


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    """A world whose records and money agree when the test is over."""
    made = World(database, tmp_path)
    made.open(1)
    yield made
    assert [] == made.findings()


@pytest.fixture
def server() -> Iterator[UpstreamServer]:
    """A chat server of somebody else's."""
    made = UpstreamServer()
    yield made
    made.close()


@dataclass
class Bench:
    """A priced model of that server, and a caller who pays."""

    world: World
    server: UpstreamServer
    caller: Caller

    def stream(self, text: str, read: Read, *, timeout_s: int = 60, **fields: Any) -> int:
        """What a stream cost that `read` has read, in micros."""
        there = UpstreamSettings(self.server.url, input_price_micros=2_000_000, output_price_micros=8_000_000)
        settings = Settings(Path(), models={MODEL: ModelSettings(upstream=there)}, chat_timeout_s=timeout_s)
        models = {MODEL: rules.models(settings)[MODEL]}
        request = ChatRequest(model=MODEL, messages=(Message("user", text),), stream=True, **fields)

        async def scenario() -> None:
            meter = Meter(self.world.database, self.world.ids, lambda: self.world.now_ms)
            calls = Calls(self.world.database, self.world.ids, lambda: self.world.now_ms, meter)
            chats = Chats(make_engines(models, settings, {}), models, settings, calls)
            pieces = chats.stream(self.caller, request, None)
            try:
                await read(pieces)
            finally:
                await pieces.aclose()
                await chats.close()

        asyncio.run(scenario())
        balance_micros, held_micros = self.world.balance(self.caller.account_id)
        assert 0 == held_micros
        return CREDIT_MICROS - balance_micros


@pytest.fixture
def bench(world: World, server: UpstreamServer) -> Bench:
    return Bench(world, server, world.caller(credit_micros=CREDIT_MICROS))


async def read_on(pieces: AsyncGenerator[Piece, None]) -> None:
    """Until the stream fails."""
    with pytest.raises(ModelUnavailable):
        async for _ in pieces:
            pass


def test_a_slow_reader_pays_for_what_it_was_given(bench: Bench) -> None:
    """The answer is here as a whole, and its caller takes one piece: it is charged before upkeep releases
    the hold, and nothing more is given (P3)."""

    async def read(pieces: AsyncGenerator[Piece, None]) -> None:
        assert "one" == (await anext(pieces)).text
        async with asyncio.timeout(10):
            while bench.world.balance(bench.caller.account_id)[1]:
                await asyncio.sleep(0.02)
        with pytest.raises(ModelUnavailable):
            await anext(pieces)

    assert 4 * 2 + 1 * 8 == bench.stream("Hold the note.", read, timeout_s=1)


def test_an_answer_that_takes_too_long_costs_what_was_given(bench: Bench) -> None:
    """The limit is ours, and who asks for a long answer knows it."""
    assert bench.stream("[up:endless]", read_on, timeout_s=1) >= 3 * 2 + 5 * 8


def test_an_answer_that_is_too_long_costs_what_was_given(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text counts towards the limit, not what is said about its tokens."""
    monkeypatch.setattr(upstream_module, "MAX_TEXT", 12)
    whole: list[str] = []

    async def read(pieces: AsyncGenerator[Piece, None]) -> None:
        whole.extend([piece.text async for piece in pieces])

    assert 5 * 2 + 2 * 8 == bench.stream("Hold the note.", read, logprobs=True, top_logprobs=1)
    assert ["one", " two", ""] == whole
    before = 5 * 2 + 2 * 8
    assert before + 3 * 2 + 3 * 8 == bench.stream("[up:endless]", read_on)


@pytest.mark.parametrize(("pause_s", "charge_micros"), [(0.0, 0), (0.3, 3 * 2 + 2 * 8)])
def test_who_holds_up_an_upstream_until_it_breaks_off_pays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, pause_s: float, charge_micros: int
) -> None:
    """A server closes a connection that takes nothing; where nobody held it up, a break costs nothing."""
    monkeypatch.setattr(chats_module, "HELD_UP_S", 0.2)

    async def read(pieces: AsyncGenerator[Piece, None]) -> None:
        await anext(pieces)
        await asyncio.sleep(pause_s)
        await read_on(pieces)

    assert charge_micros == bench.stream("[up:broken]", read)
