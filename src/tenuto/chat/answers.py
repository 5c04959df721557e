"""What a chat model gives back, whichever engine it is, and the protocol of such an engine.

Nothing here knows HTTP, processes or upstreams.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from tenuto.kinds.chat import ChatRequest

FINISHED = ("stop", "length", "content_filter")
"""Why an answer ended: by itself or at a stop text, at its limit of tokens, cut by a filter."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the model's own tokenizer counts them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer."""

    text: str
    finish_reason: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer, in order. The last one says why the answer ended.

    `usage` is what was used so far where the engine knows it; None where it does not.
    """

    text: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None


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

    async def complete(self, request: ChatRequest) -> Completion:
        """A whole answer."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        """The answer piece by piece."""

    async def close(self) -> None:
        """End what it holds, for good."""
