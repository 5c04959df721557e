"""The HTTP server: uvicorn on our own sockets, with connections that enforce the limits it does not set.

Deadlines are swept twice a second instead of kept as a timer per request, which is cheaper than uvicorn's own
keep-alive timer. What a connection may and may not do is in `connection.py`.
"""

import _thread
import asyncio
import contextlib
import errno
import gc
import itertools
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn

from tenuto.addresses import Network
from tenuto.api.limits import HttpLimits
from tenuto.errors import OperatorError
from tenuto.features.http_guard.connection import Connection, OnRefusal
from tenuto.features.http_guard.shares import Connections, Lingering
from tenuto.logs import get_logger, log_failure

OnReady = Callable[[list[Any]], None]
"""Called with the server's addresses once it accepts connections."""
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


class Server(uvicorn.Server):
    """uvicorn's server on our own sockets. It leaves signals to the owner of the process.

    `await serve()` until `should_exit` is set (from the loop's thread); `force_exit` ends the grace at once.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        on_ready: OnReady,
        with_deadline: set[Connection],
    ) -> None:
        self._should_exit = False
        super().__init__(config)
        self.sockets = sockets
        self.with_deadline = with_deadline
        for listening in sockets:
            if listening.family in (socket.AF_INET, socket.AF_INET6):  # its connections inherit it
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        self.on_ready = on_ready
        self.swept_at = time.monotonic()
        """When the event loop last ran the sweep."""
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

    @property
    def addresses(self) -> list[Any]:
        """Where it listens: `(host, port)`, with the port that the system chose if 0 was asked for."""
        return [listening.getsockname()[:2] for listening in self.sockets]

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until `should_exit`, then lets requests finish within the grace."""
        sweeping = asyncio.ensure_future(self._sweep())
        try:
            await super().serve(sockets or self.sockets)
        finally:
            sweeping.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts accepting connections, then calls `on_ready`."""
        await super().startup(sockets)
        # Modules, routes and schemas live for good. Every full collection would traverse all of them, and
        # block all requests for 30 to 50 ms.
        gc.freeze()
        try:
            self.on_ready(self.addresses)
        except BaseException:
            # Until the loop is closed, it would accept and answer more requests.
            for listening in self.servers:
                listening.close()
            for connection in list(cast("set[Connection]", self.server_state.connections)):
                connection.transport.abort()
            raise

    async def main_loop(self) -> None:
        """Wait until `should_exit` is set. uvicorn's own loop polls ten times a second."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            await self._ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Captures none; uvicorn would take SIGTERM and SIGINT here."""
        yield

    async def _sweep(self) -> None:
        clock = asyncio.get_running_loop().time
        before = clock()
        connections = cast("set[Connection]", self.server_state.connections)
        for turn in itertools.count(1):
            await asyncio.sleep(SWEEP_S)
            now = clock()
            self.swept_at = time.monotonic()
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
    config = uvicorn.Config(
        app,
        http=cast(Any, connection),
        loop="uvloop",
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=cast(Any, limits.grace_s),
    )
    return Server(config, listen(host, port, fd), on_ready, with_deadline)


def check_address(host: str, port: int) -> None:
    """OperatorError if a server could not listen there; checked before anything else is started."""
    for listening in listen(host, port):
        listening.close()


def run(server: Server, signals: Iterable[int], *, on_stop: Callable[[], None] = lambda: None) -> None:
    """Runs a server on a loop of its own until one of the signals arrives; a second one ends the grace.

    `on_stop` is called in a thread of its own, before the last requests are answered.
    """

    def stop(number: int, frame: object) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        # A signal interrupts its thread anywhere, even while it holds a lock that `on_stop` needs. Starting a
        # thread of `threading` takes locks; starting a bare one takes none.
        _thread.start_new_thread(on_stop, ())

    for number in signals:
        signal.signal(number, stop)
    server.run()


def listen(host: str, port: int, fd: int | None = None) -> list[socket.socket]:
    """Sockets that listen there, or the one of the descriptor `fd`. OperatorError."""
    if fd is not None:
        return [socket.socket(fileno=fd)]
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return [socket.create_server((host, port), family=family, backlog=2048)]
    except OSError as error:
        # Python repeats the address, in brackets.
        why = str(error.strerror).partition(" (while ")[0]
        why += f" by {holder}" if error.errno == errno.EADDRINUSE and (holder := _holder_of(port)) else ""
        message = f"cannot listen on {host}:{port}: {why}; choose another with --host or --port"
        raise OperatorError(message) from error


def _holder_of(port: int) -> str | None:
    """The process that listens on a port, described for people; None if we may not inspect it."""
    with contextlib.suppress(OSError):
        tables = "".join(Path("/proc/net", name).read_text("ascii") for name in ("tcp", "tcp6"))
        rows = [line.split() for line in tables.splitlines()]
        listening = {
            f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"
        }
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if any(str(one.readlink()) in listening for one in (process / "fd").iterdir()):
                    return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    return None
