"""OpenAI's chat format as an upstream speaks it: the request that goes there, the answers that come back.

Pure: bytes in, values out. Unknown fields are skipped on the way back and never sent on the way there.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from tenuto.bodies.chat import ChatRequest
from tenuto.chat.answers import FINISHED, Completion, Piece, Usage
from tenuto.errors import Fault, InvalidRequest, ModelUnavailable, RateLimited, TenutoError

RETRY_AFTER_MAX_S = 120
_LIMIT = re.compile(r"maximum context length (?:is|of) (\d{1,9})")
_ASKED = re.compile(r"(?:resulted in|requested|has|contains at least|used) (\d{1,9}) (?:input )?tokens")

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**40)]


class Garbage(Exception):
    """An upstream said what no chat server says."""


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Delta(msgspec.Struct):
    content: str | None = None


class _ChunkChoice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Count
    completion_tokens: Count


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage


class _Chunk(msgspec.Struct):
    choices: list[_ChunkChoice] = []
    usage: _Usage | None = None
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
_REFUSAL = msgspec.json.Decoder(_Refusal)
_encode = msgspec.json.Encoder().encode

_SENT = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed"),
    *("presence_penalty", "frequency_penalty"),
)


def body(model: str, request: ChatRequest) -> bytes:
    """The request for the upstream, under its own name of the model; what the caller left out stays out."""
    sent: dict[str, Any] = {"model": model, "messages": [_message(one) for one in request.messages]}
    for name in _SENT:
        value = getattr(request, name)
        if value is not None:
            sent[name] = value
    if request.stop:
        sent["stop"] = list(request.stop)
    if request.stream:
        # The usage is recorded, whether or not the caller asks for it.
        sent |= {"stream": True, "stream_options": {"include_usage": True}}
    return _encode(sent)


def completion(answer: bytes) -> Completion:
    """A whole answer. Raises Garbage or msgspec.DecodeError."""
    read = _ANSWER.decode(answer)
    if len(read.choices) != 1:
        raise Garbage("not one choice")
    choice = read.choices[0]
    reason = _reason(choice.finish_reason) or "stop"
    return Completion(choice.message.content or "", reason, _usage(read.usage))


class Events:
    """A stream of server-sent events, block by block."""

    def __init__(self, limit_bytes: int) -> None:
        self.is_done = False
        self._limit_bytes = limit_bytes
        self._received_bytes = 0
        self._buffer = b""
        self._reason: str | None = None
        self._usage_said: Usage | None = None

    def add(self, block: bytes) -> Iterator[Piece]:
        """The pieces that are whole now. Raises Garbage or msgspec.DecodeError."""
        self._received_bytes += len(block)
        if self._received_bytes > self._limit_bytes:
            raise Garbage("the answer is too long")
        *lines, self._buffer = (self._buffer + block).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and not self.is_done:
                yield from self._event(line[5:].strip())

    def last(self) -> Piece:
        """The end of the answer. Raises Garbage when the stream ended before it."""
        if self._reason is None:
            raise Garbage("the stream ended before the answer did")
        return Piece(finish_reason=self._reason, usage=self._usage_said)

    def _event(self, data: bytes) -> Iterator[Piece]:
        if data == b"[DONE]":
            self.is_done = True
            return
        if not data:
            return
        chunk = _CHUNK.decode(data)
        if chunk.error is not None:
            raise Garbage("an error in the stream")
        if chunk.usage is not None:
            self._usage_said = _usage(chunk.usage)
        for choice in chunk.choices[:1]:
            self._reason = _reason(choice.finish_reason) or self._reason
            if choice.delta.content:
                yield Piece(choice.delta.content)


def refusal(status: int, retry_after: str | None, answer: bytes, request: ChatRequest) -> TenutoError:
    """What an upstream's refusal means to our caller; nothing of its text is passed on."""
    wait_s = _wait_s(retry_after)
    if status == 429:
        return RateLimited(
            "the model's upstream is busy; send the same request again",
            retry_after_s=wait_s or 1,
            limit="upstream",
        )
    if status in (400, 413, 422):
        return _too_long(answer) or _not_taken(request)
    error = ModelUnavailable()
    if wait_s is not None:
        error.retry_after_s = wait_s
    return error


def _too_long(answer: bytes) -> InvalidRequest | None:
    """The refusal of a prompt over the context, with both numbers where the upstream says them."""
    try:
        error = _REFUSAL.decode(answer).error
    except msgspec.DecodeError:
        return None
    limit, asked = _LIMIT.search(error.message), _ASKED.search(error.message)
    has = error.n_prompt_tokens if asked is None else int(asked[1])
    holds = error.n_ctx if limit is None else int(limit[1])
    named = error.code == "context_length_exceeded" or error.type == "exceed_context_size_error"
    if has is not None and holds is not None:
        message = f"the prompt has {has} tokens, the model's context holds {holds}, the answer included"
    elif named:
        message = "the prompt has more tokens than the model's context holds"
    else:
        return None
    return InvalidRequest([Fault("messages", "too_long", message)])


def _not_taken(request: ChatRequest) -> InvalidRequest:
    given = [name for name in (*_SENT, "stop") if getattr(request, name) not in (None, ())]
    hint = f"; it may not take {', '.join(given)}" if given else ""
    return InvalidRequest([Fault("messages", "not_allowed", f"the model does not take this request{hint}")])


def _message(message: Any) -> dict[str, Any]:
    content = message.content
    if not isinstance(content, str):
        content = [{"type": "text", "text": text} for text in content]
    return {"role": message.role, "content": content}


def _usage(usage: _Usage) -> Usage:
    return Usage(usage.prompt_tokens, usage.completion_tokens)


def _reason(reason: str | None) -> str | None:
    """A reason that our callers know; one of the upstream's own ends the answer like any other."""
    return reason if reason is None or reason in FINISHED else "stop"


def _wait_s(retry_after: str | None) -> int | None:
    if retry_after is None or not (retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10):
        return None
    return max(1, min(int(retry_after), RETRY_AFTER_MAX_S))
