"""What a chat model gives back, whichever engine it is, and the protocol of such an engine.

Nothing here knows HTTP, processes or upstreams.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from tenuto.bodies.chat import ChatRequest

FINISHED = ("stop", "length", "content_filter")
"""Why an answer ended: by itself or at a stop text, at its limit of tokens, cut by a filter."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the model's own tokenizer counts them, or as `estimate` does."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_estimated: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer."""

    text: str
    finish_reason: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an answer, in order. The last one has the reason why the answer ended.

    `usage` is what was used so far, if the engine knows it.
    """

    text: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None


def estimate(request: ChatRequest, answer: str) -> Usage:
    """What a call used if its model does not report it: a token is four ASCII characters or one other.

    OpenAI gives the four as a rule of thumb for English; a character of Chinese is about a token.
    """
    texts = [
        text
        for message in request.messages
        for text in ([message.content] if isinstance(message.content, str) else message.content)
    ]
    return Usage(sum(map(_tokens, texts)), _tokens(answer), is_estimated=True)


def _tokens(text: str) -> int:
    ascii_characters = sum(character.isascii() for character in text)
    return -(-ascii_characters // 4) + len(text) - ascii_characters


class ChatEngine(Protocol):
    """One model that answers. All methods are called in the event loop.

    Errors are the caller's to see: InvalidRequest (the prompt does not fit), RateLimited, ModelUnavailable.
    Cancelling `complete`, or closing the iterator of `stream`, stops the generation.
    """

    concurrency: int
    """How many answers it makes at once."""

    def reason(self) -> str | None:
        """Why it cannot be called now, or None."""

    def warm(self) -> None:
        """Get ready before the first call; returns at once."""

    async def complete(self, request: ChatRequest, on_piece: Callable[[Piece], None]) -> Completion:
        """A whole answer. `on_piece` gets each piece as it comes, if the answer comes in pieces."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        """The answer piece by piece."""

    async def close(self) -> None:
        """End what it holds, for good."""
