"""A service that answers as a list says, over real HTTP: for answers that a sound service never gives."""

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Reply:
    """One answer. With `cut_at` the connection ends after so many bytes of the body."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut_at: int | None = None
    is_lost: bool = False

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


LOST = Reply(is_lost=True)
"""The connection is closed without an answer."""


@dataclass(frozen=True)
class Asked:
    """One request as it arrived; its path is not unquoted."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")


class ScriptedService:
    """Answers one request after the other with what was given; the last answer again for all that follow."""

    def __init__(self, replies: Iterable[Reply | Callable[[Asked], Reply]]) -> None:
        self._replies = list(replies)
        self.asked: list[Asked] = []
        service = self

        class Handler(_Handler):
            script = service

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def next(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        reply = self._replies[0] if len(self._replies) == 1 else self._replies.pop(0)
        return reply(asked) if callable(reply) else reply

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> "ScriptedService":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet an answer; the default is one for the head and one, 40 ms later, for the body.
    wbufsize = 1 << 16
    script: ScriptedService

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.script.next(Asked(self.command, parts.path, parse_qs(parts.query), headers, body))
        if reply.is_lost:
            self.close_connection = True
            return
        given = {name.lower(): value for name, value in reply.headers.items()}
        kind = "application/json" if not isinstance(reply.body, bytes) else "application/octet-stream"
        self.send_response_only(reply.status)
        for name, value in (
            {"content-type": kind, "content-length": str(len(reply.content))} | given
        ).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.content[: reply.cut_at])
        if reply.cut_at is not None:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve
