"""The chat and embedding models of an API process: which can be called, their queues and calls.

It knows neither HTTP nor how an engine answers.
"""

import asyncio
import os
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from tenuto.account.caller import Caller
from tenuto.api.service import Part, Service
from tenuto.config import Settings
from tenuto.errors import AnswerCutOff, ModelUnavailable, RateLimited, TenutoError
from tenuto.features.chat.answers import (
    AnswerTooLong,
    ChatEngine,
    Completion,
    EmbeddingEngine,
    Embeddings,
    Engine,
    Piece,
    Usage,
    estimate,
    estimate_inputs,
    most_used,
    most_used_by_inputs,
)
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.embedded import EmbeddedChat, EmbeddedVectors
from tenuto.features.chat.embeddings_body import EmbeddingRequest
from tenuto.features.chat.meter import Meter
from tenuto.features.chat.model_calls import Calls, ModelCall
from tenuto.features.chat.runs import Run, Runs
from tenuto.features.chat.settings import ChatSettings
from tenuto.kind.kinds import EMBEDDING
from tenuto.kind.model import Model
from tenuto.kind.upstream_keys import read_key

RETRY_AFTER_S = 5
E = TypeVar("E", bound=Engine)
W = TypeVar("W", Completion, Embeddings)


class _Tally:
    """The usage of one call so far: as the model reported it, or estimated from its pieces."""

    def __init__(self, request: ChatRequest, most: Usage) -> None:
        self.is_begun = False
        self._request = request
        self._most = most
        self._reported: Usage | None = None
        self._tokens = 0
        self._bytes = 0

    def add(self, piece: Piece) -> None:
        """Count a piece of the answer, whether or not the caller is shown it."""
        self.is_begun = True
        self._reported = piece.usage or self._reported
        self._tokens += piece.tokens
        self._bytes += len(piece.all_text.encode(errors="replace"))

    def usage(self) -> Usage:
        """The usage of the call, as far as it is known."""
        return self._reported or estimate(self._request, self._tokens)

    def cut(self, *, is_by_caller: bool) -> Usage:
        """The usage of a priced call without an end. Who may have caused that pays for each byte."""
        if self._reported is not None:
            # It may be that of the prompt alone.
            counted = max(self._reported.completion_tokens, self._tokens)
            return Usage(self._reported.prompt_tokens, counted, is_estimated=True)
        if not is_by_caller:
            return self.usage()
        counted = min(self._bytes, self._most.completion_tokens)
        return Usage(self._most.prompt_tokens, counted, is_estimated=True)


class Engines(Struct, frozen=True):
    """The chat engines and the embedding engines, by model."""

    chats: dict[str, ChatEngine] = field(default_factory=dict)
    embedders: dict[str, EmbeddingEngine] = field(default_factory=dict)


