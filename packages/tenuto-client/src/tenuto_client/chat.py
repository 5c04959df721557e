"""Chat completions: the request, the answer, the stream of server-sent events. Flows and pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenuto_client.errors import ChatInterrupted, UnexpectedAnswer, refusal, utf8
from tenuto_client.exchange import Link, call, parsed
from tenuto_client.parameters import ChatMessage, ChatParameters
from tenuto_client.records import Json
from tenuto_client.steps import Answer, Flow, Request, path_of

CHAT_TIMEOUT_S = 600.0
"""How long to wait for an answer that is not streamed: it arrives all at once."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the answer."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer, and why the model stopped: `stop`, `length` or `content_filter`."""

    index: int
    message: Message
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """Tokens as counted by the model's own tokenizer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """A complete answer; `content` is its text."""

    id: str
    model: str
    choices: tuple[Choice, ...]
    usage: ChatUsage
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def content(self) -> str:
        return self.choices[0].message.content


@dataclass(frozen=True, slots=True)
class ChatChunk:
    """A piece of a streamed answer; the last ones may carry `finish_reason` and the usage."""

    content: str
    finish_reason: str | None = None
    usage: ChatUsage | None = None


def request_of(
    model: str, messages: Iterable[ChatMessage], parameters: ChatParameters, *, stream: bool
) -> Request:
    """POST /v1/chat/completions. Not retried once it may have arrived: it has no idempotency key."""
    body: dict[str, Any] = {"model": model, "messages": list(messages), **parameters}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return Request(
        "POST",
        path_of("chat", "completions"),
        {"Content-Type": "application/json"},
        utf8(json.dumps(body, ensure_ascii=False)),
        is_repeatable=False,
        timeout_s=CHAT_TIMEOUT_S,
    )


def complete(link: Link, request: Request) -> Flow[ChatCompletion]:
    """Send the request and wait for the complete answer."""
    answer = yield from call(link, request)
    return _completion(parsed(answer))


def opened(link: Link, request: Request) -> Flow[Answer]:
    """Send the request and return the streamed answer with its body unread."""
    return (yield from call(link, request, is_live=True))


class Events:
    """Parses server-sent events from blocks of bytes of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_over = False

    def feed(self, block: bytes) -> Iterator[ChatChunk]:
        """The chunks completed by this block. Raises an error that the service sends in the stream."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            text = line.strip()
            if not text.startswith(b"data:") or self.is_over:
                continue
            data = text.removeprefix(b"data:").strip()
            if data == b"[DONE]":
                self.is_over = True
            else:
                yield from _chunk(data)

    def check(self) -> None:
        """Raises ChatInterrupted if the stream stopped before the answer was complete."""
        if not self.is_over:
            raise ChatInterrupted("the answer was cut off; send the request again")


def _completion(document: Any) -> ChatCompletion:
    try:
        choices = tuple(
            Choice(
                choice.get("index", 0),
                Message(choice["message"].get("role", "assistant"), choice["message"]["content"]),
                choice.get("finish_reason"),
            )
            for choice in document["choices"]
        )
        usage = _usage(document["usage"])
        completion = ChatCompletion(
            document.get("id", ""), document.get("model", ""), choices, usage, document
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UnexpectedAnswer("the answer is not a chat completion") from error
    if not choices:
        raise UnexpectedAnswer("the chat completion has no choices")
    return completion


def _chunk(content: bytes) -> Iterator[ChatChunk]:
    try:
        event = json.loads(content)
    except ValueError as error:
        raise UnexpectedAnswer("an event of the stream is not JSON") from error
    if isinstance(event, Mapping) and "error" in event:
        raise refusal(503, event)
    try:
        usage = _usage(event["usage"]) if event.get("usage") else None
        choices: list[Any] = event.get("choices") or [{}]
        deltas = [(choice.get("delta") or {}, choice.get("finish_reason")) for choice in choices]
        chunks = [ChatChunk(delta.get("content") or "", reason, usage) for delta, reason in deltas]
    except (KeyError, TypeError, AttributeError) as error:
        raise UnexpectedAnswer("an event of the stream is not a part of a chat completion") from error
    yield from (chunk for chunk in chunks if chunk.content or chunk.finish_reason or chunk.usage)


def _usage(usage: Any) -> ChatUsage:
    return ChatUsage(usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"])
