"""Chat completions over HTTP, in OpenAI's shape: whole, or as server-sent events where `stream` is true."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

import msgspec

from tenuto.account.caller import Caller
from tenuto.api.answers import Answer, Headers, json_answer
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call, Routes
from tenuto.api.errors import error_body, status_of
from tenuto.api.json_body import MAX_CHAT_VALUES, idempotency_key, read_checked
from tenuto.api.service import Service
from tenuto.config import CHAT_FEATURES, Settings
from tenuto.errors import Fault, InvalidRequest, ModelNotAllowed, ModelUnavailable
from tenuto.features.chat import chat_body as chat
from tenuto.features.chat.answers import Completion, Piece, Usage
from tenuto.features.chat.catalog import taken_by
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.chats import Chats
from tenuto.features.chat.settings import ChatSettings
from tenuto.kind import operations as catalog
from tenuto.logs import get_logger
from tenuto.money.rules import cny

T = TypeVar("T")
KEEPALIVE_S = 15.0
"""Between two comments in a stream whose model still thinks; proxies end a silent one after 30 or 60 s."""
_encode = msgspec.json.Encoder().encode
_log = get_logger("tenuto.api")


async def create(call: Call) -> Answer | None:
    """POST /v1/chat/completions. Checks run in the order of these lines."""
    service = call.service
    caller = await call.authenticate()
    limit_bytes = service.settings.of(ChatSettings).chat_body_kib << 10
    check = partial(checked, service, caller)
    request = await read_checked(call, limit_bytes, MAX_CHAT_VALUES, check)
    key = request_key(call)
    await refuse_switched_off(call, request.model)
    about = {
        "id": service.ids.new("chatcmpl"),
        "object": "chat.completion.chunk" if request.stream else "chat.completion",
        "created": service.clock() // 1000,
        "model": request.model,
    }
    if not request.stream:
        completion = await answered_while_there(call, service.part(Chats).complete(caller, request, key))
        return json_answer(200, about | _answer(completion), *charged_header(completion.charged_micros))
    async with aclosing(service.part(Chats).stream(caller, request, key)) as pieces:
        await _stream(call, request, about, pieces)
    return None


def request_key(call: Call) -> str | None:
    """The caller's `Idempotency-Key`, with which a priced call is charged only once. InvalidRequest."""
    faults: list[Fault] = []
    key = idempotency_key(call, faults)
    if faults:
        raise InvalidRequest(faults)
    return key


def charged_header(charged_micros: int | None) -> Headers:
    """`X-Service-Charged`, for a model that has a price."""
    return [] if charged_micros is None else [(b"x-service-charged", f"{cny(charged_micros)} CNY".encode())]


async def refuse_switched_off(call: Call, model: str) -> None:
    """ModelUnavailable if the operator has switched the model off."""
    if not await call.service.database.read_async(lambda tx: catalog.is_switched_on(tx, model)):
        raise ModelUnavailable(f"{model} is switched off by the operator")


def checked(
    service: Service,
    caller: Caller,
    value: Any,
    known: Sequence[Fault] = (),
    name_of: Callable[[str], str] = str,
) -> ChatRequest:
    """The request for a model that this caller may use; raises with all faults of a step at once.

    `known` are faults found before; `name_of` gives the caller's name for a field of a chat.
    """
    name = value.get("model") if type(value) is dict else None
    model = service.models.get(name) if type(name) is str else None
    request, found = chat.check(value, CHAT_FEATURES if model is None else taken_by(model))
    faults = [*known, *(Fault(name_of(one.param), one.code, one.message) for one in found)]
    if type(value) is not dict or any(fault.param == "model" for fault in faults):
        raise InvalidRequest(faults)
    if model is None or model.interface != "chat":
        message = "there is no chat model of this name; GET /v1/models lists the models"
        raise InvalidRequest([*faults, Fault("model", "unknown_model", message)])
    if not caller.may_use(model.name):
        raise ModelNotAllowed
    if request is None or faults:
        raise InvalidRequest(faults)
    return request


async def _stream(
    call: Call, request: ChatRequest, about: dict[str, Any], pieces: AsyncIterator[Piece]
) -> None:
    """Send the pieces as they arrive. An error before the stream has begun is answered like any other."""
    usage: Usage | None = None
    begun: set[int] = set()
    head = EventHead(call, partial(begin_events, call))
    try:
        async with aclosing(head.before(pieces)) as sent:
            async for piece in sent:
                usage = piece.usage or usage
                if piece.index not in begun:
                    begun.add(piece.index)
                    start = Piece(index=piece.index, more={"role": "assistant", "content": ""})
                    await _send_chunk(call, about, start)
                if piece.text or piece.more or piece.logprobs or piece.finish_reason is not None:
                    await _send_chunk(call, about, piece)
        if request.include_usage and usage is not None:
            await _send(call, _encode(about | {"choices": [], "usage": _usage(usage)}))
        await _send(call, b"[DONE]")
    except ClientGone:
        raise
    except Exception as error:
        if not head.is_sent:
            raise
        await _send(call, _error(call, error))
    await call.send({"type": "http.response.body", "body": b""})


