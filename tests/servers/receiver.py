"""A server of a caller's own, which receives messages and answers as a test says."""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from servers.speed import HANG_S

Answering = Callable[[BaseHTTPRequestHandler, "Message"], None]


@dataclass(frozen=True)
class Message:
    """What was received."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


def plainly(status: int, **headers: str) -> Answering:
    """An answer without a body; underscores in the names of headers become hyphens."""

    def answer(handler: BaseHTTPRequestHandler, message: Message) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


@dataclass
class Receiver:
    """It answers on a port of this machine, a free one unless it is given, until it is closed."""

    answering: Answering = field(default_factory=lambda: plainly(204))
    messages: list[Message] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        receiver, self._changed = self, threading.Condition()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:
                    # Whoever sent it was killed: a web server hands no part of a request to its program.
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                message = Message(self.path, headers, body)
                with receiver._changed:
                    receiver.messages.append(message)
                    receiver._changed.notify_all()
                receiver.answering(self, message)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 (its name there)
                """Nothing is printed."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A sender that was killed is no error of the receiver's."""
                if not isinstance(sys.exception(), ConnectionError):
                    super().handle_error(request, client_address)

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def wait(self, count: int, timeout_s: float = HANG_S) -> list[Message]:
        """The messages, once there are this many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.messages) >= count, timeout_s), self.messages
            return list(self.messages)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