class Chats(Part):
    """Engines by model, each with its slots."""

    def __init__(
        self, engines: Engines, models: Mapping[str, Model], settings: Settings, calls: Calls
    ) -> None:
        self._chats = engines.chats
        self._embedders = engines.embedders
        self._engines: dict[str, Engine] = {**engines.chats, **engines.embedders}
        self._models = models
        self._calls = calls
        self._settings = settings
        self._runs = Runs()
        self._slots = {
            name: ChatSlots(engine.concurrency, settings.of(ChatSettings).queued_chats)
            for name, engine in self._engines.items()
        }

    def start(self) -> None:
        """Load the models that the settings mark as warm; in the event loop, before the first call."""
        for name, engine in self._engines.items():
            own = self._settings.models.get(name)
            if own is not None and own.warm:
                engine.warm()

    def stop(self) -> None:
        """The service stops: calls that it cuts off from now on cost nothing. From any thread."""
        self._runs.is_stopping = True

    async def end(self) -> None:
        """Finish all calls and writes and close the engines; in the event loop, after the last request."""
        await self._runs.close()
        await self._calls.close()
        for engine in self._engines.values():
            await engine.close()

    def reason(self, model: str) -> str | None:
        """Why the model cannot be called now, or None."""
        return self._engines[model].reason()

    async def complete(self, caller: Caller, request: ChatRequest, key: str | None) -> Completion:
        """A complete answer, recorded. Raises InvalidRequest, RateLimited, ModelUnavailable,
        InsufficientBalance; CallStillOpen and IdempotencyConflict for the `key` of a priced call.
        """
        engine = self._callable(self._chats, request.model)
        most = self._most(request)
        tally = _Tally(request, most)
        call = self._begun(caller, request.model, most, key)
        return await self._whole(
            call, request.model, lambda: engine.complete(request, tally.add), tally.usage, tally
        )

    async def stream(
        self, caller: Caller, request: ChatRequest, key: str | None
    ) -> AsyncGenerator[Piece, None]:
        """The answer piece by piece; its usage is recorded however it ends.

        It is charged before its last piece is given. An answer that the model itself cuts off costs nothing,
        unless its caller may have caused that.
        """
        engine = self._callable(self._chats, request.model)
        run = self._run(request.model)
        task = self._runs.begin(run, self._answer(run, engine, caller, request, key))
        try:
            while (piece := await run.take()) is not None:
                yield piece
            task.result()
        finally:
            self._runs.leave(run, task)

    async def embed(self, caller: Caller, request: EmbeddingRequest, key: str | None) -> Embeddings:
        """The vectors, recorded. Raises what `complete` raises."""
        engine = self._callable(self._embedders, request.model)
        call = self._begun(caller, request.model, most_used_by_inputs(request), key)
        return await self._whole(
            call, request.model, lambda: engine.embed(request), lambda: estimate_inputs(request)
        )

    async def _whole(
        self,
        begun: AbstractAsyncContextManager[ModelCall],
        model: str,
        ask: Callable[[], Awaitable[W]],
        usage: Callable[[], Usage],
        tally: _Tally | None = None,
    ) -> W:
        """A whole answer, charged. What came of it in pieces is charged as of a stream, if its caller or our
        limits end it; without pieces, `usage` is charged if it is too long, and else only recorded."""
        run = self._run(model)

        async def work() -> W:
            async with begun as call:
                run.is_asked = True
                try:
                    made = await ask()
                except asyncio.CancelledError:
                    if tally is not None:
                        self._cut(call, tally, run, is_charged=run.is_left)
                    call.release(usage())
                    raise
                except TenutoError as error:
                    if tally is not None and call.has_price:
                        is_charged = run.is_by_caller or isinstance(error, AnswerCutOff)
                        self._cut(call, tally, run, is_charged=is_charged)
                    elif isinstance(error, AnswerTooLong):
                        call.leave(usage())
                    raise
                await call.settle(made.usage)
            return replace(made, charged_micros=call.charged_micros)

        return await self._runs.result(run, work())

    async def _answer(
        self, run: Run, engine: ChatEngine, caller: Caller, request: ChatRequest, key: str | None
    ) -> None:
        """Read an answer to its end, and give its pieces to whoever takes them."""
        most = self._most(request)
        async with self._begun(caller, request.model, most, key) as call:
            run.is_asked = True
            tally = _Tally(request, most)
            try:
                await self._read(run, call, tally, engine.stream(request))
            except asyncio.CancelledError:
                self._cut(call, tally, run, is_charged=run.is_left)
                call.release(tally.usage())
                raise
            except TenutoError as error:
                self._cut(call, tally, run, is_charged=run.is_by_caller or isinstance(error, AnswerCutOff))
                raise

    async def _read(
        self, run: Run, call: ModelCall, tally: _Tally, stream: AsyncGenerator[Piece, None]
    ) -> None:
        """Upkeep releases a hold soon after the limit, whether or not the caller has read everything."""
        try:
            limit_s = self._settings.of(ChatSettings).chat_timeout_s
            async with asyncio.timeout(limit_s), aclosing(stream) as pieces:
                async for piece in pieces:
                    tally.add(piece)
                    if piece.finish_reason is not None:
                        await call.settle(tally.usage())
                    if piece.is_shown:
                        await run.give(piece)
                await run.all_taken()
        except TimeoutError as error:
            if not call.is_ended:
                raise AnswerCutOff from error

    def _cut(self, call: ModelCall, tally: _Tally, run: Run, *, is_charged: bool) -> None:
        """End the call of an answer that has begun and has no end, whose count is therefore missing."""
        if tally.is_begun:
            is_costly = is_charged and call.has_price
            end = call.leave if is_charged else call.release
            end(tally.cut(is_by_caller=run.is_by_caller) if is_costly else tally.usage())

    def _run(self, model: str) -> Run:
        upstream = self._models[model].upstream
        return Run(goes_on=upstream is not None and upstream.has_price and upstream.when_left == "finish")

    @asynccontextmanager
    async def _begun(
        self, caller: Caller, model: str, most: Usage, key: str | None
    ) -> AsyncIterator[ModelCall]:
        """A call that has a slot, and a hold for the most it can cost."""
        await self._calls.check(caller, self._models[model], most, key)
        async with (
            self._slots[model].taken(caller.account_id),
            self._calls.begun(caller, self._models[model], most, key) as call,
        ):
            yield call

    def _most(self, request: ChatRequest) -> Usage:
        upstream = self._models[request.model].upstream
        return most_used(request, 0 if upstream is None else upstream.longest_answer)

    def _callable(self, engines: Mapping[str, E], model: str) -> E:
        engine = engines[model]
        if engine.reason() is not None:
            raise ModelUnavailable(
                f"{model} is temporarily unavailable; GET /v1/models shows `callable`. Nothing was run."
            )
        return engine


