"""What a priced stream costs that ends early: what its caller or our limits end is charged."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from servers.upstream import PRIVATE, THOUGHTS, UpstreamServer
from servers.world import World
from tenuto.account.caller import Caller
from tenuto.config import ModelSettings, Settings, UpstreamSettings
from tenuto.errors import AnswerCutOff, ModelUnavailable
from tenuto.features.chat import embeddings, gathered, runs
from tenuto.features.chat import upstream as upstream_module
from tenuto.features.chat.answers import FRAME_TOKENS, Piece, tokens_of
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.chats import Chats
from tenuto.features.chat.embeddings_body import EmbeddingRequest
from tenuto.features.chat.gathered import engines
from tenuto.features.chat.messages import Message
from tenuto.features.chat.meter import Meter
from tenuto.features.chat.model_calls import Calls
from tenuto.kind import model as catalog

pytestmark = pytest.mark.variant("database", only="postgresql")

MODEL = "there/chat"
CREDIT_MICROS = 1_000_000
Read = Callable[[AsyncGenerator[Piece, None]], Awaitable[None]]


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
    when_left: Literal["finish", "stop"] = "finish"
    serves: Literal["chat", "embeddings"] = "chat"

    def stream(self, text: str, read: Read, *, timeout_s: int = 60, **fields: Any) -> int:
        """What a stream cost that `read` has read, in micros."""

        async def scenario(chats: Chats, request: ChatRequest) -> None:
            pieces = chats.stream(self.caller, request, None)
            try:
                await read(pieces)
            finally:
                await pieces.aclose()
                self.server.seen.gate.set()

        return self.run(text, scenario, timeout_s=timeout_s, stream=True, **fields)

    def run(
        self,
        text: str,
        scenario: Callable[[Chats, ChatRequest], Awaitable[None]],
        *,
        timeout_s: int = 60,
        connections: int = 64,
        **fields: Any,
    ) -> int:
        """What calls cost, in micros, once the service has stopped."""
        there = UpstreamSettings(
            self.server.url,
            connections=connections,
            input_price_micros=2_000_000,
            output_price_micros=8_000_000,
            when_left=self.when_left,
            serves=self.serves,
        )
        settings = Settings(
            Path(),
            models={MODEL: ModelSettings(upstream=there)},
            features={"chat_timeout_s": timeout_s},
        )
        models = {MODEL: catalog.models(settings)[MODEL]}
        request = ChatRequest(model=MODEL, messages=(Message("user", text),), **fields)

        async def whole() -> None:
            meter = Meter(self.world.database, self.world.ids, lambda: self.world.now_ms)
            calls = Calls(self.world.database, self.world.ids, lambda: self.world.now_ms, meter)
            chats = Chats(engines(models, settings, {}), models, settings, calls)
            try:
                await scenario(chats, request)
            finally:
                await chats.end()

        before_micros, _ = self.world.balance(self.caller.account_id)
        asyncio.run(whole())
        balance_micros, held_micros = self.world.balance(self.caller.account_id)
        assert 0 == held_micros
        return before_micros - balance_micros

    async def asked(self, count: int = 1) -> None:
        """Wait until the server was asked this often."""
        await until(lambda: len(self.server.seen.bodies) >= count)

    async def unheld(self) -> None:
        """Wait until nothing of the caller's is held."""
        await until(lambda: not self.world.balance(self.caller.account_id)[1])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def bench(world: World, server: UpstreamServer) -> Bench:
    return Bench(world, server, world.caller(credit_micros=CREDIT_MICROS))


def bound(text: str, answer: str) -> int:
    """The most that an answer can have cost of which this came, in micros: a token for each byte."""
    return (len(text) + 2 * FRAME_TOKENS) * 2 + len(answer) * 8


async def read_on(pieces: AsyncGenerator[Piece, None]) -> None:
    """Until the stream fails."""
    with pytest.raises(ModelUnavailable):
        async for _ in pieces:
            pass


async def read_words(pieces: AsyncGenerator[Piece, None]) -> None:
    """The whole text, but not the end."""
    assert ["one", " two"] == [(await anext(pieces)).text for _ in range(2)]


async def leave(reading: Coroutine[Any, Any, Any]) -> Callable[[], Awaitable[None]]:
    """Begin to wait for an answer; the result stops waiting, as the API does for a caller who is gone."""
    task = asyncio.ensure_future(reading)
    for _ in range(10):  # It waits for its place, or for the upstream.
        await asyncio.sleep(0)

    async def stop() -> None:
        task.cancel()
        await asyncio.wait((task,))

    return stop


