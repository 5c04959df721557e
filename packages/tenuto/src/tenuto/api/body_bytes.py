"""Determines unambiguously where a request ends, and reads its body within limits of size and time.

Time counts only while we wait for the client, not while our own disk or database is busy. Nothing is read
before the first call, so if a route authenticates first, an unknown caller's body costs nothing; a client
that sent `Expect: 100-continue` gets its 100 at the first read, not before.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from tenuto.api.limits import HttpLimits
from tenuto.errors import PayloadTooLarge, RequestTimeout

Receive = Callable[[], Awaitable[Any]]
"""ASGI's `receive`: each call returns a message, `http.request` or `http.disconnect`."""

RawHeaders = Iterable[tuple[bytes, bytes]]
"""ASGI's `scope["headers"]`: names in lower case."""


class ClientGone(Exception):
    """The client went away, so there is nobody to answer."""


async def read_body(receive: Receive, headers: RawHeaders, *, limit_bytes: int, limits: HttpLimits) -> bytes:
    """The whole body.

    Raises PayloadTooLarge (before reading if the declared length exceeds the limit, else at the limit),
    RequestTimeout and ClientGone: a truncated body is never taken for a whole one.
    """
    refuse_declared_length(headers, limit_bytes)
    loop = asyncio.get_running_loop()
    began = loop.time()
    message = await _receive_within(receive, limits.body_s, loop)
    body: bytes = message.get("body", b"")
    if len(body) > limit_bytes:
        raise _too_large(limit_bytes)
    if not message.get("more_body", False):
        return body
    pieces = [body]
    async for piece in _rest(receive, len(body), loop.time() - began, limit_bytes, limits):
        pieces.append(piece)
    return b"".join(pieces)


async def stream_body(
    receive: Receive, headers: RawHeaders, *, limit_bytes: int, limits: HttpLimits
) -> AsyncIterator[bytes]:
    """The body piece by piece as it arrives, by the same rules; only after a normal end is it complete."""
    refuse_declared_length(headers, limit_bytes)
    async for piece in _rest(receive, 0, 0.0, limit_bytes, limits):
        yield piece


def refuse_declared_length(headers: RawHeaders, limit_bytes: int) -> None:
    """Raises PayloadTooLarge if the declared length, which the server knows to be a number, is too large."""
    for name, value in headers:
        if name == b"content-length" and int(value) > limit_bytes:
            raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body may have at most {limit_bytes} bytes")


async def _rest(
    receive: Receive, received_bytes: int, waited_s: float, limit_bytes: int, limits: HttpLimits
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    more = True
    while more:
        allowed_s = limits.body_s + received_bytes / limits.body_bytes_per_s
        began = loop.time()
        message = await _receive_within(receive, allowed_s - waited_s, loop)
        waited_s += loop.time() - began
        piece: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        received_bytes += len(piece)
        if received_bytes > limit_bytes:
            raise _too_large(limit_bytes)
        if piece:
            yield piece


async def _receive_within(receive: Receive, seconds: float, loop: asyncio.AbstractEventLoop) -> Any:
    """One message. With a bare timer: `asyncio.timeout` costs three times as much, on every small request."""
    task = asyncio.current_task()
    assert task is not None
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()

    timer = loop.call_later(seconds, expire)
    try:
        message = await receive()
    except asyncio.CancelledError:
        # Ours only if nobody else cancelled the task as well.
        if expired and not task.uncancel():
            raise RequestTimeout from None
        raise
    finally:
        timer.cancel()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message
