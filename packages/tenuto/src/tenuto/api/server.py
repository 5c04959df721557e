"""The HTTP server: uvicorn on our own sockets, and stopped by our own signals."""

import _thread
import contextlib
import errno
import gc
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from tenuto.errors import OperatorError

if TYPE_CHECKING:
    from tenuto.api.service import Service

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
OnReady = Callable[[list[Any]], None]
"""Called with the server's addresses once it accepts connections."""


class Server(uvicorn.Server):
    """uvicorn's server on our own sockets. It leaves signals to the owner of the process.

    `await serve()` until `should_exit` is set (from the loop's thread); `force_exit` ends the grace at once.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], on_ready: OnReady) -> None:
        super().__init__(config)
        self.sockets = sockets
        self.on_ready = on_ready
        self.swept_at = time.monotonic()
        """When the event loop last ran."""

    @property
    def addresses(self) -> list[Any]:
        """Where it listens: `(host, port)`, with the port that the system chose if 0 was asked for."""
        return [listening.getsockname()[:2] for listening in self.sockets]

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until `should_exit`, then lets requests finish within the grace."""
        await super().serve(sockets or self.sockets)

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
            for connection in list(self.server_state.connections):
                cast(Any, connection).transport.abort()
            raise

    async def on_tick(self, counter: int) -> bool:
        """Called again and again: uvicorn updates the `Date` header of answers."""
        self.swept_at = time.monotonic()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Captures none; uvicorn would take SIGTERM and SIGINT here."""
        yield


def configuration(app: Asgi, *, grace_s: float, http: Any = "httptools") -> uvicorn.Config:
    """What uvicorn is told; `http` makes its connections."""
    return uvicorn.Config(
        app,
        http=http,
        loop="uvloop",
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=cast(Any, grace_s),
    )


def make_server(service: "Service", app: Asgi, *, fd: int | None, on_ready: OnReady) -> Server:
    """A server where the settings say, or on the listening socket `fd`. OperatorError: it cannot bind."""
    sockets = listen(service.settings.host, service.settings.port, fd)
    return Server(configuration(app, grace_s=service.http.grace_s), sockets, on_ready)


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
