"""Chat completions: requests, answers, and the stream of server-sent events. Flows and pure functions."""

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
"""How long an answer that is not streamed may take: it arrives whole."""


@dataclass(frozen=True, slots=True)
class Message:
    """What was said."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer, and why it ended: `stop`, `length` or `content_filter`."""

    index: int
    message: Message
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """Tokens, as the model's own tokenizer counts them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """A whole answer; `content` is what it says."""

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
    """A piece of a streamed answer; the last one may carry the reason of its end, or the usage."""

    content: str
    finish_reason: str | None = None
    usage: ChatUsage | None = None


def request_of(
    model: str, messages: Iterable[ChatMessage], parameters: ChatParameters, *, stream: bool
) -> Request:
    """POST /v1/chat/completions. It is never sent again once it may have been heard: it has no key."""
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
    """The whole answer."""
    answer = yield from call(link, request)
    return _completion(parsed(answer))


def opened(link: Link, request: Request) -> Flow[Answer]:
    """A streamed answer whose first bytes have not been read."""
    return (yield from call(link, request, is_live=True))


class Events:
    """Cuts server-sent events out of bytes, however they arrive."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_over = False

    def feed(self, block: bytes) -> Iterator[ChatChunk]:
        """The chunks that are whole by now. Raises what the service tells of a failure."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            text = line.strip()
            if not text.startswith(b"data:") or self.is_over:
                continue
            found = text.removeprefix(b"data:").strip()
            if found == b"[DONE]":
                self.is_over = True
            else:
                yield from _chunk(found)

    def check(self) -> None:
        """Raises ChatInterrupted when the bytes ended before the answer did."""
        if not self.is_over:
            raise ChatInterrupted("the answer was cut off; ask again")


def _completion(found: Any) -> ChatCompletion:
    try:
        choices = tuple(
            Choice(
                choice.get("index", 0),
                Message(choice["message"].get("role", "assistant"), choice["message"]["content"]),
                choice.get("finish_reason"),
            )
            for choice in found["choices"]
        )
        usage = _usage(found["usage"])
        completion = ChatCompletion(found.get("id", ""), found.get("model", ""), choices, usage, found)
    except (KeyError, TypeError, AttributeError) as error:
        raise UnexpectedAnswer("the answer is no chat completion") from error
    if not choices:
        raise UnexpectedAnswer("the chat completion has no choice")
    return completion


def _chunk(content: bytes) -> Iterator[ChatChunk]:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise UnexpectedAnswer("an event of the stream is no JSON") from error
    if isinstance(found, Mapping) and "error" in found:
        raise refusal(503, found)
    usage = _usage(found["usage"]) if found.get("usage") else None
    choices: list[Any] = found.get("choices") or [{}]
    for choice in choices:
        delta = choice.get("delta") or {}
        chunk = ChatChunk(delta.get("content") or "", choice.get("finish_reason"), usage)
        if chunk.content or chunk.finish_reason or chunk.usage:
            yield chunk


def _usage(found: Any) -> ChatUsage:
    return ChatUsage(found["prompt_tokens"], found["completion_tokens"], found["total_tokens"])
