"""The chat models of an API process: which there are, whether they can be called, and their calls.

It does not know HTTP, nor how an engine answers.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping

from tenuto.accounts.rules import Caller
from tenuto.bodies.chat import ChatRequest
from tenuto.catalog.keys import read_key
from tenuto.catalog.rules import Model
from tenuto.chat.answers import ChatEngine, Completion, Piece, Usage, estimate
from tenuto.chat.embedded import EmbeddedChat
from tenuto.chat.meter import Meter
from tenuto.chat.slots import ChatSlots
from tenuto.config import Settings
from tenuto.errors import ModelUnavailable, TenutoError


class _Tally:
    """What one call has used so far: as its model told last, else estimated from what has passed."""

    def __init__(self, request: ChatRequest) -> None:
        self.is_begun = False
        self._request = request
        self._told: Usage | None = None
        self._texts: list[str] = []

    def add(self, piece: Piece) -> None:
        """A piece of the answer has come."""
        self.is_begun = True
        self._told = piece.usage or self._told
        if self._told is None:
            self._texts.append(piece.text)

    def usage(self) -> Usage:
        """The tokens of the call, as well as they are known."""
        return self._told or estimate(self._request, "".join(self._texts))


class Chats:
    """Engines by model, each with its places."""

    def __init__(self, engines: Mapping[str, ChatEngine], settings: Settings, meter: Meter) -> None:
        self._engines = engines
        self._meter = meter
        self._settings = settings
        self._places = {
            name: ChatSlots(engine.concurrency, settings.queued_chats) for name, engine in engines.items()
        }

    def start(self) -> None:
        """In the event loop, before the first call: load what the settings mark as warm."""
        for name, engine in self._engines.items():
            own = self._settings.models.get(name)
            if own is not None and own.warm:
                engine.warm()

    async def close(self) -> None:
        """In the event loop, after the last call."""
        await self._meter.close()
        for engine in self._engines.values():
            await engine.close()

    def reason(self, model: str) -> str | None:
        """Why the model cannot be called now, or None."""
        return self._engines[model].reason()

    async def complete(self, caller: Caller, request: ChatRequest) -> Completion:
        """A whole answer, recorded. Raises InvalidRequest, RateLimited, ModelUnavailable.

        It is recorded too when its caller leaves before the end: it was worked on.
        """
        engine = self._callable(request.model)
        async with self._places[request.model].taken(caller.account_id):
            tally = _Tally(request)
            try:
                completion = await engine.complete(request, tally.add)
            except asyncio.CancelledError:
                self._note(caller, request.model, tally.usage())
                raise
        self._note(caller, request.model, completion.usage)
        return completion

    async def stream(self, caller: Caller, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        """The answer piece by piece; what was used is recorded however it ends."""
        engine = self._callable(request.model)
        tally: _Tally | None = None
        try:
            async with self._places[request.model].taken(caller.account_id):
                tally = _Tally(request)
                pieces = engine.stream(request)
                try:
                    async for piece in pieces:
                        tally.add(piece)
                        yield piece
                except TenutoError:
                    if not tally.is_begun:
                        # Refused, or never answered: nothing was made.
                        tally = None
                    raise
                finally:
                    await pieces.aclose()
        finally:
            if tally is not None:
                self._note(caller, request.model, tally.usage())

    def _callable(self, model: str) -> ChatEngine:
        engine = self._engines[model]
        if engine.reason() is not None:
            raise ModelUnavailable(
                f"{model} is temporarily unavailable; GET /v1/models shows `callable`. Nothing was run."
            )
        return engine

    def _note(self, caller: Caller, model: str, usage: Usage) -> None:
        self._meter.note(caller.account_id, caller.key_id, model, usage)


def make_engines(
    models: Mapping[str, Model], settings: Settings, environment: Mapping[str, str]
) -> dict[str, ChatEngine]:
    """An engine for each chat model. OperatorError when the key of an upstream is not where it should be."""
    engines: dict[str, ChatEngine] = {}
    for name, model in models.items():
        if model.interface != "chat":
            continue
        if model.upstream is None:
            engines[name] = EmbeddedChat(model, settings)
            continue
        # Loaded where an upstream is configured: it takes as long as the rest of a start.
        from tenuto.chat.upstream import UpstreamChat

        key = read_key(model.upstream, environment, name)
        engines[name] = UpstreamChat(name, model.upstream, key, timeout_s=settings.chat_timeout_s)
    return engines
