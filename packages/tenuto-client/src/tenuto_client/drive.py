"""Runs flows over httpx2: one driver for threads, one for asyncio. It knows steps but not jobs.

The HTTP library reads 64 KiB at a time and copies each block three times, which makes up half the duration
of a large download on a fast network. So once a large body has begun, the rest is read directly from the
connection, through the library's extension `network_stream`. Such a connection is closed afterwards.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing, contextmanager
from typing import Any, TypeVar

import httpx2

from tenuto_client.errors import utf8
from tenuto_client.exchange import Link
from tenuto_client.steps import Answer, Do, FileBody, Flow, Lost, Pause, Request, Send, Sink, Step

T = TypeVar("T")

BLOCK_BYTES = 1 << 20
CONNECT_TIMEOUT_S = 10.0

_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class Driver:
    """Runs flows in the calling thread."""

    def __init__(self, link: Link) -> None:
        self._clock = link.clock
        self._timeout_s = link.timeout_s
        self._http = httpx2.Client(**_options(link))

    def run(self, flow: Flow[T]) -> T:
        """Run a flow; returns what it returns and raises what it raises."""
        outcome: Any = None
        error: BaseException | None = None
        with closing(flow):
            while True:
                try:
                    step = flow.send(outcome) if error is None else flow.throw(error)
                except StopIteration as end:
                    result: T = end.value
                    return result
                outcome, error = None, None
                try:
                    outcome = self._perform(step)
                except BaseException as raised:
                    # The flow decides whether to continue, and cleans up after itself.
                    error = raised

    def blocks(self, live: Any) -> Iterator[bytes]:
        """The body of a live answer as it arrives. Raises Lost if the connection breaks."""
        try:
            with closing(live):
                yield from live.iter_raw()
        except httpx2.TransportError as error:
            raise _lost(error) from error

    def close(self) -> None:
        self._http.close()

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Pause):
            return self._clock.sleep(step.seconds)
        if isinstance(step, Do):
            return step.function()
        return self._send(step)

    def _send(self, step: Send) -> Answer:
        content = step.request.content
        try:
            request = self._http.build_request(
                **_parts(step.request, self._timeout_s),
                content=_read_file(content) if isinstance(content, FileBody) else content,
            )
            response = self._http.send(request, stream=True)
            if step.is_live and response.status_code < 300:
                return _answer(response, b"", live=response)
            with closing(response):
                if step.sink is None or response.status_code >= 300:
                    return _answer(response, b"".join(response.iter_raw()))
                step.sink.begin(response.status_code, dict(response.headers))
                # Block by block: buffered blocks would be lost with the connection.
                timeout_s = step.request.timeout_s or self._timeout_s
                for block in blocks(response, timeout_s):
                    step.sink.write(block)
                return _answer(response, b"")
        except (httpx2.TransportError, httpx2.InvalidURL, ssl.SSLError) as error:
            raise _lost(error) from error


class AsyncDriver:
    """Runs flows on the running event loop; what touches the disk runs in a thread."""

    def __init__(self, link: Link) -> None:
        self._clock = link.clock
        self._timeout_s = link.timeout_s
        self._http = httpx2.AsyncClient(**_options(link))

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow; returns what it returns and raises what it raises."""
        outcome: Any = None
        error: BaseException | None = None
        with closing(flow):
            while True:
                try:
                    step = flow.send(outcome) if error is None else flow.throw(error)
                except StopIteration as end:
                    result: T = end.value
                    return result
                outcome, error = None, None
                try:
                    outcome = await self._perform(step)
                except BaseException as raised:
                    error = raised

    async def blocks(self, live: Any) -> AsyncIterator[bytes]:
        """The body of a live answer as it arrives. Raises Lost if the connection breaks."""
        try:
            async with aclosing(live):
                async for block in live.aiter_raw():
                    yield block
        except httpx2.TransportError as error:
            raise _lost(error) from error

    async def close(self) -> None:
        await self._http.aclose()

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, Pause):
            return await self._clock.sleep_async(step.seconds)
        if isinstance(step, Do):
            return await _in_thread(step)
        return await self._send(step)

    async def _send(self, step: Send) -> Answer:
        content = step.request.content
        try:
            request = self._http.build_request(
                **_parts(step.request, self._timeout_s),
                content=_read_file_async(content) if isinstance(content, FileBody) else content,
            )
            response = await self._http.send(request, stream=True)
            if step.is_live and response.status_code < 300:
                return _answer(response, b"", live=response)
            async with aclosing(response):
                if step.sink is None or response.status_code >= 300:
                    return _answer(response, b"".join([block async for block in response.aiter_raw()]))
                timeout_s = step.request.timeout_s or self._timeout_s
                await self._fill(step.sink, response, timeout_s)
                return _answer(response, b"")
        except (httpx2.TransportError, httpx2.InvalidURL, ssl.SSLError) as error:
            raise _lost(error) from error

    async def _fill(self, sink: Sink, response: httpx2.Response, timeout_s: float) -> None:
        import asyncio

        sink.begin(response.status_code, dict(response.headers))
        gathered: list[bytes] = []
        size_bytes = 0
        try:
            async for block in blocks_async(response, timeout_s):
                gathered.append(block)
                size_bytes += len(block)
                if size_bytes >= BLOCK_BYTES:
                    await asyncio.to_thread(sink.write, b"".join(gathered))
                    gathered, size_bytes = [], 0
        finally:
            # Blocks that arrived before the connection was lost count, too.
            if gathered:
                sink.write(b"".join(gathered))


