"""The API's process: its parts, the server around them, and what is flushed and closed behind it."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tenuto.bootstrap.opening import MIGRATIONS_PATIENCE_S, install_voices, open_blobs, open_records
from tenuto.bootstrap.process import Say, arm_failpoints, clock, log
from tenuto.catalog import rules as catalog
from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.errors import Unavailable
from tenuto.ids import Ids

if TYPE_CHECKING:
    from tenuto.api.server import Server
    from tenuto.api.service import Service
    from tenuto.web.studio import Studio
    from tenuto.worker.child import ChildWorker
    from tenuto.worker.locks import FolderLock

BLOB_READERS = 8
FLUSH_S = 30.0


def run_api(settings: Settings, say: Say) -> None:
    """Serve the API until SIGTERM or SIGINT."""
    arm_failpoints()
    serve_api(settings, say)


def serve_api(
    settings: Settings, say: Say, *, child: "ChildWorker | None" = None, lock: "FolderLock | None" = None
) -> None:
    """The same, with the worker and the lock of a `serve` where there are any."""
    from tenuto.api import metrics, server
    from tenuto.bootstrap.greeting import address_of, greet
    from tenuto.web.studio import make_studio

    def on_ready(addresses: list[Any]) -> None:
        address = address_of(addresses)
        if lock is not None:
            lock.sign(address)
        greet(settings, database, address, say)

    def on_stop() -> None:
        # The worker hears of the end when we do: it claims nothing while our last requests are answered.
        if child is not None:
            child.ask_to_stop()
        service.waits.stop()

    database = open_records(settings, patience_s=MIGRATIONS_PATIENCE_S)
    database.occupy()
    service = build_service(settings, database, needs_worker=child is not None)
    install_voices(database, service.blobs)
    studio = make_studio(settings)
    stopping = threading.Event()
    flusher = threading.Thread(target=_flush_use, args=(service, studio, stopping), daemon=True)
    try:
        http = _make_server(service, studio, on_ready)
        flusher.start()
        metrics.expose(service)
        server.run(http, on_stop=on_stop)
    finally:
        stopping.set()
        _close(service, studio)


def build_service(settings: Settings, database: Database, *, needs_worker: bool) -> "Service":
    """The parts of an API process."""
    from tenuto.api.body import HttpLimits
    from tenuto.api.intake import Uploads
    from tenuto.api.metrics import Metrics
    from tenuto.api.rates import Rates
    from tenuto.api.rooms import Rooms
    from tenuto.api.service import Service
    from tenuto.api.waits import Waits
    from tenuto.chat.chats import Chats, make_engines
    from tenuto.chat.meter import Meter

    ids, models = Ids(clock), catalog.models(settings)
    return Service(
        settings=settings,
        database=database,
        blobs=open_blobs(settings),
        models=models,
        chats=Chats(make_engines(models, settings, os.environ), settings, Meter(database, ids, clock)),
        ids=ids,
        clock=clock,
        rates=Rates(settings.requests_per_second),
        rooms=Rooms(),
        waits=Waits(database),
        metrics=Metrics(),
        http=HttpLimits(
            connections=settings.connections,
            head_s=settings.slow_head_s,
            body_s=settings.slow_body_s,
            write_stall_s=settings.slow_reader_s,
        ),
        uploads=Uploads(settings.uploads),
        readers=ThreadPoolExecutor(BLOB_READERS, thread_name_prefix="blob-reader"),
        needs_worker=needs_worker,
    )


def _make_server(service: "Service", studio: "Studio", on_ready: Callable[[list[Any]], None]) -> "Server":
    from tenuto.api import server
    from tenuto.web.app import make_app

    return server.make_server(
        make_app(service, studio),
        request_id=lambda: service.ids.new("req"),
        host=service.settings.host,
        port=service.settings.port,
        limits=service.http,
        on_refusal=service.metrics.refused,
        on_ready=on_ready,
    )


def _flush_use(service: "Service", studio: "Studio", stopping: threading.Event) -> None:
    while not stopping.wait(FLUSH_S):
        try:
            studio.note_use(service)
        except Unavailable:
            log().warning("key_use.not_written")


def _close(service: "Service", studio: "Studio") -> None:
    """Threads that a last transfer still holds are not waited for; the database is closed last."""
    studio.hashing.close()
    service.readers.shutdown(wait=False)
    service.uploads.threads.shutdown(wait=False)
    service.database.close()
