"""Sends one request until it is answered: retries, waits and errors, the same for every endpoint."""

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
    """Time, replaceable in tests; `drive` waits with the same clock."""

    def now(self) -> datetime:
        """The time of day, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point in time."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the thread."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Suspend the coroutine."""
        ...


class SystemClock:
    """The machine's own clock."""

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
    """A request that will be retried after a wait."""

    wait_s: float
    status: int | None
    """The status of the response; None if there was none."""
    reason: str
    """Why there was no response, in words; empty if there was one."""
    gives_up_s: float
    """Seconds until the last try, estimated from this wait."""

    @property
    def is_last(self) -> bool:
        """Whether the next try is the last."""
        return self.gives_up_s <= self.wait_s


@dataclass(frozen=True, slots=True)
class Link:
    """The service, the key, and how often to retry."""

    base_url: str
    api_key: str = field(repr=False)
    timeout_s: float = 60.0
    """How long a request may go without sending or receiving a byte."""
    max_retries: int = 5
    """How many times a request is retried before its error is raised."""
    journal: Journal | None = None
    """Written before a job is submitted; None: no journal."""
    clock: Clock = field(default_factory=SystemClock)
    on_retry: Callable[[Retry], None] | None = None
    """Called before the wait that precedes a retry."""
    traceparent: Callable[[], str | None] | None = None
    """Returns the trace that a job becomes part of, as a W3C `traceparent`; called for each submission."""
    transport: Any = None
    """The HTTP library's transport, for a service that is not reached over the network."""


def call(
    link: Link,
    request: Request,
    *,
    sink: Sink | None = None,
    is_live: bool = False,
    patience_s: float = pacing.GIVE_UP_S,
) -> Flow[Answer]:
    """Send a request until the response is final.

    After 429 and 503 it waits as `Retry-After` says, after a lost response it backs off; it retries at most
    `max_retries` times, and a refused request for at most `patience_s`. Raises Refused, ServiceUnreachable.
    """
    is_in_doubt = False
    until = link.clock.monotonic() + patience_s
    for left in reversed(range(link.max_retries + 1)):
        try:
            answer: Answer = yield Send(request, sink, is_live)
        except Lost as lost:
            is_in_doubt |= lost.was_sent
            # The sink must not get bytes twice; the caller itself requests the rest.
            may_repeat = request.is_repeatable and sink is None
            if not left or (lost.was_sent and not may_repeat):
                message = f"{link.base_url} did not answer: {lost}"
                raise ServiceUnreachable(message) from lost
            waits_s = [pacing.backoff_s(link.max_retries + 1 - later) for later in range(left, 0, -1)]
            yield _wait(link, Retry(waits_s[0], None, str(lost), sum(waits_s)))
            continue
        if answer.status < 300:
            return answer
        is_in_doubt |= answer.status in pacing.RETRIED_WHEN_REPEATABLE
        wait_s = pacing.wait_s(answer.headers, link.clock.now())
        patience_left_s = until - link.clock.monotonic()
        if not left or not _may_repeat(request, answer) or wait_s > patience_left_s:
            error = refused(link, answer)
            error.is_in_doubt = is_in_doubt
            raise error
        yield _wait(link, Retry(wait_s, answer.status, "", min(left * wait_s, patience_left_s)))
    raise AssertionError("the last try returns or raises")


def ask(link: Link, request: Request) -> Flow[Any]:
    """Send a request and return the JSON of the response."""
    answer = yield from call(link, request)
    return parsed(answer)


def parsed(answer: Answer) -> Any:
    """The JSON of a successful response."""
    try:
        return json.loads(answer.content)
    except ValueError as error:
        raise UnexpectedAnswer(
            "the answer is not JSON: is this the address of a Tenuto service?",
            request_id=answer.headers.get("x-request-id"),
        ) from error


def refused(link: Link, answer: Answer) -> Refused:
    """The error for a response."""
    try:
        document = json.loads(answer.content)
    except ValueError:
        document = None
    return refusal(
        answer.status,
        document,
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
