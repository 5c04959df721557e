"""One request until its answer: tries, waits and errors. It knows nothing of what is asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from tenuto_client import pacing
from tenuto_client.errors import Refused, ServiceUnreachable, UnexpectedAnswer, refusal
from tenuto_client.steps import Answer, Flow, Lost, Pause, Request, Send, Sink

if TYPE_CHECKING:
    from tenuto_client.journal import Journal


class Clock(Protocol):
    """Time, so that tests need not wait for it; `drive` waits with the same one."""

    def now(self) -> datetime:
        """The time of day, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait, as a thread does."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Wait, as a coroutine does."""
        ...


class SystemClock:
    """The machine's own."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Link:
    """Where the service is, who calls, and how patiently."""

    base_url: str
    api_key: str = field(repr=False)
    timeout_s: float = 60.0
    """How long a request may go without a byte arriving or leaving."""
    max_retries: int = 5
    """How many times a request is sent again before its error is told."""
    journal: Journal | None = None
    """What is written before a job is submitted; None: nothing is."""
    clock: Clock = field(default_factory=SystemClock)
    on_wait: Callable[[float, str], None] | None = None
    """Told how many seconds a request waits before it is sent again, and why."""


def call(link: Link, request: Request, *, sink: Sink | None = None, is_live: bool = False) -> Flow[Answer]:
    """Send a request until it is answered for good.

    429 and 503 are tried again as `Retry-After` says, a lost answer with growing pauses, both at most
    `max_retries` times. Raises Refused, ServiceUnreachable.
    """
    is_in_doubt = False
    for left in reversed(range(link.max_retries + 1)):
        try:
            answer: Answer = yield Send(request, sink, is_live)
        except Lost as lost:
            is_in_doubt |= lost.was_sent
            # What a sink has taken must not come twice; whoever gave it asks for the rest.
            may_repeat = request.is_repeatable and sink is None
            if not left or (lost.was_sent and not may_repeat):
                message = f"{link.base_url} did not answer: {lost}"
                raise ServiceUnreachable(message) from lost
            yield _wait(link, pacing.backoff_s(link.max_retries - left + 1), str(lost))
            continue
        if answer.status < 300:
            return answer
        wait_s = pacing.wait_s(answer.headers, link.clock.now())
        if not left or not _may_repeat(request, answer) or wait_s > pacing.MAX_RETRY_WAIT_S:
            error = refused(link, answer)
            error.is_in_doubt = is_in_doubt
            raise error
        yield _wait(link, wait_s, str(answer.status))
    raise AssertionError("the last try returns or raises")


def ask(link: Link, request: Request) -> Flow[Any]:
    """The JSON that a request is answered with."""
    answer = yield from call(link, request)
    return parsed(answer)


def parsed(answer: Answer) -> Any:
    """The JSON of a good answer."""
    try:
        return json.loads(answer.content)
    except ValueError as error:
        raise UnexpectedAnswer(
            "the answer is no JSON: is the base address that of a Tenuto service?",
            request_id=answer.headers.get("x-request-id"),
        ) from error


def refused(link: Link, answer: Answer) -> Refused:
    """The error that an answer tells."""
    try:
        said = json.loads(answer.content)
    except ValueError:
        said = None
    return refusal(
        answer.status,
        said,
        request_id=answer.headers.get("x-request-id"),
        retry_after_s=pacing.retry_after_s(answer.headers, link.clock.now()),
    )


def _wait(link: Link, seconds: float, why: str) -> Pause:
    if link.on_wait is not None:
        link.on_wait(seconds, why)
    return Pause(seconds)


def _may_repeat(request: Request, answer: Answer) -> bool:
    if answer.headers.get("x-should-retry") == "false":
        return False
    return answer.status in pacing.RETRIED or (
        request.is_repeatable and answer.status in pacing.RETRIED_WHEN_REPEATABLE
    )
