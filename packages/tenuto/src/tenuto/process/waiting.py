"""Answers callers and probes while an API process cannot open its database yet."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tenuto.api.errors import error_answer
from tenuto.config import Settings
from tenuto.errors import Unavailable
from tenuto.ids import Ids

PATIENCE_S = 10.0
"""How long a caller may take to send its request."""
REASON = "The service has not found its database yet; send the same request again."


@contextmanager
def answering(settings: Settings, ids: Ids) -> Iterator[None]:
    """At the address of the API and at that of the metrics: 503 for every request but `/livez`."""
    addresses = [(settings.host, settings.port)]
    if settings.metrics_port:
        addresses.append((settings.metrics_host, settings.metrics_port))
    with ExitStack() as servers:
        for address in addresses:
            server = servers.enter_context(_Server(address, ids))
            servers.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, name="not-ready", daemon=True).start()
        yield


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], ids: Ids) -> None:
        super().__init__(address, _NotReady)
        self.ids = ids


class _NotReady(BaseHTTPRequestHandler):
    timeout = PATIENCE_S
    server_version = sys_version = ""

    def do_GET(self) -> None:
        if self.path == "/livez":
            self._send(200, b'{"status": "ok"}', [])
            return
        assert isinstance(self.server, _Server)
        request_id = self.server.ids.new("req")
        answer = error_answer(Unavailable(REASON), request_id)
        self._send(answer.status, answer.body, answer.head(request_id))

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def _send(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name.decode(), value.decode())
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing: there is a probe every few seconds."""
