"""A chat model behind an OpenAI-compatible server that the operator configured, and OpenAI's format.

Requests and answers are rebuilt from the fields that are known here, so nothing private of either side gets
through; unknown fields of an answer are skipped. The address comes only from the settings; redirects are not
followed, and proxy variables are ignored. A request is retried only if no connection was made: any other
lost request may have been charged.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import aiohttp
import msgspec

from tenuto.config import UpstreamSettings
from tenuto.errors import AnswerCutOff, Fault, InvalidRequest, ModelUnavailable, RateLimited, TenutoError
from tenuto.features.chat.answers import (
    FINISHED,
    MOST_COUNTED,
    AnswerTooLong,
    Choice,
    Completion,
    Count,
    Piece,
    Usage,
)
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.messages import Image, Message
from tenuto.logs import get_logger

CONNECT_S = 5.0
RECONNECT_S = 0.2
UNREACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""No connection was made, so nothing was sent."""
# Many servers close an idle connection after five seconds; a call on a connection being closed is lost.
KEEP_ALIVE_S = 4.0
MAX_ANSWER_BYTES = 32 * 1024 * 1024
MAX_TEXT = 32 * 1024 * 1024
"""The most characters of a stream, not counting the data about its tokens."""
LARGE_BYTES = 256 * 1024
"""An answer from this size on is decoded in a thread."""
# After this many failed connections in a row the model is not called, for this long.
UNREACHABLE_AFTER = 3
UNREACHABLE_S = 10.0
UNREACHABLE = "its upstream does not answer"

RETRY_AFTER_MAX_S = 120
_LIMIT = re.compile(r"maximum context length (?:is|of) (\d{1,9})")
_PROMPT = re.compile(r"(?:resulted in|requested|has|contains at least|used) (\d{1,9}) (?:input )?tokens")

_log = get_logger("tenuto.chat")


_NONE = msgspec.Raw(b"null")


class Garbage(Exception):
    """An upstream's answer is not one of a chat server."""


class TooLong(ValueError):
    """An upstream's answer is longer than we take, which its caller asked for."""


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    function: _Function
    type: Literal["function"] = "function"


class _PartOfFunction(msgspec.Struct, omit_defaults=True):
    name: str | None = None
    arguments: str | None = None


class _PartOfCall(msgspec.Struct, omit_defaults=True):
    index: Count | None = None
    id: str | None = None
    type: str | None = None
    function: _PartOfFunction | None = None


class _Likely(msgspec.Struct):
    token: str
    logprob: float
    bytes: list[int] | None = None


class _Token(_Likely):
    top_logprobs: list[_Likely] = []


class _Logprobs(msgspec.Struct):
    content: list[_Token] | None = None
    refusal: list[_Token] | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_Call] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    logprobs: msgspec.Raw = _NONE


class _Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_PartOfCall] | None = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None

    @property
    def hidden(self) -> str:
        """What the model reasoned, under the name that its server gives it; never passed on."""
        reasoned = self.reasoning_content or self.reasoning
        return reasoned if isinstance(reasoned, str) else _text_of(reasoned)


class _ChunkChoice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None
    index: Count = 0
    logprobs: msgspec.Raw = _NONE


class _Usage(msgspec.Struct):
    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Any = None
    """Some servers count what the model reasoned only here."""


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage


class _Chunk(msgspec.Struct):
    choices: list[_ChunkChoice] = []
    usage: msgspec.Raw = _NONE
    error: Any = None


class _Error(msgspec.Struct):
    code: str | int | None = None
    type: str | None = None
    message: str = ""
    n_prompt_tokens: Count | None = None
    n_ctx: Count | None = None


class _Refusal(msgspec.Struct):
    error: _Error


_ANSWER = msgspec.json.Decoder(_Answer)
_CHUNK = msgspec.json.Decoder(_Chunk)
_REPORT = msgspec.json.Decoder(_Usage | None)
_LOGPROBS = msgspec.json.Decoder(_Logprobs | None)
_REFUSAL = msgspec.json.Decoder(_Refusal)
encode = msgspec.json.Encoder(enc_hook=float).encode

_SENT = tuple(field.name for field in msgspec.structs.fields(ChatRequest) if field.default is None)
"""Fields that are sent unchanged if the caller set them."""


