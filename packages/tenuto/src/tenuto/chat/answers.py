"""What a chat model gives back, whichever engine it is, and the protocol of such an engine.

Nothing here knows HTTP, processes or upstreams.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

import msgspec

from tenuto.bodies.chat import ChatRequest
from tenuto.bodies.embeddings import EmbeddingRequest

FINISHED = ("stop", "length", "content_filter", "tool_calls")
"""Why an answer ended: by itself or at a stop text, at its limit of tokens, cut by a filter, for tools."""
IMAGE_TOKENS = 1000
"""Of a picture, in an estimate."""
MOST_IMAGE_TOKENS = 4096
"""Of a picture, in a bound."""
FRAME_TOKENS = 16
"""What a model's template adds to each message, and to the conversation, at most."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the model's own tokenizer counts them, or as `estimate` does."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_estimated: bool = False


class Choice(msgspec.Struct, frozen=True):
    """One of the answers to a request."""

    text: str | None
    finish_reason: str
    more: dict[str, Any] = msgspec.field(default_factory=dict)
    """`tool_calls` and `refusal`, where the model has them, as OpenAI's format has them."""
    logprobs: dict[str, Any] | None = None


class Completion(msgspec.Struct, frozen=True):
    """All answers to a request, whole."""

    choices: tuple[Choice, ...]
    usage: Usage
    charged_micros: int | None = None
    """None: the model has no price, or the charge is not written yet."""


class Piece(msgspec.Struct, frozen=True):
    """A piece of an answer, in order. The last one of each answer has the reason why it ended.

    `usage` is what was used so far, if the engine knows it.
    """

    text: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None
    index: int = 0
    """Which of the answers."""
    more: dict[str, Any] = msgspec.field(default_factory=dict)
    """Parts of `tool_calls` and `refusal`, as OpenAI's format has them."""
    logprobs: dict[str, Any] | None = None

    @property
    def all_text(self) -> str:
        """Its text, with that of its tool calls and of a refusal."""
        if not self.more:
            return self.text
        functions = [call.get("function", {}) for call in self.more.get("tool_calls", ())]
        called = (one.get("name", "") + one.get("arguments", "") for one in functions)
        return "".join((self.text, *called, self.more.get("refusal", "")))


def estimate(request: ChatRequest, answer: str) -> Usage:
    """What a call used if its model does not report it: a token is four ASCII characters or one other.

    OpenAI gives the four as a rule of thumb for English; a character of Chinese is about a token.
    """
    texts = [text for message in request.messages for text in message.texts]
    texts += [_written(message.more) for message in request.messages if message.more]
    texts += [_written(part) for part in (request.tools, request.response_format) if part]
    images = sum(message.images for message in request.messages)
    prompt = sum(map(tokens_of, texts)) + images * IMAGE_TOKENS
    return Usage(prompt, tokens_of(answer), is_estimated=True)


def most_used(request: ChatRequest, longest_answer: int) -> Usage:
    """What a call can use at most: a token is one byte or more. An answer without a limit has the one given.

    A picture's tokens are its model's matter; they are bounded by `MOST_IMAGE_TOKENS`.
    """
    texts = [text for message in request.messages for text in message.texts]
    texts += [_written(message.more) for message in request.messages if message.more]
    texts += [_written(part) for part in (request.tools, request.response_format) if part]
    images = sum(message.images for message in request.messages)
    prompt = sum(len(text.encode()) for text in texts) + images * MOST_IMAGE_TOKENS
    prompt += (len(request.messages) + 1) * FRAME_TOKENS
    return Usage(prompt, (request.limit or longest_answer) * request.n)


def _written(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def tokens_of(text: str) -> int:
    """About how many tokens a text has."""
    ascii_characters = sum(character.isascii() for character in text)
    return -(-ascii_characters // 4) + len(text) - ascii_characters


class Embeddings(msgspec.Struct, frozen=True):
    """One vector for each input, in order: numbers, or base64 of 32-bit floats, little-endian; in JSON."""

    vectors: list[msgspec.Raw]
    usage: Usage
    charged_micros: int | None = None
    """As of a `Completion`."""


def estimate_inputs(request: EmbeddingRequest) -> Usage:
    """What embeddings used for which nobody waited."""
    counts = (tokens_of(one) if isinstance(one, str) else len(one) for one in request.inputs)
    return Usage(sum(counts), is_estimated=True)


def most_used_by_inputs(request: EmbeddingRequest) -> Usage:
    """What embeddings can use at most."""
    counts = (len(one.encode()) if isinstance(one, str) else len(one) for one in request.inputs)
    return Usage(sum(counts) + len(request.inputs) * FRAME_TOKENS)


class Engine(Protocol):
    """One model. All methods are called in the event loop.

    Errors are the caller's to see: InvalidRequest (the prompt does not fit), RateLimited, ModelUnavailable.
    """

    concurrency: int
    """How many answers it makes at once."""

    def reason(self) -> str | None:
        """Why it cannot be called now, or None."""

    def warm(self) -> None:
        """Get ready before the first call; returns at once."""

    async def close(self) -> None:
        """End what it holds, for good."""


class ChatEngine(Engine, Protocol):
    """A model that answers. Cancelling `complete`, or closing the iterator of `stream`, stops it."""

    async def complete(self, request: ChatRequest, on_piece: Callable[[Piece], None]) -> Completion:
        """A whole answer. `on_piece` gets each piece as it comes, if the answer comes in pieces."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        """The answer piece by piece."""


class EmbeddingEngine(Engine, Protocol):
    """A model that gives vectors."""

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """The vectors of the inputs."""