def test_who_leaves_at_the_last_word_pays_what_the_upstream_counts(bench: Bench) -> None:
    """Reading goes on to the end: what the model reasoned is charged as to everybody else (P3)."""
    assert 5 * 2 + (2 + THOUGHTS) * 8 == bench.stream("[up:think]", read_words)


def test_a_whole_answer_is_charged_whoever_waits_for_it(bench: Bench) -> None:
    """Its caller leaves while the model works on it; who leaves before it was asked pays nothing (P3)."""

    async def scenario(chats: Chats, request: ChatRequest) -> None:
        stop = await leave(chats.complete(bench.caller, request, None))
        await bench.asked()
        stop_waiting = await leave(chats.complete(bench.caller, request, None))
        await stop_waiting()
        await stop()
        bench.server.seen.gate.set()

    assert 5 * 2 + 2 * 8 == bench.run("[up:gate]", scenario, connections=1)
    assert 1 == len(bench.server.seen.bodies)


def test_who_leaves_keeps_the_place(bench: Bench) -> None:
    """A caller cannot have more calls at the upstream by leaving them: the next one waits for its end."""

    async def scenario(chats: Chats, request: ChatRequest) -> None:
        for number in range(3):
            stop = await leave(chats.complete(bench.caller, request, None))
            if number == 0:
                await bench.asked()
                await stop()
        bench.server.seen.gate.set()
        await bench.asked(3)
        await bench.unheld()

    assert 3 * (5 * 2 + 2 * 8) == bench.run("[up:gate]", scenario, connections=1)
    assert 1 == bench.server.seen.most_at_once


def test_where_no_count_comes_who_left_pays_the_most(bench: Bench) -> None:
    """The upstream breaks off after its caller has left (P3)."""
    thoughts = PRIVATE * THOUGHTS

    assert bound("[up:ponder]", thoughts + "one two") == bench.stream("[up:ponder]", read_words)
    assert 0 == bench.stream("[up:ponder]", read_on)


def test_a_server_that_stops_is_left(bench: Bench) -> None:
    """`when_left = "stop"`: its connection is closed, and what came until then is charged as the most."""
    bench.when_left = "stop"
    charge_micros = bench.stream("[up:endless]", read_words)

    assert bound("[up:endless]", "one two") <= charge_micros
    assert bench.server.seen.gone.wait(60)


@pytest.mark.parametrize(
    ("text", "tokens"), [("Hold the note.", 4), ("[up:gate]", 0), ("[up:status=500]", 0)]
)
def test_vectors_that_are_too_long_are_charged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, text: str, tokens: int
) -> None:
    """The upstream has counted their inputs; a silent one, or one that refuses, has not (P3)."""
    monkeypatch.setattr(embeddings, "MAX_BYTES", 10)
    bench.serves = "embeddings"

    async def scenario(chats: Chats, _: ChatRequest) -> None:
        with pytest.raises(ModelUnavailable):
            await chats.embed(bench.caller, EmbeddingRequest(model=MODEL, input=[text]), None)
        bench.server.seen.gate.set()

    assert tokens * 2 == bench.run("", scenario, timeout_s=1 if text == "[up:gate]" else 60)


