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
class Retry:
    """A request that is about to wait and to be sent again."""

    wait_s: float
    status: int | None
    """The status that refused it for now; None: no answer came."""
    reason: str
    """Why no answer came, in words; empty when one did."""
    gives_up_s: float
    """From now until the last try, if every later wait is as this one suggests."""

    @property
    def is_last(self) -> bool:
        """Whether no try follows the next one."""
        return self.gives_up_s <= self.wait_s


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
    on_retry: Callable[[Retry], None] | None = None
    """Called before a request waits to be sent again."""


def call(
    link: Link,
    request: Request,
    *,
    sink: Sink | None = None,
    is_live: bool = False,
    patience_s: float = pacing.GIVE_UP_S,
) -> Flow[Answer]:
    """Send a request until it is answered for good.

    429 and 503 are tried again as `Retry-After` says, a lost answer with growing pauses, both at most
    `max_retries` times and for no longer than `patience_s`. Raises Refused, ServiceUnreachable.
    """
    is_in_doubt = False
    until = link.clock.monotonic() + patience_s
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
            waits_s = [pacing.backoff_s(link.max_retries + 1 - later) for later in range(left, 0, -1)]
            yield _wait(link, Retry(waits_s[0], None, str(lost), sum(waits_s)))
            continue
        if answer.status < 300:
            return answer
        wait_s = pacing.wait_s(answer.headers, link.clock.now())
        patience_left_s = until - link.clock.monotonic()
        if not left or not _may_repeat(request, answer) or wait_s > patience_left_s:
            error = refused(link, answer)
            error.is_in_doubt = is_in_doubt
            raise error
        yield _wait(link, Retry(wait_s, answer.status, "", min(left * wait_s, patience_left_s)))
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


def _wait(link: Link, retry: Retry) -> Pause:
    if link.on_retry is not None:
        link.on_retry(retry)
    return Pause(retry.wait_s)


def _may_repeat(request: Request, answer: Answer) -> bool:
    if answer.headers.get("x-should-retry") == "false":
        return False
    return answer.status in pacing.RETRIED or (
        request.is_repeatable and answer.status in pacing.RETRIED_WHEN_REPEATABLE
    )