class ChatSlots:
    """The slots and the queue of one model, in one event loop. `waiting_limit` 0 lets any number wait.

    Accounts take turns: a free slot goes to the account whose turn it is, and within an account to its oldest
    chat. If the queue is full, an account with fewer chats in it displaces the newest chat of the account
    with the most, so that no account can shut out the others by sending many.
    """

    def __init__(self, slots: int, waiting_limit: int) -> None:
        self._free = slots
        self._waiting_limit = waiting_limit
        # By account, in the order of their turns; an account without a waiting chat has no entry.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def taken(self, account_id: str) -> AsyncIterator[None]:
        """A slot for the duration of the block. RateLimited: the queue is full, or its place was taken."""
        await self._take(account_id)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, account_id: str) -> None:
        if self._free:
            self._free -= 1
            return
        if self._waiting_limit and self._count() >= self._waiting_limit:
            self._refuse_another(account_id)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The slot came just as we left: pass it on to the next.
                self._give_back()
            else:
                self._leave(account_id, turn)
            raise

    def _count(self) -> int:
        return sum(len(turns) for turns in self._waiting.values())

    def _refuse_another(self, account_id: str) -> None:
        """Refuse the newest chat of the account with the most, unless this account would have as many."""
        busiest = max(self._waiting, key=lambda each: len(self._waiting[each]))
        if len(self._waiting[busiest]) <= len(self._waiting.get(account_id, ())) + 1:
            raise self._refusal()
        turn = self._waiting[busiest][-1]
        self._leave(busiest, turn)
        if not turn.done():
            turn.set_exception(self._refusal())

    def _refusal(self) -> RateLimited:
        return RateLimited(
            f"{self._waiting_limit} chats wait for this model, its limit; send this one again later",
            retry_after_s=RETRY_AFTER_S,
            limit="queued_chats",
        )

    def _leave(self, account_id: str, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(account_id)
        if turns is None or turn not in turns:
            return
        turns.remove(turn)
        if not turns:
            del self._waiting[account_id]

    def _give_back(self) -> None:
        """Pass the slot to the account whose turn it is, or free it, but never both."""
        while self._waiting:
            account_id, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(account_id)
            else:
                del self._waiting[account_id]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def make_engines(models: Mapping[str, Model], settings: Settings, environment: Mapping[str, str]) -> Engines:
    """An engine for each chat or embedding model. OperatorError if an upstream's key cannot be read."""
    engines = Engines()
    for name, model in models.items():
        if model.interface == "jobs":
            continue
        if model.upstream is None and model.kind == EMBEDDING:
            engines.embedders[name] = EmbeddedVectors(model, settings)
            continue
        if model.upstream is None:
            engines.chats[name] = EmbeddedChat(model, settings)
            continue
        key = read_key(model.upstream, environment, name)
        # Imported only if an upstream is configured: the import takes as long as the rest of a start.
        if model.kind == EMBEDDING:
            from tenuto.features.chat.embeddings import UpstreamEmbeddings

            engines.embedders[name] = UpstreamEmbeddings(
                name, model.upstream, key, timeout_s=settings.of(ChatSettings).chat_timeout_s
            )
        else:
            from tenuto.features.chat.upstream import UpstreamChat

            engines.chats[name] = UpstreamChat(
                name, model.upstream, key, timeout_s=settings.of(ChatSettings).chat_timeout_s
            )
    return engines


def serving(service: Service) -> Chats:
    """The chat and embedding models of an API process. OperatorError as in `make_engines`."""
    database, ids, clock = service.database, service.ids, service.clock
    calls = Calls(database, ids, clock, Meter(database, ids, clock))
    engines = make_engines(service.models, service.settings, os.environ)
    chats = Chats(engines, service.models, service.settings, calls)
    for name in (*engines.chats, *engines.embedders):
        service.reasons[name] = partial(chats.reason, name)
    return chats
