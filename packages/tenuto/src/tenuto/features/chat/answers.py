"""What a chat or embedding model returns, whatever its engine, and the protocol of such an engine.

Nothing here knows HTTP, processes or upstreams.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Protocol

import msgspec

from tenuto.errors import AnswerCutOff
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.embeddings_body import EmbeddingRequest

FINISHED = ("stop", "length", "content_filter", "tool_calls")
"""Why an answer ended: by itself or at a stop text, at its token limit, by a filter, to call tools."""
IMAGE_TOKENS = 1000
"""The estimated tokens of a picture."""
MOST_IMAGE_TOKENS = 4096
"""The most tokens of a picture, for holds."""
FRAME_TOKENS = 16
"""The most tokens that a model's template adds to each message, and to the conversation."""
_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123))
_SIGNS = bytes(one for one in range(128) if one not in _LETTERS and one != 32) + bytes(range(0xC2, 0xF5))
"""Digits, signs, line breaks, and the first byte of each other character."""
_WORDS = bytes(one if one in _LETTERS else 32 for one in range(256))
MOST_COUNTED = 2**40
Count = Annotated[int, msgspec.Meta(ge=0, lt=MOST_COUNTED)]
"""A number in an answer; sums of millions fit the 64 bits of the database."""


class AnswerTooLong(AnswerCutOff):
    """The answer is longer than this service allows; with a price, what came is charged."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens as counted by the model's own tokenizer, or by `estimate`."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_estimated: bool = False


class Choice(msgspec.Struct, frozen=True):
    """One of the answers to a request."""

    text: str | None
    finish_reason: str
    more: dict[str, Any] = msgspec.field(default_factory=dict)
    """`tool_calls` and `refusal`, if the model gave any, in OpenAI's format."""
    logprobs: dict[str, Any] | None = None


class Completion(msgspec.Struct, frozen=True):
    """All complete answers to a request."""

    choices: tuple[Choice, ...]
    usage: Usage
    charged_micros: int | None = None
    """None: the model has no price, or the charge has not been written yet."""


class Piece(msgspec.Struct, frozen=True):
    """A piece of an answer, in order. The last piece of each answer says why the answer ended.

    `usage` is the usage so far, if the engine knows it. A piece may have nothing for the caller.
    """

    text: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None
    index: int = 0
    """Which of the answers."""
    more: dict[str, Any] = msgspec.field(default_factory=dict)
    """Parts of `tool_calls` and `refusal`, in OpenAI's format."""
    logprobs: dict[str, Any] | None = None
    hidden: str = ""
    """What the model reasoned: it is charged, but not shown."""

    @property
    def is_shown(self) -> bool:
        """Whether it has anything for the caller."""
        return bool(self.text or self.more or self.logprobs or self.finish_reason)

    @property
    def all_text(self) -> str:
        """Its text, including that of tool calls, of a refusal and of reasoning."""
        if not self.more:
            return self.text + self.hidden
        functions = [call.get("function", {}) for call in self.more.get("tool_calls", ())]
        called = (one.get("name", "") + one.get("arguments", "") for one in functions)
        return "".join((self.text, *called, self.more.get("refusal", ""), self.hidden))

    @property
    def tokens(self) -> int:
        """Its tokens, estimated: at least one if it has any text."""
        return tokens_of(self.all_text) or bool(self.all_text)


def estimate(request: ChatRequest, answer_tokens: int) -> Usage:
    """The usage of a call whose model does not report it; `answer_tokens` is the sum over its pieces."""
    texts = [text for message in request.messages for text in message.texts]
    texts += [_written(message.more) for message in request.messages if message.more]
    texts += [_written(part) for part in (request.tools, request.response_format) if part]
    images = sum(message.images for message in request.messages)
    prompt = sum(map(tokens_of, texts)) + images * IMAGE_TOKENS
    return Usage(prompt, answer_tokens, is_estimated=True)


def most_used(request: ChatRequest, longest_answer: int) -> Usage:
    """The most that a call can use, as a token is at least one byte. `longest_answer` is the default limit.

    A picture's tokens depend on the model; `MOST_IMAGE_TOKENS` is assumed as their bound.
    """
    texts = [text for message in request.messages for text in message.texts]
    texts += [_written(message.more) for message in request.messages if message.more]
    texts += [_written(part) for part in (request.tools, request.response_format) if part]
    images = sum(message.images for message in request.messages)
    prompt = sum(len(text.encode()) for text in texts) + images * MOST_IMAGE_TOKENS
    prompt += (len(request.messages) + 1) * FRAME_TOKENS
    return Usage(prompt, (request.limit or longest_answer) * request.n)


def _written(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=float).decode()


def tokens_of(text: str) -> int:
    """Roughly how many tokens a text has: dense text, such as JSON, has one for almost every character.

    A text of megabytes takes some milliseconds: bytes are counted without a loop.
    """
    content = text.encode(errors="replace")
    letters, signs = (len(content) - len(content.translate(None, some)) for some in (_LETTERS, _SIGNS))
    words = len(content.translate(_WORDS).split())
    emoji = len(content) - len(content.translate(None, bytes(range(0xF0, 0xF5))))
    return max(words, -(-letters // 4)) + signs + 2 * emoji + content.count(b"    ")


class Embeddings(msgspec.Struct, frozen=True):
    """One vector per input, in order, as JSON: numbers, or base64 of little-endian 32-bit floats."""

    vectors: list[msgspec.Raw]
    usage: Usage
    charged_micros: int | None = None
    """As in `Completion`."""


def estimate_inputs(request: EmbeddingRequest) -> Usage:
    """The estimated usage of embeddings whose count did not arrive."""
    counts = (tokens_of(one) if isinstance(one, str) else len(one) for one in request.inputs)
    return Usage(sum(counts), is_estimated=True)


def most_used_by_inputs(request: EmbeddingRequest) -> Usage:
    """The most that embeddings can use."""
    counts = (len(one.encode()) if isinstance(one, str) else len(one) for one in request.inputs)
    return Usage(sum(counts) + len(request.inputs) * FRAME_TOKENS)


class Engine(Protocol):
    """One model. All methods are called in the event loop.

    Its errors reach the caller: InvalidRequest (the prompt is too long), RateLimited, ModelUnavailable.
    """

    concurrency: int
    """How many answers it makes at once."""

    def reason(self) -> str | None:
        """Why it cannot be called now, or None."""

    def warm(self) -> None:
        """Get ready before the first call; returns at once."""

    async def close(self) -> None:
        """Release everything that it holds, for good."""


class ChatEngine(Engine, Protocol):
    """A model that answers. Cancelling `complete`, or closing the iterator of `stream`, stops it."""

    async def complete(self, request: ChatRequest, on_piece: Callable[[Piece], None]) -> Completion:
        """A complete answer. `on_piece` gets each piece as it arrives, if the answer arrives in pieces."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        """The answer piece by piece."""


class EmbeddingEngine(Engine, Protocol):
    """A model that returns vectors."""

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """The vectors of the inputs."""
