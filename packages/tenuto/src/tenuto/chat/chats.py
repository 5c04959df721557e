"""The chat and embedding models of an API process: which can be called, their queues and calls.

It knows neither HTTP nor how an engine answers.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from tenuto.accounts.restrictions import Caller
from tenuto.bodies.chat import ChatRequest
from tenuto.bodies.embeddings import EmbeddingRequest
from tenuto.catalog.kinds import EMBEDDING
from tenuto.catalog.rules import Model
from tenuto.catalog.upstream_keys import read_key
from tenuto.chat.answers import (
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
from tenuto.chat.calls import Calls, ModelCall
from tenuto.chat.embedded import EmbeddedChat, EmbeddedVectors
from tenuto.config import Settings
from tenuto.errors import AnswerCutOff, ModelUnavailable, RateLimited, TenutoError

RETRY_AFTER_S = 5
PAUSE_S = 0.1
"""A caller that takes longer than this to read a piece holds up the model."""
HELD_UP_S = 1.0
"""An upstream that breaks off after being held up for this long may have done so because of that."""
E = TypeVar("E", bound=Engine)


class _Tally:
    """The usage of one call so far: as the model last reported it, or estimated from its pieces."""

    def __init__(self, request: ChatRequest) -> None:
        self.is_begun = False
        self.held_up_s = 0.0
        """How long the caller has held up the model by reading slowly."""
        self._request = request
        self._reported: Usage | None = None
        self._texts: list[str] = []

    def add(self, piece: Piece) -> None:
        """Count a piece of the answer."""
        self.is_begun = True
        self._reported = piece.usage or self._reported
        if self._reported is None:
            self._texts.append(piece.all_text)

    def note_pause(self, pause_s: float) -> None:
        """Record how long the caller took to read a piece."""
        if pause_s >= PAUSE_S:
            self.held_up_s += pause_s

    def usage(self) -> Usage:
        """The usage of the call, as far as it is known."""
        return self._reported or estimate(self._request, "".join(self._texts))

    def leave(self, call: ModelCall) -> None:
        """End the call because its caller left, or at our limits: what was delivered is charged."""
        end = call.leave if self.is_begun else call.release
        end(self.usage())


class Engines(Struct, frozen=True):
    """The chat engines and the embedding engines, by model."""

    chats: dict[str, ChatEngine] = field(default_factory=dict)
    embedders: dict[str, EmbeddingEngine] = field(default_factory=dict)


class Chats:
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
        self._slots = {
            name: ChatSlots(engine.concurrency, settings.queued_chats)
            for name, engine in self._engines.items()
        }

    def start(self) -> None:
        """Load the models that the settings mark as warm; in the event loop, before the first call."""
        for name, engine in self._engines.items():
            own = self._settings.models.get(name)
            if own is not None and own.warm:
                engine.warm()

    async def close(self) -> None:
        """Finish all writes and close the engines; in the event loop, after the last call."""
        await self._calls.close()
        for engine in self._engines.values():
            await engine.close()

    def reason(self, model: str) -> str | None:
        """Why the model cannot be called now, or None."""
        return self._engines[model].reason()

    async def complete(self, caller: Caller, request: ChatRequest, key: str | None) -> Completion:
        """A complete answer, recorded. Raises InvalidRequest, RateLimited, ModelUnavailable,
        InsufficientBalance; CallStillOpen and IdempotencyConflict for the `key` of a priced call.

        If the caller leaves before the end, the usage is recorded, as the model worked on it, but a caller
        without an answer pays nothing.
        """
        engine = self._callable(self._chats, request.model)
        async with self._begun(caller, request.model, self._most(request), key) as call:
            tally = _Tally(request)
            try:
                completion = await engine.complete(request, tally.add)
            except asyncio.CancelledError:
                call.release(tally.usage())
                raise
            await call.settle(completion.usage)
        return replace(completion, charged_micros=call.charged_micros)

    async def stream(
        self, caller: Caller, request: ChatRequest, key: str | None
    ) -> AsyncGenerator[Piece, None]:
        """The answer piece by piece; its usage is recorded however it ends.

        It is charged before its last piece is sent, or for what came until then if the caller leaves or our
        limits end it. An answer that the model itself cuts off costs nothing.
        """
        engine = self._callable(self._chats, request.model)
        loop = asyncio.get_running_loop()
        async with self._begun(caller, request.model, self._most(request), key) as call:
            tally = _Tally(request)
            # Upkeep releases a hold soon after this, whether or not the caller has read everything.
            limit = loop.call_later(self._settings.chat_timeout_s, tally.leave, call)
            pieces = engine.stream(request)
            try:
                async for piece in pieces:
                    if call.is_ended and piece.finish_reason is None:
                        raise AnswerCutOff
                    tally.add(piece)
                    if piece.finish_reason is not None:
                        await call.settle(tally.usage())
                    given_at = loop.time()
                    yield piece
                    tally.note_pause(loop.time() - given_at)
            except (asyncio.CancelledError, GeneratorExit):
                tally.leave(call)
                raise
            except TenutoError as error:
                if tally.is_begun and (isinstance(error, AnswerCutOff) or tally.held_up_s >= HELD_UP_S):
                    call.leave(tally.usage())
                call.release(tally.usage() if tally.is_begun else None)
                raise
            finally:
                limit.cancel()
                await pieces.aclose()

    async def embed(self, caller: Caller, request: EmbeddingRequest, key: str | None) -> Embeddings:
        """The vectors, recorded even if the caller leaves. Raises what `complete` raises."""
        engine = self._callable(self._embedders, request.model)
        async with self._begun(caller, request.model, most_used_by_inputs(request), key) as call:
            try:
                made = await engine.embed(request)
            except asyncio.CancelledError:
                call.release(estimate_inputs(request))
                raise
            await call.settle(made.usage)
        return replace(made, charged_micros=call.charged_micros)

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
            from tenuto.chat.embeddings import UpstreamEmbeddings

            engines.embedders[name] = UpstreamEmbeddings(
                name, model.upstream, key, timeout_s=settings.chat_timeout_s
            )
        else:
            from tenuto.chat.upstream import UpstreamChat

            engines.chats[name] = UpstreamChat(name, model.upstream, key, timeout_s=settings.chat_timeout_s)
    return engines
