"""The metrics of one process or of several combined: event counts, and whether they are alive and ready.

They are served by a listener of their own, never by the API's. Knows no database and no job.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from socketserver import ThreadingMixIn
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Metric, generate_latest, make_wsgi_app
from prometheus_client.registry import Collector

from tenuto import logs
from tenuto.errors import OperatorError

ERRORS = (
    "api.died",
    "api.not_started",
    "artifact.damaged",
    "attempt.abandoned",
    "attempt.set_back",
    "attempt.unforeseen",
    "audit.failed",
    "audit.finding",
    "blob.not_removed",
    "blob.not_stored",
    "chat.engine_failed",
    "chat.failed",
    "feature.failed",
    "chat.host_lost",
    "call.failed",
    "chat_usage.forgotten",
    "claim.failed",
    "engine.not_started",
    "database.left",
    "database.outdated",
    "database.unknown",
    "heartbeat.failed",
    "http.failed",
    "http.sweep_failed",
    "job.recovery_required",
    "job.unsettled",
    "key_use.failed",
    "libraries.not_loaded",
    "model.not_warmed",
    "notices.failed",
    "place.lost",
    "preview.given_up",
    "chunk.not_stored",
    "servers.failed",
    "store.other",
    "record.damaged",
    "result.kept_aside",
    "retention.failed",
    "sweep.failed",
    "upkeep.failed",
    "changes.failed",
    "webhooks.failed",
    "webhook.failed",
    "telemetry.failed",
    "worker.died",
    "worker.not_started",
)
"""Events that need attention: their counters start at 0, so that the first one shows as an increase."""

LOOPBACK = "127.0.0.1"
GATHER_S = 2.0
"""How long each of several processes may take to answer; one that is restarting is left out."""
PATIENCE_S = 10.0
"""How long a scraper or a probe may take to send its request."""

Check = Callable[[], str | None]
"""What is wrong, or None."""


def count_events(registry: CollectorRegistry) -> None:
    """Count the events that this process logs, `info` and above, whatever its log level."""
    events = Counter("tenuto_events", "Events of the log.", ("event", "level"), registry=registry)
    for event in ERRORS:
        events.labels(event, "error")

    def note(event: str, level: str, keys: Mapping[str, Any]) -> None:
        if level == "debug":
            return
        events.labels(event, level).inc()

    logs.listen(note)


def serve(
    registry: CollectorRegistry, host: str, port: int, checks: Mapping[str, Check] | None = None
) -> WSGIServer:
    """Serve /metrics there, and each check at its path, until the process ends. Raises OperatorError."""
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


def serve_gathered(own: CollectorRegistry, ports: Mapping[int, int], host: str, port: int) -> None:
    """Serve the same for several processes; `ports` maps each one's number to its current loopback port.

    Counters carry a process's number as the label `process`, or `serve` for `own`; gauges, which they all
    read from the database, are taken from one. Alive: none that answers is stuck. Ready: at least one is.
    """

    def is_live() -> str | None:
        stuck = [(number, text) for number, status, text in _ask("/livez") if status != 200]
        return f"API process {stuck[0][0]}: {json.loads(stuck[0][1])['reason']}" if stuck else None

    def is_ready() -> str | None:
        answers = list(_ask("/readyz"))
        if any(status == 200 for _, status, _ in answers):
            return None
        return json.loads(answers[0][2])["reason"] if answers else "no API process answers"

    def _ask(path: str) -> list[tuple[int, int, str]]:
        return _answers(dict(ports), path)

    registry = CollectorRegistry()
    registry.register(_Gathered(own, ports))
    serve(registry, host, port, {"/livez": is_live, "/readyz": is_ready})


class _Gathered(Collector):
    def __init__(self, own: CollectorRegistry, ports: Mapping[int, int]) -> None:
        self._own, self._ports = own, ports

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.parser import text_string_to_metric_families

        answers = _answers(dict(self._ports), "/metrics")
        texts = {"serve": generate_latest(self._own).decode()}
        texts |= {str(number): text for number, status, text in answers if status == 200}
        families: dict[str, Metric] = {}
        for process, text in texts.items():
            for family in text_string_to_metric_families(text):
                is_counted = family.type != "gauge" or family.name.endswith("_created")
                if not is_counted:
                    families.setdefault(family.name, family)
                    continue
                gathered = Metric(family.name, family.documentation, family.type)
                gathered = families.setdefault(family.name, gathered)
                for sample in family.samples:
                    gathered.add_sample(sample.name, {**sample.labels, "process": process}, sample.value)
        return families.values()


def _answers(ports: Mapping[int, int], path: str) -> list[tuple[int, int, str]]:
    """The number, status and body of each process that answers."""

    def ask(number: int) -> tuple[int, int, str] | None:
        with (
            suppress(OSError, HTTPException),
            closing(HTTPConnection(LOOPBACK, ports[number], timeout=GATHER_S)) as connection,
        ):
            connection.request("GET", path)
            answer = connection.getresponse()
            return number, answer.status, answer.read().decode()
        return None

    if not ports:
        return []
    with ThreadPoolExecutor(len(ports)) as threads:
        return [answer for answer in threads.map(ask, sorted(ports)) if answer is not None]


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request: a scrape reads the database, and a probe must not wait for it."""

    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    timeout = PATIENCE_S

    def log_message(self, *_: object) -> None:
        """Logs nothing: there is a request every few seconds."""
