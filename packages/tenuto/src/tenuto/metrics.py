"""The metrics of a process: its events, counted, and whether it is alive and ready.

They have a listener of their own, never the API's. Knows no database and no job.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, make_wsgi_app

from tenuto import logs
from tenuto.errors import OperatorError

ERRORS = (
    "artifact.damaged",
    "attempt.abandoned",
    "attempt.set_back",
    "attempt.unforeseen",
    "audit.failed",
    "audit.finding",
    "blob.not_removed",
    "blob.not_stored",
    "chat.engine_failed",
    "chat.host_lost",
    "call.failed",
    "chat_usage.forgotten",
    "claim.failed",
    "engine.not_started",
    "heartbeat.failed",
    "http.failed",
    "http.sweep_failed",
    "job.recovery_required",
    "job.unsettled",
    "key_use.failed",
    "notices.failed",
    "place.lost",
    "preview.given_up",
    "store.other",
    "record.damaged",
    "result.kept_aside",
    "sweep.failed",
    "upkeep.failed",
    "changes.failed",
    "webhooks.failed",
    "webhook.failed",
    "telemetry.failed",
    "worker.died",
    "worker.not_started",
)
"""Events that somebody should look at: their counters start at 0, so that the first one is a rise."""

PATIENCE_S = 10.0
"""How long a scraper or a probe may take to send its request."""

Check = Callable[[], str | None]
"""What is wrong, or None."""


def count_events(registry: CollectorRegistry) -> None:
    """Counts what this process logs, `info` and above, whatever the level of its log."""
    events = Counter("tenuto_events", "Events of the log.", ("event", "level"), registry=registry)
    for event in ERRORS:
        events.labels(event, "error")

    def note(event: str, level: str, keys: Mapping[str, Any]) -> None:
        events.labels(event, level).inc()

    logs.listen(note)


def serve(
    registry: CollectorRegistry, host: str, port: int, checks: Mapping[str, Check] | None = None
) -> WSGIServer:
    """Answers /metrics there, and the checks under their paths, until the process ends. OperatorError."""
    scrape = make_wsgi_app(registry)
    checks = checks or {}

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return cast(Iterable[bytes], scrape(environ, start_response))
        wrong = checks[path]() if path in checks else "there is nothing under this path"
        failed = "503 Service Unavailable" if path in checks else "404 Not Found"
        start_response("200 OK" if wrong is None else failed, [("Content-Type", "application/json")])
        answer = {"status": "ok"} if wrong is None else {"status": "bad", "reason": wrong}
        return [json.dumps(answer).encode()]

    try:
        server = make_server(host, port, app, _Server, _Quiet)
    except OSError as error:
        message = f"cannot listen on {host}:{port} for /metrics: {error.strerror}; choose another port for it"
        raise OperatorError(message) from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request: a scrape reads the database, and a probe must not wait for it."""

    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    timeout = PATIENCE_S

    def log_message(self, *_: object) -> None:
        """Nothing: there is a request every few seconds."""
