"""A request's body: where it ends, reading it within limits of size and time, answering when nobody read it.

Time is counted only while we wait for the client: what our own disk or database takes is not held against it.
Nothing is read before the first call, so a route that authenticates first makes an unknown caller's body cost
nothing; a client that asked `Expect: 100-continue` is told to go on by the first read, not before. Readers
know ASGI alone, `Exchange` is uvicorn's; connections are `server.py`'s.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tenuto.api.errors import FAILED, STOPPING, error_response
from tenuto.errors import PayloadTooLarge, RequestTimeout

Receive = Callable[[], Awaitable[Any]]
"""ASGI's `receive`: each call gives a message, `http.request` or `http.disconnect`."""

RawHeaders = Iterable[tuple[bytes, bytes]]
"""ASGI's `scope["headers"]`: names in lower case."""

_log = logging.getLogger("tenuto.api.body")


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
    """After an answer to an unread body the client may send on for this long, until it reads the answer, and
    never pauses for longer."""
    linger_bytes: int = 8 * 1024 * 1024
    """… and this much, which is thrown away. Beyond either it needs one of the `discards`."""
    discards: int = 16
    """Connections of callers with a key that may send on beyond that, and as many of strangers."""
    discard_s: float = 60.0
    """… for this long, pauses included,"""
    discard_bytes: int = 288 * 1024 * 1024
    """… and this much: more than the largest body that we take."""
    stranger_discard_bytes: int = 32 * 1024 * 1024
    """The same for a client without a valid key."""
    connections: int = 800
    """Open connections; beyond: idle ones are closed, or 503. Below the usual 1,024 descriptors."""
    connections_per_address: int = 400
    """Open connections of one address that is not a trusted proxy's; beyond: 503 and closed. 0: no limit."""
    pipelined: int = 32
    """Requests waiting behind the one being answered; beyond: those are answered, the connection closes."""
    grace_s: float = 10.0
    """After the signal to stop, requests under way have this long to finish."""


LENGTHS = frozenset((b"content-length", b"transfer-encoding"))
"""The two headers that say where a body ends."""

FRAMING = LENGTHS | {b"host"}
"""The headers of which a request may have one alone, read as they are sent."""


class ClientGone(Exception):
    """The client went away before the last byte of its body; there is nobody to answer."""


async def read_body(receive: Receive, headers: RawHeaders, *, limit_bytes: int, limits: HttpLimits) -> bytes:
    """The whole body.

    Raises PayloadTooLarge (a declared length over the limit before anything is read, else at the limit),
    RequestTimeout and ClientGone: a body that was cut off is never taken for a whole one.
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
    """The body piece by piece as it arrives, by the same rules; only a normal end means that it was whole."""
    refuse_declared_length(headers, limit_bytes)
    async for piece in _rest(receive, 0, 0.0, limit_bytes, limits):
        yield piece


def refuse_declared_length(headers: RawHeaders, limit_bytes: int) -> None:
    """Raises PayloadTooLarge if the head already says so; the server has seen that the length is a number."""
    for name, value in headers:
        if name == b"content-length" and int(value) > limit_bytes:
            raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body may have at most {limit_bytes} bytes")


class HeadWithBody:
    """The transport of one response: its head leaves with the first piece of its body, as one packet.

    If no piece comes in this turn of the loop, the head leaves alone: a stream's client sees it at once.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.head = b""
        self.begun = False
        self.is_closing = transport.is_closing

    def write(self, content: bytes) -> None:
        """The first content is the head."""
        if not self.begun:
            self.begun = True
            self.head = content
            asyncio.get_running_loop().call_soon(self._flush)
        elif self.head and len(content) < 65536:
            head, self.head = self.head, b""
            self.transport.write(head + content)
        else:
            self._flush()
            self.transport.write(content)

    def close(self) -> None:
        """Closes after what was written has left."""
        self._flush()
        self.transport.close()

    def _flush(self) -> None:
        if self.head:
            head, self.head = self.head, b""
            self.transport.write(head)


class Exchange(RequestResponseCycle):
    """One request and its response, as uvicorn runs them, with an honest end."""

    request_id: Callable[[], str]
    linger: Callable[[bool], None]
    until_close = False

    def send(self, message: ASGISendEvent) -> Coroutine[Any, Any, None]:
        """ASGI's send."""
        if self.response_started:
            if self.until_close:
                self.expected_content_length = len(cast(bytes, message.get("body", b"")))
            return RequestResponseCycle.send(self, message)
        if self.scope["method"] != "HEAD" and not isinstance(self.transport, HeadWithBody):
            self.transport = cast(asyncio.Transport, HeadWithBody(self.transport))
        if self.more_body:
            return self._answer_early(message)
        if self.scope["http_version"] == "1.0":
            # HTTP/1.0 knows no chunks: without a length the end of the connection is the end of the response.
            names = [name.lower() for name, _ in cast(Any, message).get("headers", ())]
            self.until_close = b"content-length" not in names
            self.chunked_encoding = False if self.until_close else None
        return RequestResponseCycle.send(self, message)

    async def _answer_early(self, message: ASGISendEvent) -> None:
        """Starts an answer to a request that was not read to its end; the connection closes after it."""
        self.keep_alive = False
        await RequestResponseCycle.send(self, message)
        # Closing over unread bytes would reset the connection and might lose the answer: linger instead.
        self.keep_alive = True
        self.on_response = partial(self.linger, "caller_is_known" in self.scope)

    async def send_500_response(self) -> None:
        """The answer where the application gave none: it failed, or was cancelled when the grace ended."""
        stopping = isinstance(sys.exc_info()[1], asyncio.CancelledError)
        status, error = STOPPING if stopping else FAILED
        request_id = self.request_id()
        _log.error("http.failed status=%d request_id=%s", status, request_id)
        response: Any = error_response(error, request_id, status)
        await response(self.scope, self.receive, self.send)


def framing_fault(version: str, headers: RawHeaders) -> str | None:
    """What makes it doubtful where this request ends or whom it is for, or None. Names are in lower case."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in FRAMING:
            if name in found:
                return f"{name.decode().title()} must be given once."
            found[name] = value
    if version not in ("1.1", "1.0"):
        return "The protocol must be HTTP/1.1."
    return _length_fault(version, found) or _host_fault(version, found)


def _length_fault(version: str, found: dict[bytes, bytes]) -> str | None:
    length = found.get(b"content-length")
    # The parser takes up to 2**64 - 1; fifteen digits are more than any body.
    if length is not None and (len(length) > 15 or not length.isdigit()):
        return "Content-Length must be a plain number of bytes."
    coding = found.get(b"transfer-encoding")
    if coding is not None and coding.lower() != b"chunked":
        return "The only Transfer-Encoding that is understood is `chunked`."
    if coding is not None and (length is not None or version == "1.0"):
        return "Transfer-Encoding stands alone, in HTTP/1.1 only."
    return None


def _host_fault(version: str, found: dict[bytes, bytes]) -> str | None:
    host = found.get(b"host")
    if host is None:
        return "The Host header is missing." if version == "1.1" else None
    if not host.isascii() or not host or host.translate(None, b'/?#@\\, \t"<>') != host:
        return "The Host header must be a host and perhaps a port."
    return None


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
    """One message. A bare timer: `asyncio.timeout` costs three times as much, on every small request."""
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
