"""Reading a request's body within limits of size and time. It knows ASGI's `receive` and no framework.

Time is counted only while we wait for the client: what our own disk or database takes is not held against it.
Nothing is read before the first call, so a route that authenticates first makes an unknown caller's body cost
nothing; a client that asked `Expect: 100-continue` is told to go on by the first read, not before.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tenuto.errors import PayloadTooLarge, RequestTimeout

Receive = Callable[[], Awaitable[Any]]
"""ASGI's `receive`: each call gives a message, `http.request` or `http.disconnect`."""

RawHeaders = Iterable[tuple[bytes, bytes]]
"""ASGI's `scope["headers"]`: names in lower case."""


@dataclass(frozen=True)
class HttpLimits:
    """What one client may take of us; seconds are counted while it is the one who is awaited."""

    head_s: float = 10.0
    """From the first byte of a request, or from connecting, to the end of its head; beyond: 408."""
    head_bytes: int = 32 * 1024
    """Request line and header fields together; beyond: 431."""
    head_fields: int = 100
    """Header fields; beyond: 431."""
    target_bytes: int = 8 * 1024
    """Path and query as sent; beyond: 414."""
    body_s: float = 10.0
    """Waiting for a body, however small; beyond: 408."""
    body_bytes_per_s: int = 64 * 1024
    """Every so many bytes that arrived allow one second more."""
    write_stall_s: float = 30.0
    """A client that reads its response takes `write_stall_bytes` in this time, or all; else it is cut off."""
    write_stall_bytes: int = 64 * 1024
    """What must leave our buffer in `write_stall_s`, if there is as much."""
    keep_alive_s: float = 75.0
    """An idle connection is kept this long: longer than proxies keep theirs, so that they close first."""
    linger_s: float = 5.0
    """After an answer to an unread body the client may send on for this long, until it reads the answer."""
    linger_bytes: int = 8 * 1024 * 1024
    """… and this much, which is thrown away."""
    connections: int = 800
    """Open connections; beyond: 503 and closed. Stays below the usual 1,024 descriptors of a process."""
    pipelined: int = 32
    """Requests waiting behind the one being answered; beyond: those are answered, the connection closes."""
    grace_s: float = 10.0
    """After the signal to stop, requests under way have this long to finish."""


class ClientGone(Exception):
    """The client went away before the last byte of its body; there is nobody to answer."""


async def read_body(receive: Receive, headers: RawHeaders, *, limit_bytes: int, limits: HttpLimits) -> bytes:
    """The whole body.

    Raises PayloadTooLarge (a declared length over the limit before anything is read, else at the limit),
    RequestTimeout and ClientGone: a body that was cut off is never taken for a whole one.
    """
    refuse_declared_length(headers, limit_bytes)
    message = await _receive_within(receive, limits.body_s)
    body: bytes = message.get("body", b"")
    if len(body) > limit_bytes:
        raise PayloadTooLarge
    if not message.get("more_body", False):
        return body
    pieces = [body]
    async for piece in _rest(receive, len(body), limit_bytes, limits):
        pieces.append(piece)
    return b"".join(pieces)


async def stream_body(
    receive: Receive, headers: RawHeaders, *, limit_bytes: int, limits: HttpLimits
) -> AsyncIterator[bytes]:
    """The body piece by piece as it arrives, by the same rules; only a normal end means that it was whole."""
    refuse_declared_length(headers, limit_bytes)
    async for piece in _rest(receive, 0, limit_bytes, limits):
        yield piece


def refuse_declared_length(headers: RawHeaders, limit_bytes: int) -> None:
    """Raises PayloadTooLarge if the head already says so; the server has seen that the length is a number."""
    for name, value in headers:
        if name == b"content-length" and int(value) > limit_bytes:
            raise PayloadTooLarge


async def _rest(
    receive: Receive, received_bytes: int, limit_bytes: int, limits: HttpLimits
) -> AsyncIterator[bytes]:
    clock = asyncio.get_running_loop().time
    waited_s = 0.0
    more = True
    while more:
        allowed_s = limits.body_s + received_bytes / limits.body_bytes_per_s
        began = clock()
        message = await _receive_within(receive, allowed_s - waited_s)
        waited_s += clock() - began
        piece: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        received_bytes += len(piece)
        if received_bytes > limit_bytes:
            raise PayloadTooLarge
        if piece:
            yield piece


async def _receive_within(receive: Receive, seconds: float) -> Any:
    """One message. A bare timer: `asyncio.timeout` costs three times as much, on every small request."""
    task = asyncio.current_task()
    assert task is not None
    cancelled_before = task.cancelling()
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, expire)
    try:
        message = await receive()
    except asyncio.CancelledError:
        # Ours only if nobody else cancelled the task as well.
        if expired and task.uncancel() <= cancelled_before:
            raise RequestTimeout from None
        raise
    finally:
        timer.cancel()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message
