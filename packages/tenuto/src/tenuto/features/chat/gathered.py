"""A priced chat model whose whole answers are asked for as streams where their callers say how long they are.

An upstream charges what it makes, whether or not that arrives before our limits of time and bytes. Of a
stream it is known how much came; of a whole answer, nothing is known before its end.
"""

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from tenuto.config import Settings
from tenuto.features.chat.answers import AnswerTooLong, ChatEngine, Choice, Completion, Piece, estimate
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.chats import Engines, make_engines
from tenuto.kind.model import Model

MAX_BYTES = 32 << 20
"""Of all text and what is told of its tokens."""

_encode = msgspec.json.Encoder().encode


def engines(
    models: Mapping[str, Model], settings: Settings, environment: Mapping[str, str] = os.environ
) -> Engines:
    """`make_engines`, with the priced models in this form."""
    made = make_engines(models, settings, environment)
    for name, engine in made.chats.items():
        upstream = models[name].upstream
        if upstream is not None and upstream.has_price:
            made.chats[name] = LongAnswers(engine, upstream.longest_answer)
    return made


class LongAnswers:
    """A ChatEngine over another one."""

    def __init__(self, engine: ChatEngine, longest_answer: int) -> None:
        self.concurrency = engine.concurrency
        self._engine = engine
        self._longest_answer = longest_answer

    def reason(self) -> str | None:
        return self._engine.reason()

    def warm(self) -> None:
        self._engine.warm()

    async def close(self) -> None:
        await self._engine.close()

    def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        return self._engine.stream(request)

    async def complete(self, request: ChatRequest, on_piece: Callable[[Piece], None]) -> Completion:
        tokens = (request.limit or self._longest_answer) * request.n
        if tokens <= self._longest_answer and not request.logprobs:
            return await self._engine.complete(request, on_piece)
        return await self._gathered(request, on_piece)

    async def _gathered(self, request: ChatRequest, on_piece: Callable[[Piece], None]) -> Completion:
        """The answers of a stream. AnswerTooLong: they are."""
        answers: dict[int, list[Piece]] = {}
        usage, tokens, size_bytes = None, 0, 0
        async with aclosing(self._engine.stream(replace(request, stream=True))) as pieces:
            async for piece in pieces:
                on_piece(piece)
                usage, tokens = piece.usage or usage, tokens + piece.tokens
                size_bytes += len(piece.all_text) + (len(_encode(piece.logprobs)) if piece.logprobs else 0)
                if size_bytes > MAX_BYTES:
                    raise AnswerTooLong
                if piece.is_shown:
                    answers.setdefault(piece.index, []).append(piece)
        choices = tuple(_joined(answers[index]) for index in sorted(answers))
        return Completion(choices, usage or estimate(request, tokens))


def _joined(pieces: Sequence[Piece]) -> Choice:
    """One answer of its pieces, the last of which says why it ended."""
    calls: dict[int, dict[str, Any]] = {}
    for part in chain.from_iterable(piece.more.get("tool_calls", ()) for piece in pieces):
        nothing = {"id": "", "function": {"name": "", "arguments": ""}, "type": "function"}
        call = calls.setdefault(part["index"], nothing)
        call["id"] = call["id"] or part.get("id") or ""
        for name, text in part.get("function", {}).items():
            call["function"][name] += text
    more: dict[str, Any] = {"tool_calls": [calls[index] for index in sorted(calls)]} if calls else {}
    if any("refusal" in piece.more for piece in pieces):
        more["refusal"] = "".join(piece.more.get("refusal", "") for piece in pieces)
    text = "".join(piece.text for piece in pieces)
    reason = pieces[-1].finish_reason or "stop"
    return Choice(text or (None if more else ""), reason, more, _logprobs(pieces))


def _logprobs(pieces: Sequence[Piece]) -> dict[str, Any] | None:
    told = [piece.logprobs for piece in pieces if piece.logprobs]
    names = ("content", "refusal")
    tokens = {name: [token for each in told for token in each.get(name) or ()] or None for name in names}
    return tokens if told else None
