"""One handler behind the service's own HTTP server, in this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers.speed import HANG_S
from tenuto import config
from tenuto.api.call import Endpoint, Handler
from tenuto.db.database import Database
from tenuto.features.http_guard.server import Server, make_server
from tenuto.process import api as bootstrap


@contextmanager
def serving(handler: Handler, database: Database, folder: Path) -> Iterator[Server]:
    """A server that answers every GET with the handler."""
    settings = config.load({}, options={"folder": str(folder), "engines": "fake"})
    service = bootstrap.build_service(settings, database, needs_worker=False)
    endpoint = Endpoint(service, {"GET": handler}, "/tested")

    async def app(scope: object, receive: object, send: object) -> None:
        if scope["type"] == "http":  # type: ignore[index]
            await endpoint(scope, receive, send)

    ready = threading.Event()
    made = make_server(
        app, request_id=lambda: service.ids.new("req"), limits=service.http, on_ready=lambda _: ready.set()
    )
    thread = threading.Thread(target=made.run)
    thread.start()
    assert ready.wait(HANG_S)
    yield made
    made.should_exit = True
    thread.join(HANG_S)