class Upstream:
    """One path of an upstream, and its connections. `key` is its secret: never shown or logged."""

    def __init__(
        self, name: str, upstream: UpstreamSettings, key: str | None, path: str, *, timeout_s: float
    ) -> None:
        self.concurrency = upstream.connections
        self._name = name
        self._model = upstream.model or name
        # The limit that bounds a priced answer for which the caller sets none.
        self._limit: dict[str, int] = {}
        if upstream.has_price:
            self._limit[upstream.limit_name] = upstream.longest_answer
        self._url = upstream.url.rstrip("/") + path
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        self._session: aiohttp.ClientSession | None = None
        self._failures = 0
        self._failed_at = 0.0

    def reason(self) -> str | None:
        waits = time.monotonic() - self._failed_at < UNREACHABLE_S
        return UNREACHABLE if self._failures >= UNREACHABLE_AFTER and waits else None

    def warm(self) -> None:
        """Does nothing: the first call makes a connection."""

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _answer(
        self, body: bytes, param: str, fields: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The upstream's response, if it is a 200. Leaving the block early closes the connection.

        A refusal becomes a fault of `param`, which also names `fields` as its possible cause.
        """
        try:
            response = await self._send(body)
            try:
                if response.status != 200:
                    await self._refuse(response, param, fields)
                yield response
            finally:
                response.release() if response.content.is_eof() else response.close()
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, Garbage, ValueError) as error:
            # The error's text may contain the upstream's content: only its type is logged.
            _log.warning("upstream.failed", model=self._name, reason=type(error).__name__)
            if isinstance(error, TooLong):
                raise AnswerTooLong from error
            is_late = isinstance(error, TimeoutError) and not isinstance(error, UNREACHED)
            raise (AnswerCutOff if is_late else ModelUnavailable) from error

    async def _send(self, body: bytes) -> aiohttp.ClientResponse:
        try:
            response = await self._post(body)
        except UNREACHED:
            # Nothing was sent, so retrying cannot be charged twice.
            await asyncio.sleep(RECONNECT_S)
            try:
                response = await self._post(body)
            except UNREACHED:
                self._failures += 1
                self._failed_at = time.monotonic()
                raise
        self._failures = 0
        return response

    async def _post(self, body: bytes) -> aiohttp.ClientResponse:
        return await self._open_session().post(
            self._url, data=body, headers=self._headers, allow_redirects=False
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def _refuse(self, response: aiohttp.ClientResponse, param: str, fields: Sequence[str]) -> None:
        """Raise what a status other than 200 means for our caller."""
        retry_after = response.headers.get("Retry-After")
        error = refusal(response.status, retry_after, await whole(response), param, fields)
        if not isinstance(error, InvalidRequest):
            _log.warning("upstream.refused", model=self._name, status=response.status)
        raise error


class UpstreamChat(Upstream):
    """A ChatEngine (see `answers.py`)."""

    def __init__(self, name: str, upstream: UpstreamSettings, key: str | None, *, timeout_s: float) -> None:
        super().__init__(name, upstream, key, "/chat/completions", timeout_s=timeout_s)

    async def complete(self, request: ChatRequest, on_piece: Callable[[Piece], None]) -> Completion:
        async with self._answer(*self._asked(request)) as response:
            answer = await whole(response)
            if len(answer) < LARGE_BYTES:
                return completion(answer, request)
            return await asyncio.to_thread(completion, answer, request)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        async with self._answer(*self._asked(request)) as response:
            events = Events(MAX_TEXT, request)
            async for block in response.content.iter_any():
                for piece in events.add(block):
                    yield piece
                if events.is_done:
                    break
            for piece in events.last():
                yield piece

    def _asked(self, request: ChatRequest) -> tuple[bytes, str, list[str]]:
        fields = [name for name in (*_SENT, "stop") if getattr(request, name) not in (None, ())]
        return request_body(self._model, request, self._limit), "messages", fields


async def whole(response: aiohttp.ClientResponse, limit_bytes: int = MAX_ANSWER_BYTES) -> bytes:
    """The whole body of a response. Garbage: it is too long."""
    blocks: list[bytes] = []
    size_bytes = 0
    async for block in response.content.iter_any():
        blocks.append(block)
        size_bytes += len(block)
        if size_bytes > limit_bytes:
            raise Garbage("the answer is too long")
    return b"".join(blocks)


def request_body(model: str, request: ChatRequest, limit: Mapping[str, int]) -> bytes:
    """The request for the upstream, with its own name for the model; what the caller left out stays out.

    Except for the limit of a priced answer: `limit` has the default, under the name that the server uses. A
    caller's goes by that name too: the server may ignore the other, and make more than is held for.
    """
    sent: dict[str, Any] = {"model": model, "messages": [_message(one) for one in request.messages]}
    for name in _SENT:
        value = getattr(request, name)
        if value is not None:
            sent[name] = value
    for name, longest in limit.items():
        sent.pop("max_tokens", None)
        sent.pop("max_completion_tokens", None)
        sent[name] = request.limit or longest
    if request.n > 1:
        sent["n"] = request.n
    if request.stop:
        sent["stop"] = list(request.stop)
    if request.stream:
        # The usage is recorded, whether or not the caller asks for it.
        sent |= {"stream": True, "stream_options": {"include_usage": True}}
    return encode(sent)


def completion(answer: bytes, request: ChatRequest) -> Completion:
    """All complete answers. Raises Garbage or msgspec.DecodeError."""
    read = _ANSWER.decode(answer)
    if not 1 <= len(read.choices) <= request.n:
        raise Garbage("not as many choices as were asked for")
    return Completion(tuple(_choice(one, request) for one in read.choices), _usage(read.usage))


def _choice(read: _Choice, request: ChatRequest) -> Choice:
    message = read.message
    more = _more(message.tool_calls, message.refusal)
    text = message.content if more else message.content or ""
    return Choice(text, _reason(read.finish_reason) or "stop", more, _logprobs(read.logprobs, request))


def _more(calls: Sequence[_Call | _PartOfCall] | None, refusal: str | None) -> dict[str, Any]:
    """What an answer has besides its text, unchanged."""
    more: dict[str, Any] = {"tool_calls": msgspec.to_builtins(calls)} if calls else {}
    return more if refusal is None else more | {"refusal": refusal}


def _logprobs(raw: msgspec.Raw, request: ChatRequest) -> dict[str, Any] | None:
    """The log probabilities, only if the caller asked for them."""
    read = _LOGPROBS.decode(raw) if request.logprobs else None
    probabilities: dict[str, Any] | None = msgspec.to_builtins(read)
    return probabilities


class Events:
    """Parses a stream of server-sent events, block by block."""

    def __init__(self, most_text: int, request: ChatRequest) -> None:
        self.is_done = False
        self._most_text = most_text
        self._request = request
        self._characters = 0
        self._buffer = b""
        # Why each answer that began has ended; None: it has not ended.
        self._reasons: dict[int, str | None] = {}
        self._usage: Usage | None = None
        # How many calls each answer has begun.
        self._calls: dict[int, int] = {}

    def add(self, block: bytes) -> Iterator[Piece]:
        """The pieces that are now complete. Raises Garbage, TooLong or msgspec.DecodeError."""
        *lines, self._buffer = (self._buffer + block).split(b"\n")
        if len(self._buffer) > MAX_ANSWER_BYTES:
            raise Garbage("an event without end")
        for line in lines:
            if line.startswith(b"data:") and not self.is_done:
                yield from self._event(line[5:].strip())

    def last(self) -> list[Piece]:
        """The final piece of each answer. Raises Garbage if the stream ended before one of them did."""
        # Some servers send "" until the end, which only `[DONE]` then shows.
        unfinished = {None} if self.is_done else {None, ""}
        if not self._reasons or unfinished & set(self._reasons.values()):
            raise Garbage("the stream ended before the answer did")
        ends = sorted(self._reasons.items())
        return [
            Piece(finish_reason=reason or "stop", usage=self._usage, index=index) for index, reason in ends
        ]

    def _event(self, data: bytes) -> Iterator[Piece]:
        if data == b"[DONE]":
            self.is_done = True
            return
        if not data:
            return
        chunk = _CHUNK.decode(data)
        if chunk.error is not None:
            raise Garbage("an error in the stream")
        self._usage = _larger(self._usage, _reported(chunk.usage))
        for choice in chunk.choices:
            yield from self._part(choice)
        if self._usage is not None and not chunk.choices:
            yield Piece(usage=self._usage)

    def _part(self, choice: _ChunkChoice) -> Iterator[Piece]:
        if choice.index >= self._request.n:
            raise Garbage("an answer that was not asked for")
        reason = _reason(choice.finish_reason) or self._reasons.get(choice.index)
        self._reasons[choice.index] = reason or choice.finish_reason
        delta = choice.delta
        self._number(choice.index, delta.tool_calls or ())
        more = _more(delta.tool_calls, delta.refusal)
        logprobs = _logprobs(choice.logprobs, self._request)
        if delta.content or more or logprobs or delta.hidden:
            piece = Piece(
                delta.content or "",
                usage=self._usage,
                index=choice.index,
                more=more,
                logprobs=logprobs,
                hidden=delta.hidden,
            )
            self._characters += len(piece.all_text)
            if self._characters > self._most_text:
                raise TooLong
            yield piece

    def _number(self, answer: int, calls: Sequence[_PartOfCall]) -> None:
        """Give calls of a server that does not number them their index: each id begins another call."""
        for call in calls:
            begun = self._calls.get(answer, 0)
            if call.index is None:
                call.index = begun if call.id or not begun else begun - 1
            self._calls[answer] = max(begun, call.index + 1)
            call.type = call.type or None


def refusal(
    status: int, retry_after: str | None, answer: bytes, param: str, fields: Sequence[str]
) -> TenutoError:
    """What an upstream's refusal means for our caller; none of its text is passed on."""
    wait_s = _wait_s(retry_after)
    if status == 429:
        return RateLimited(
            "the model's upstream is busy; send the same request again",
            retry_after_s=wait_s or 1,
            limit="upstream",
        )
    if status in (400, 413, 422):
        return _too_long(answer, param) or _not_taken(param, fields)
    error = ModelUnavailable()
    if wait_s is not None:
        error.retry_after_s = wait_s
    return error


def _too_long(answer: bytes, param: str) -> InvalidRequest | None:
    """The refusal of a prompt that exceeds the context, with both numbers if the upstream gives them."""
    try:
        error = _REFUSAL.decode(answer).error
    except msgspec.DecodeError:
        return None
    limit, prompt = _LIMIT.search(error.message), _PROMPT.search(error.message)
    has = error.n_prompt_tokens if prompt is None else int(prompt[1])
    holds = error.n_ctx if limit is None else int(limit[1])
    named = error.code == "context_length_exceeded" or error.type == "exceed_context_size_error"
    if has is not None and holds is not None:
        message = f"the prompt has {has} tokens, the model's context holds {holds}, the answer included"
    elif named:
        message = "the prompt has more tokens than the model's context holds"
    else:
        return None
    return InvalidRequest([Fault(param, "too_long", message)])


def _not_taken(param: str, fields: Sequence[str]) -> InvalidRequest:
    hint = f"; it may not take {', '.join(fields)}" if fields else ""
    return InvalidRequest([Fault(param, "not_allowed", f"the model does not take this request{hint}")])


def _message(message: Message) -> dict[str, Any]:
    parts = message.content
    content = [_part(part) for part in parts] if isinstance(parts, tuple) else parts
    return {"role": message.role, "content": content, **message.more}


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    detail = {} if part.detail is None else {"detail": part.detail}
    return {"type": "image_url", "image_url": {"url": part.url, **detail}}


def _usage(usage: _Usage) -> Usage:
    total = usage.total_tokens if type(usage.total_tokens) is int else 0
    beyond = total - usage.prompt_tokens if total < MOST_COUNTED else 0
    return Usage(usage.prompt_tokens, max(usage.completion_tokens, beyond))


def _reported(raw: msgspec.Raw) -> Usage | None:
    """The usage in an event. None: it has none, or none that can be read; then it is estimated."""
    try:
        read = _REPORT.decode(raw)
    except msgspec.DecodeError:
        return None
    usage = Usage() if read is None else _usage(read)
    return None if usage == Usage() else usage


def _larger(one: Usage | None, other: Usage | None) -> Usage | None:
    """Both reports of a stream in one: servers report as they go on, or the prompt first."""
    if one is None or other is None:
        return one or other
    return Usage(
        max(one.prompt_tokens, other.prompt_tokens), max(one.completion_tokens, other.completion_tokens)
    )


def _text_of(value: Any) -> str:
    return "" if value is None else encode(value).decode()


def _reason(reason: str | None) -> str | None:
    """A reason that our callers know, in place of one that only the upstream knows."""
    return (reason if reason in FINISHED else "stop") if reason else None


def _wait_s(retry_after: str | None) -> int | None:
    if retry_after is None or not (retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10):
        return None
    return max(1, min(int(retry_after), RETRY_AFTER_MAX_S))
