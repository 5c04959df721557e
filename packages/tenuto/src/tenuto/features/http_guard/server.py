"""The HTTP server, with connections that enforce the limits that uvicorn does not set.

Deadlines are swept twice a second instead of kept as a timer per request, which is cheaper than uvicorn's own
keep-alive timer. What a connection may and may not do is in `connection.py`.
"""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import uvicorn

from tenuto.api import server
from tenuto.api.limits import HttpLimits
from tenuto.api.server import Asgi, OnReady, configuration, listen
from tenuto.api.service import Part, Service
from tenuto.config.addresses import Network, networks
from tenuto.features.http_guard.connection import Connection, OnRefusal
from tenuto.features.http_guard.shares import Connections, Lingering
from tenuto.logs import get_logger, log_failure

_log = get_logger("tenuto.api")
SWEEP_S = 0.5
TICK_EVERY = 2
"""Every second sweep updates the `Date` header of answers."""
ALL_SWEPT_EVERY = 10
"""Every tenth sweep checks all connections, including those whose clients wait for us: one that is closed
meanwhile has a deadline again."""
SWEPT_AT_ONCE = 16
SWEPT_FOR_S = 0.001
"""Every `SWEPT_AT_ONCE` connections the sweep checks the time, and yields to the loop after this long.
Closing a connection is slow; passing a thousand open ones is not, and yielding has a cost."""
UNSENT_BYTES = 256 * 1024
"""How much of an answer may wait in the kernel; otherwise, each client that does not read would keep
megabytes there. It does not bound the data in flight to a fast and distant client."""


class Server(server.Server):
    """The same, with deadlines for its connections."""

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        on_ready: OnReady,
        with_deadline: set[Connection],
    ) -> None:
        self._should_exit = False
        super().__init__(config, sockets, on_ready)
        self.with_deadline = with_deadline
        for listening in sockets:
            if listening.family in (socket.AF_INET, socket.AF_INET6):  # its connections inherit it
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    @property
    def should_exit(self) -> bool:
        """Set it to end the service; from the loop's thread, in which signals also arrive."""
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._should_exit = value
        if value and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # The loop has ended already.
                self._loop.call_soon_threadsafe(self._ending.set)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until `should_exit`, then lets requests finish within the grace."""
        sweeping = asyncio.ensure_future(self._sweep())
        try:
            await super().serve(sockets)
        finally:
            sweeping.cancel()

    async def main_loop(self) -> None:
        """Wait until `should_exit` is set. uvicorn's own loop polls ten times a second."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            await self._ending.wait()

    async def _sweep(self) -> None:
        clock = asyncio.get_running_loop().time
        before = clock()
        connections = cast("set[Connection]", self.server_state.connections)
        for turn in itertools.count(1):
            await asyncio.sleep(SWEEP_S)
            now = clock()
            if turn % TICK_EVERY == 0:
                await self.on_tick(0)
            # If our own loop was blocked, that time must not count against the clients.
            elapsed_s = min(now - before, 2 * SWEEP_S)
            before = now
            since = clock()
            swept = self.with_deadline if turn % ALL_SWEPT_EVERY else connections
            for number, connection in enumerate(list(swept)):
                if connection in connections:
                    try:
                        connection.sweep(elapsed_s)
                    except Exception as error:  # It is cut off: the deadlines of all others still hold.
                        log_failure(_log, "http.sweep_failed", error)
                        connection.transport.abort()
                if number % SWEPT_AT_ONCE == 0 and clock() - since > SWEPT_FOR_S:
                    await asyncio.sleep(0)
                    since = clock()


def make_server(
    app: Callable[..., Any],
    *,
    request_id: Callable[[], str],
    host: str = "127.0.0.1",
    port: int = 0,
    fd: int | None = None,
    limits: HttpLimits | None = None,
    on_ready: OnReady = lambda addresses: None,
    on_refusal: OnRefusal = lambda limit: None,
    proxies: Sequence[Network] = (),
) -> Server:
    """A server bound to `host` and `port`, or to the listening socket `fd`. OperatorError: it cannot bind.

    `proxies` are trusted: each speaks for many clients, so the limit per address does not apply to it.
    """
    limits = limits or HttpLimits()
    with_deadline: set[Connection] = set()
    connection = partial(
        Connection,
        limits=limits,
        lingering=Lingering(limits.discards),
        shares=Connections(limits.connections, limits.connections_per_address, proxies),
        with_deadline=with_deadline,
        request_id=request_id,
        on_refusal=on_refusal,
    )
    config = configuration(app, grace_s=limits.grace_s, http=connection)
    return Server(config, listen(host, port, fd), on_ready, with_deadline)


def serving(service: Service) -> Part:
    """Guards the connections of an API process."""
    service.make_server = _guarded
    return Part()


def _guarded(service: Service, app: Asgi, *, fd: int | None, on_ready: OnReady) -> Server:
    settings = service.settings
    return make_server(
        app,
        request_id=lambda: service.ids.new("req"),
        host=settings.host,
        port=settings.port,
        fd=fd,
        limits=service.http,
        on_refusal=service.metrics.refused,
        on_ready=on_ready,
        proxies=networks(settings.trusted_proxies),
    )
