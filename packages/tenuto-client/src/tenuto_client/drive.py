"""Runs flows: one driver for threads, one for asyncio, over httpx2. It knows steps, and nothing of jobs."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any, TypeVar

import httpx2

from tenuto_client import bodies
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
        """What the flow returns, or the error it raises."""
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
                    # The flow decides: it may go on, and it leaves nothing half done.
                    error = raised

    def blocks(self, live: Any) -> Iterator[bytes]:
        """The body of a live answer as it arrives. Raises Lost when it breaks off."""
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
                # As they come: blocks that were gathered would be lost with the connection.
                timeout_s = step.request.timeout_s or self._timeout_s
                for block in bodies.blocks(response, timeout_s):
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
        """What the flow returns, or the error it raises."""
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
        """The body of a live answer as it arrives. Raises Lost when it breaks off."""
        try:
            async with aclosing(live):
                async for block in live.aiter_raw():
                    yield block
        except httpx2.TransportError as error:
            raise _lost(error) from error

    async def close(self) -> None:
        await self._http.aclose()

    async def _perform(self, step: Step) -> Any:
        import asyncio

        if isinstance(step, Pause):
            return await self._clock.sleep_async(step.seconds)
        if isinstance(step, Do):
            return await asyncio.to_thread(step.function)
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
            async for block in bodies.blocks_async(response, timeout_s):
                gathered.append(block)
                size_bytes += len(block)
                if size_bytes >= BLOCK_BYTES:
                    await asyncio.to_thread(sink.write, b"".join(gathered))
                    gathered, size_bytes = [], 0
        finally:
            # What came before the connection was lost is kept, too.
            if gathered:
                sink.write(b"".join(gathered))


def _options(link: Link) -> dict[str, Any]:
    """What both clients are made with: no redirects, which would carry the key to another place."""
    return {
        "base_url": link.base_url,
        "headers": {
            "Authorization": f"Bearer {link.api_key}",
            "Accept-Encoding": "identity",
            "User-Agent": "tenuto-client",
        },
        "follow_redirects": False,
        # Loading the authorities' certificates takes longer than all else; one without any trusts nobody.
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
    """What happened to a connection, in words for people; the error itself is the cause of what is raised."""
    told = bodies.in_words(str(error) or type(error).__name__)
    if isinstance(error, httpx2.TimeoutException):
        return "no connection in time" if isinstance(error, _NEVER_SENT) else "nothing came in time"
    if isinstance(error, httpx2.RemoteProtocolError):
        has_ended = "disconnected" in told or "closed connection" in told
        return "the answer was cut off" if has_ended else "this is not an HTTP server"
    if "CERTIFICATE_VERIFY_FAILED" in told:
        return f"its certificate is not trusted: {told.rpartition('failed: ')[2]}"
    return "what answers there speaks no TLS: is it http://?" if "WRONG_VERSION_NUMBER" in told else told
