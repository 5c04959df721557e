"""A chat model behind an OpenAI-compatible server that the operator configured.

What goes there and what comes back is rebuilt from fields that are known here, so nothing private of either
side passes. The address stands in the settings alone, redirects are not followed, proxies not taken from
variables. A request is sent again only when no connection was made: any other loss may have been paid for.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from tenuto.bodies.chat import ChatRequest
from tenuto.chat import wire
from tenuto.chat.answers import Completion, Piece
from tenuto.config import UpstreamSettings
from tenuto.errors import InvalidRequest, ModelUnavailable
from tenuto.logs import get_logger

CONNECT_S = 5.0
RECONNECT_S = 0.2
# Many servers close an idle connection after five seconds; one that is used as it is closed is a lost call.
KEEP_ALIVE_S = 4.0
MAX_ANSWER_BYTES = 32 * 1024 * 1024
# Connections that could not be made in a row, until the model is no longer called, and for how long.
UNREACHABLE_AFTER = 3
UNREACHABLE_S = 10.0
UNREACHABLE = "its upstream does not answer"

_log = get_logger("tenuto.chat")


class UpstreamChat:
    """A ChatEngine (see `answers.py`). `key` is the secret for the upstream: never shown, never logged."""

    def __init__(self, name: str, upstream: UpstreamSettings, key: str | None, *, timeout_s: float) -> None:
        self.concurrency = upstream.connections
        self._name = name
        self._model = upstream.model or name
        self._url = upstream.url.rstrip("/") + "/chat/completions"
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        self._session: aiohttp.ClientSession | None = None
        self._failures = 0
        self._failed_at = 0.0

    def reason(self) -> str | None:
        waits = time.monotonic() - self._failed_at < UNREACHABLE_S
        return UNREACHABLE if self._failures >= UNREACHABLE_AFTER and waits else None

    def warm(self) -> None:
        """Nothing: a connection is made by the first call."""

    async def complete(self, request: ChatRequest, on_piece: Callable[[Piece], None]) -> Completion:
        async with self._answer(request) as response:
            return wire.completion(await _whole(response))

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        async with self._answer(request) as response:
            events = wire.Events(MAX_ANSWER_BYTES)
            async for block in response.content.iter_any():
                for piece in events.add(block):
                    yield piece
                if events.is_done:
                    break
            yield events.last()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _answer(self, request: ChatRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """The upstream's 200. Leaving the block early closes the connection: the upstream sees us go."""
        try:
            response = await self._send(wire.body(self._model, request))
            try:
                if response.status != 200:
                    await self._refuse(response, request)
                yield response
            finally:
                response.release() if response.content.is_eof() else response.close()
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, wire.Garbage, ValueError) as error:
            # The error's text may hold what the upstream said: only its kind is logged.
            _log.warning("upstream.failed", model=self._name, reason=type(error).__name__)
            raise ModelUnavailable from error

    async def _send(self, body: bytes) -> aiohttp.ClientResponse:
        try:
            response = await self._post(body)
        except aiohttp.ClientConnectorError:
            # Nothing was sent: this cannot pay twice.
            await asyncio.sleep(RECONNECT_S)
            try:
                response = await self._post(body)
            except aiohttp.ClientConnectorError:
                self._failures += 1
                self._failed_at = time.monotonic()
                raise
        self._failures = 0
        return response

    async def _post(self, body: bytes) -> aiohttp.ClientResponse:
        return await self._open_session().post(
            self._url, data=body, headers=self._headers, allow_redirects=False
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def _refuse(self, response: aiohttp.ClientResponse, request: ChatRequest) -> None:
        """Raise what another status than 200 means to our caller."""
        error = wire.refusal(
            response.status, response.headers.get("Retry-After"), await _whole(response), request
        )
        if not isinstance(error, InvalidRequest):
            _log.warning("upstream.refused", model=self._name, status=response.status)
        raise error


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    body = await response.content.read(MAX_ANSWER_BYTES + 1)
    while len(body) <= MAX_ANSWER_BYTES and not response.content.at_eof():
        body += await response.content.read(MAX_ANSWER_BYTES + 1 - len(body))
    if len(body) > MAX_ANSWER_BYTES:
        raise wire.Garbage("the answer is too long")
    return body