class EventHead:
    """The head of the stream of an answer: sent before its first piece, or before the first keepalive."""

    def __init__(self, call: Call, begin: Callable[[], Awaitable[None]]) -> None:
        self.is_sent = False
        self._call = call
        self._begin = begin

    async def before(self, pieces: AsyncIterator[Piece]) -> AsyncGenerator[Piece, None]:
        """The pieces, after the head; a comment whenever one takes `KEEPALIVE_S`. ClientGone."""
        piece = await answered_while_there(self._call, next_piece(pieces), self._keepalive)
        gone = client_gone(self._call)
        try:
            await self._send()
            while piece is not None:
                yield piece
                piece = await or_gone(gone, next_piece(pieces), self._keepalive)
        finally:
            gone.cancel()

    async def _send(self) -> None:
        if not self.is_sent:
            self.is_sent = True
            await self._begin()

    async def _keepalive(self) -> None:
        await self._send()
        await self._call.send({"type": "http.response.body", "body": b": waiting\n\n", "more_body": True})


async def begin_events(call: Call, more: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """Send the head of an event stream."""
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-request-id", call.request_id.encode()),
        *more,
    ]
    await call.send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send_chunk(call: Call, about: dict[str, Any], piece: Piece) -> None:
    delta = ({"content": piece.text} if piece.text else {}) | piece.more
    choice = {"index": piece.index, "delta": delta, "finish_reason": piece.finish_reason}
    if piece.logprobs is not None:
        choice["logprobs"] = piece.logprobs
    await _send(call, _encode(about | {"choices": [choice]}))


async def _send(call: Call, data: bytes) -> None:
    await call.send({"type": "http.response.body", "body": b"data: " + data + b"\n\n", "more_body": True})


def _error(call: Call, error: Exception) -> bytes:
    """The last event of a stream that failed midway; no [DONE] follows it."""
    return error_body(call.stated(error), call.request_id, status_of(error))


async def next_piece(pieces: AsyncIterator[Piece]) -> Piece | None:
    """The next piece; None after the last one."""
    return await anext(pieces, None)


def client_gone(call: Call) -> "asyncio.Future[None]":
    """A future that is done when the client goes away; the caller has to cancel it."""
    return asyncio.ensure_future(_gone(call))


async def _gone(call: Call) -> None:
    """Return when the client goes away.

    This includes half-closing: the client may have left altogether, which only a write would show, and a
    generation costs too much to continue without a reader.
    """
    closed: asyncio.Event | None = call.scope.get("half_closed")
    ends = [call.gone()] if closed is None else [call.gone(), closed.wait()]
    waits = [asyncio.ensure_future(end) for end in ends]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


async def answered_while_there(
    call: Call, work: Coroutine[Any, Any, T], keepalive: Callable[[], Awaitable[None]] | None = None
) -> T:
    """`or_gone` for this client; InvalidRequest instead of ClientGone if it only half-closed."""
    gone = client_gone(call)
    try:
        return await or_gone(gone, work, keepalive)
    except ClientGone:
        closed = call.scope.get("half_closed")
        if closed is None or not closed.is_set():
            raise
        message = "the client closed its side of the connection before the answer; keep it open until then"
        raise InvalidRequest(message=message) from None
    finally:
        gone.cancel()


async def or_gone(
    gone: "asyncio.Future[None]",
    work: Coroutine[Any, Any, T],
    keepalive: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """The result of the work; if the client goes first, the work is stopped and ClientGone raised.

    `keepalive` is called whenever `KEEPALIVE_S` have passed.
    """
    task = asyncio.ensure_future(work)
    pause_s = None if keepalive is None else KEEPALIVE_S
    ends = (task, gone)
    try:
        while not (await asyncio.wait(ends, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED))[0]:
            if keepalive is not None:
                await keepalive()
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


def _answer(completion: Completion) -> dict[str, Any]:
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": choice.text, **choice.more},
            "logprobs": choice.logprobs,
            "finish_reason": choice.finish_reason,
        }
        for index, choice in enumerate(completion.choices)
    ]
    return {"choices": choices, "usage": _usage(completion.usage)}


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def routes(settings: Settings) -> Routes:
    """The route of chats."""
    return {"/v1/chat/completions": {"POST": create}}