def test_a_service_that_stops_charges_who_has_left(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for an answer without end; whoever it cuts off itself pays nothing."""
    monkeypatch.setattr(runs, "FINISH_S", 0.1)

    async def cut(chats: Chats, request: ChatRequest) -> None:
        async with aclosing(chats.stream(bench.caller, request, None)) as pieces:
            await read_words(pieces)
            chats.stop()

    assert 0 == bench.run("[up:endless]", cut, stream=True)
    assert bound("[up:endless]", "one two") <= bench.stream("[up:endless]", read_words)


def test_a_slow_reader_gets_what_it_pays_for(bench: Bench) -> None:
    """The answer waits here as a whole: it is charged by the upstream's count, and can be read (P3)."""

    async def read(pieces: AsyncGenerator[Piece, None]) -> None:
        assert "one" == (await anext(pieces)).text
        await bench.unheld()
        assert [" two", ""] == [piece.text async for piece in pieces]

    assert 5 * 2 + 2 * 8 == bench.stream("Hold the note.", read)


def test_who_holds_up_an_upstream_pays_the_most(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too much is unread, so the model has to wait, until upkeep would release the hold (P3)."""
    monkeypatch.setattr(runs, "BACKLOG", 4)

    async def read(pieces: AsyncGenerator[Piece, None]) -> None:
        await read_words(pieces)
        await bench.unheld()
        assert ["more "] * 5 == [piece.text for piece in [await anext(pieces) for _ in range(5)]]
        await read_on(pieces)

    assert bound("[up:endless]", "one two" + "more " * 5) == bench.stream("[up:endless]", read, timeout_s=1)


def test_an_answer_that_takes_too_long_costs_what_was_given(bench: Bench) -> None:
    """The limit is ours, and who asks for a long answer knows it."""
    assert bench.stream("[up:endless]", read_on, timeout_s=1) >= 6 * 2 + 5 * 8


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
    assert 6 * 2 + 3 * 8 == bench.stream("[up:endless]", read_on)


@pytest.mark.parametrize("fault", ["time", "bytes"])
def test_a_whole_answer_that_its_caller_makes_too_long_costs_what_came(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """It is asked for in pieces where its caller's limits, not the operator's, say how long it is (P3)."""
    if fault == "bytes":
        monkeypatch.setattr(gathered, "MAX_BYTES", 12)

    async def scenario(chats: Chats, request: ChatRequest) -> None:
        with pytest.raises(AnswerCutOff):
            await chats.complete(bench.caller, request, None)

    more = {"max_tokens": 100_000, "timeout_s": 60 if fault == "bytes" else 1}
    assert bench.run("[up:endless]", scenario, **more) >= 6 * 2 + 3 * 8


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("one two", {}),
        ("one two", {"n": 3}),
        ("[up:tools]", {"tools": ({"type": "function", "function": {"name": "time"}},)}),
        ("[up:refuse]", {}),
        ("[up:think]", {}),
    ],
)
def test_a_whole_answer_is_the_same_in_pieces(bench: Bench, text: str, fields: dict[str, Any]) -> None:
    made = []
    bench.server.seen.gate.set()

    async def scenario(chats: Chats, request: ChatRequest) -> None:
        made.append(await chats.complete(bench.caller, request, None))

    costs = [bench.run(text, scenario, max_tokens=limit, **fields) for limit in (1000, 5000)]
    asked = [body.get("stream", False) for body in bench.server.seen.bodies]
    choices = [
        [(one.text if text == "one two" else "", one.more) for one in completion.choices]
        for completion in made
    ]

    assert [False, True] == asked
    assert costs[0] == costs[1]
    assert choices[0] == choices[1]


def test_dense_text_is_not_estimated_as_prose() -> None:
    """Each digit, sign and word is a token, as are four letters; each piece is at least one."""
    texts = ("Hold the note", "a b c d", '{"a": 12}', "京都京都", "🦄🦄", "x\n        y")

    assert [3, 4, 8, 4, 6, 5] == [tokens_of(text) for text in texts]
    assert [1, 0, 2] == [piece.tokens for piece in (Piece(" "), Piece(), Piece("one", hidden=" noon"))]


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        (
            [{"prompt_tokens": 9, "completion_tokens": 1}, {"prompt_tokens": 0, "completion_tokens": 7}],
            (9, 7),
        ),
        ([None, {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 46}], (9, 37)),
        ([{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}], None),
        ([{"prompt_tokens": -1, "completion_tokens": 7}], None),
        ([{"completion_tokens": 7}], None),
        ([{"prompt_tokens": 2**40, "completion_tokens": 7}], None),
        ([{"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 2**40}], (9, 7)),
        (["many"], None),
    ],
)
def test_usage_in_a_stream_is_read_wherever_it_is(reports: list[Any], expected: Any) -> None:
    """In a chunk with text or without, once or growing, with reasoning in the total alone."""
    events = upstream_module.Events(100, ChatRequest(model=MODEL, messages=()))
    chunks = [{"choices": [{"delta": {"content": "x"}}], "usage": one} for one in reports]
    pieces: list[Piece] = []
    for chunk in [*chunks, {"choices": [{"finish_reason": "stop"}]}]:
        pieces += events.add(b"data: " + msgspec.json.encode(chunk) + b"\n\n")
    pieces += events.add(b"data: [DONE]\n") or events.last()
    usage = events.last()[-1].usage

    assert expected == (usage and (usage.prompt_tokens, usage.completion_tokens))