async def _in_thread(step: Do) -> Any:
    """Call the function in a thread. A cancelled flow does not wait for it; the outcome is undone instead."""
    import asyncio
    from concurrent.futures import Future

    if (undo := step.undo) is None:
        return await asyncio.to_thread(step.function)
    done: Future[Any] = Future()

    def call() -> Any:
        outcome = step.function()
        done.set_result(outcome)
        return outcome

    try:
        return await asyncio.to_thread(call)
    except asyncio.CancelledError:
        done.add_done_callback(lambda _: undo(done.result()))
        raise


def _options(link: Link) -> dict[str, Any]:
    """The arguments of both HTTP clients: no redirects, which could carry the key to another server."""
    return {
        "base_url": link.base_url,
        "headers": {
            "Authorization": f"Bearer {link.api_key}",
            "Accept-Encoding": "identity",
            "User-Agent": "tenuto-client",
        },
        "follow_redirects": False,
        "transport": link.transport,
        # Loading the CA certificates is the slowest step; http: uses an empty context, which trusts nothing.
        "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if link.base_url.startswith("http:") else True,
    }


def _parts(request: Request, timeout_s: float) -> dict[str, Any]:
    headers = dict(request.headers)
    if isinstance(request.content, FileBody):
        headers["Content-Length"] = str(request.content.size_bytes)
    for value in request.query.values():
        utf8(str(value))
    return {
        "method": request.method,
        "url": request.path,
        "headers": headers,
        "params": dict(request.query) or None,
        "timeout": httpx2.Timeout(request.timeout_s or timeout_s, connect=CONNECT_TIMEOUT_S),
    }


def _answer(response: httpx2.Response, content: bytes, live: Any = None) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, content, live)


def _read_file(body: FileBody) -> Generator[bytes]:
    passed = 0
    with body.path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block
            passed += len(block)
            if body.on_bytes is not None:
                body.on_bytes(passed, body.size_bytes)


async def _read_file_async(body: FileBody) -> AsyncIterator[bytes]:
    import asyncio

    passed = 0
    with body.path.open("rb") as file:
        while block := await asyncio.to_thread(file.read, BLOCK_BYTES):
            yield block
            passed += len(block)
            if body.on_bytes is not None:
                body.on_bytes(passed, body.size_bytes)


def _lost(error: Exception) -> Lost:
    return Lost(_why(error), was_sent=not isinstance(error, _NEVER_SENT))


def _why(error: Exception) -> str:
    """What happened to a connection, in words for users; the exception itself becomes the cause."""
    text = in_words(str(error) or type(error).__name__)
    if isinstance(error, httpx2.TimeoutException):
        return "no connection in time" if isinstance(error, _NEVER_SENT) else "no answer in time"
    if isinstance(error, httpx2.RemoteProtocolError):
        was_closed = "disconnected" in text or "closed connection" in text
        return "the answer was cut off" if was_closed else "it is not an HTTP server"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"its certificate is not trusted: {text.rpartition('failed: ')[2]}"
    return (
        "it does not speak TLS: should the address begin with http://?"
        if "WRONG_VERSION_NUMBER" in text
        else text
    )


READ_BYTES = 1 << 20
LARGE_BYTES = 4 << 20
"""If at least this much is left, reading faster is worth a new connection for the next request."""


def blocks(response: httpx2.Response, timeout_s: float) -> Iterator[bytes]:
    """The body in blocks of any size. Raises Lost, or the library's own error, if the connection breaks."""
    left = _announced(response)
    body = response.iter_raw()  # a local variable: dropping the iterator would close the connection
    for block in body:
        yield block
        left -= len(block)
        if left >= LARGE_BYTES:
            break
    else:
        return
    stream = _stream(response)
    while left:
        with _raising_lost():
            block = stream.read(min(left, READ_BYTES), timeout=timeout_s)
        left -= len(_not_empty(block))
        yield block


async def blocks_async(response: httpx2.Response, timeout_s: float) -> AsyncIterator[bytes]:
    """`blocks` for asyncio."""
    left = _announced(response)
    body = response.aiter_raw()
    async for block in body:
        yield block
        left -= len(block)
        if left >= LARGE_BYTES:
            break
    else:
        return
    stream = _stream(response)
    while left:
        with _raising_lost():
            block = await stream.read(min(left, READ_BYTES), timeout=timeout_s)
        left -= len(_not_empty(block))
        yield block


def _announced(response: httpx2.Response) -> int:
    """The announced length of the body; 0 if there is none or the body is chunked."""
    if "transfer-encoding" in response.headers or response.http_version != "HTTP/1.1":
        return 0
    return int(response.headers.get("content-length", 0))


def _stream(response: httpx2.Response) -> Any:
    return response.extensions["network_stream"]


def _not_empty(block: bytes) -> bytes:
    if not block:
        raise Lost("the answer was cut off", was_sent=True)
    return block


@contextmanager
def _raising_lost() -> Iterator[None]:
    import httpcore2

    try:
        yield
    except httpcore2.TimeoutException as error:
        raise Lost("no answer in time", was_sent=True) from error
    except httpcore2.NetworkError as error:
        raise Lost(in_words(str(error) or type(error).__name__), was_sent=True) from error


def in_words(message: str) -> str:
    """The system's message without its error number."""
    return re.sub(r"\[Errno -?\d+\] (.)", lambda match: match[1].lower(), message)
