"""An API process: alone (`tenuto api`), as a `serve` with a worker as its child, or as one of several."""

import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tenuto.account import operations as accounts
from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.errors import Unavailable
from tenuto.feature import features
from tenuto.host.registry import engines_of
from tenuto.ids import Ids
from tenuto.kind import model as catalog
from tenuto.kind import operations as workers
from tenuto.kind.presence import AWAY_S, OBSERVE_S, Presence
from tenuto.process import local_services
from tenuto.process.data_opening import MIGRATIONS_PATIENCE_S, is_first_run, open_records
from tenuto.process.newest_copy import begin
from tenuto.process.runtime import (
    CLOSE_S,
    Say,
    arm_failpoints,
    clock,
    end_within,
    keep_private,
    log,
    observe,
    stop_signals,
)
from tenuto.process.store_watch import StoreWatch, open_beside

if TYPE_CHECKING:
    from tenuto.api.limits import HttpLimits
    from tenuto.api.service import Service
    from tenuto.worker.locks import FolderLock
    from tenuto.worker.serve_child import Child

BLOB_READERS = 8
# One at a time per account, so that no account's reports hold up another's.
REPORT_READERS = 2
PARSERS = 2
FLUSH_S = 30.0
NO_ENGINES = (
    "No engine is installed, so there is no model: pip install 'tenuto[cpu]' brings those for a processor."
)


def run_api(settings: Settings, say: Say) -> None:
    """Serve the API until a stop signal."""
    keep_private()
    arm_failpoints()
    serve_api(settings, say)


class Sibling(Struct, frozen=True):
    """What `serve` passes to each of several API processes."""

    listening: int
    """The descriptor of the socket on which all of them accept."""
    parent: int
    """The process id of the `serve`."""
    on_ready: Callable[[int], None]
    """Called once it accepts, with the loopback port where it answers `/metrics`; 0: nowhere."""


def serve_api(
    settings: Settings,
    say: Say,
    *,
    child: "Child | None" = None,
    lock: "FolderLock | None" = None,
    sibling: Sibling | None = None,
) -> None:
    """The same, with the worker and the lock of a `serve`, if there are any, or as one of its API
    processes."""
    from tenuto.api import server
    from tenuto.api.app import make_app
    from tenuto.process.waiting import answering

    def on_ready(addresses: list[Any]) -> None:
        if sibling is not None:
            sibling.on_ready(service.metrics_port)
        else:
            announce(settings, database, address_of(addresses), say, lock)

    def on_stop() -> None:
        # The worker stops with us: it claims nothing while our last requests are answered.
        end_s = service.http.grace_s + CLOSE_S
        if child is not None:
            child.ask_to_stop()
            end_s += child.stop_s
        end_within(end_s)
        service.long_polls.stop()
        service.each_part("stop")

    database = open_records(
        settings,
        patience_s=MIGRATIONS_PATIENCE_S,
        waiting=nullcontext if sibling else partial(answering, settings, Ids(clock)),
    )
    observe(settings, "api")
    is_serve = child is not None or sibling is not None
    # A fault that ends one of several API processes for good ends the whole service.
    owner = os.getpid() if sibling is None else sibling.parent
    service = build_service(settings, database, needs_worker=is_serve, owner=owner)
    store_watch = StoreWatch(settings, database, service.blobs, owner)
    begin(database)
    store_watch.await_store()
    stopping = threading.Event()
    _observe_once(service)
    try:
        fd = None if sibling is None else sibling.listening
        http = service.make_server(service, make_app(service), fd=fd, on_ready=on_ready)
        threading.Thread(target=_flush_use, args=(service, stopping), daemon=True).start()
        threading.Thread(target=_observe_workers, args=(service, stopping), daemon=True).start()
        store_watch.start()
        for part in service.parts.values():
            part.open(http)
        server.run(http, stop_signals(), on_stop=on_stop)
    finally:
        stopping.set()
        store_watch.stop()
        _close(service)


def build_service(
    settings: Settings, database: Database, *, needs_worker: bool, owner: int | None = None
) -> "Service":
    """Build what an API process consists of."""
    from tenuto.api.limits import FairThreads, Rates, Requests
    from tenuto.api.long_polling import LongPolls
    from tenuto.api.service import Service
    from tenuto.api.uploads import Uploads
    from tenuto.job.submit import SubmitContext

    ids, models, blobs = Ids(clock), catalog.models(settings), open_beside(settings, database)
    presence = Presence(away_s=max(AWAY_S, 3 * settings.heartbeat_s))
    service = Service(
        settings=settings,
        database=database,
        blobs=blobs,
        models=models,
        ids=ids,
        clock=clock,
        rates=Rates(settings.requests_per_second),
        requests=Requests(settings.requests_at_once, settings.connections),
        submitting=SubmitContext(database, blobs, models, ids, clock, presence, settings.queued_jobs),
        long_polls=LongPolls(database),
        http=_http_limits(settings),
        uploads=Uploads(settings.uploads),
        presence=presence,
        readers=FairThreads(BLOB_READERS, BLOB_READERS // 2, "blob-reader"),
        reports=FairThreads(REPORT_READERS, 1, "report"),
        parsers=FairThreads(PARSERS, 1, "parser"),
        needs_worker=needs_worker,
        owner=owner or os.getpid(),
    )
    service.last_uses.append((service.used_keys, accounts.note_use))
    for feature in features().values():
        if feature.serving:
            part = feature.part(feature.serving)(service)
            service.parts[type(part)] = part
    return service


def _http_limits(settings: Settings) -> "HttpLimits":
    from tenuto.api.limits import HttpLimits

    return HttpLimits(
        connections=settings.connections,
        connections_per_address=settings.connections_per_address,
        head_s=settings.slow_head_s,
        body_s=settings.slow_body_s,
        write_stall_s=settings.slow_reader_s,
    )


def _flush_use(service: "Service", stopping: threading.Event) -> None:
    from tenuto.logs import log_failure

    while not stopping.wait(FLUSH_S):
        try:
            service.note_use()
        except Unavailable as error:
            log().warning("key_use.not_written", reason=error.message)
        except Exception as error:
            # Retried whatever the error: sessions whose use is not recorded would end early.
            log_failure(log(), "key_use.failed", error)


def _observe_workers(service: "Service", stopping: threading.Event) -> None:
    while not stopping.wait(OBSERVE_S):
        _observe_once(service)


def _observe_once(service: "Service") -> None:
    """Update which workers are away. Failures are retried: a process that stopped looking would accept jobs
    for models that no worker runs any more.
    """
    from tenuto.logs import log_failure

    try:
        rows = service.database.read(workers.workers)
        service.presence.observe(rows, now_s=time.monotonic(), now_ms=clock())
    except Unavailable as error:
        log().warning("workers.not_observed", reason=error.message)
    except Exception as error:
        log_failure(log(), "workers.not_observed", error)


def _close(service: "Service") -> None:
    """Close all parts, the database last, without waiting for threads that are still in a transfer."""
    from tenuto.logs import tell

    service.each_part("close")
    for threads in (service.readers, service.reports, service.parsers):
        threads.close()
    service.uploads.threads.shutdown(wait=False)
    tell("process.stopping")
    service.database.close()


def announce(
    settings: Settings, database: Database, address: str, say: Say, lock: "FolderLock | None" = None
) -> None:
    """Print at the terminal where the service answers, and the next step on a first run; with the lock of a
    `serve`, also note the address for commands. A full disk prevents neither the start nor the rest."""
    from tenuto.worker.locks import SERVE_LOCK

    if lock is not None:
        try:
            lock.sign(address)
        except OSError as error:
            log().warning("output.not_written", reason=f"{SERVE_LOCK}: {error.strerror}")
        local_services.publish(settings, address)
    say(f"Tenuto answers at http://{address}, its data is in {settings.folder.resolve()}")
    if sys.stdout.isatty():
        _tell_models(settings, say)
    try:
        lines = [
            line
            for feature in features().values()
            if feature.announce
            for line in feature.part(feature.announce)(settings, database, address, now_ms=clock())
        ]
        is_new = is_first_run(database)
    except Unavailable as error:
        log().warning("output.not_written", reason=error.message)
        return
    for line in lines:
        say(line)
    if is_new:
        if settings.database.startswith("sqlite:"):
            say(f'To try it, in another terminal: {_command()} say "Hello"')
        else:
            # The caller's commands can find a service only by its data folder.
            say(f"For a first account, with the same settings: {_command()} admin accounts create me")


def _tell_models(settings: Settings, say: Say) -> None:
    """Print the models, each with its weaknesses or why it cannot be used; models that are parts of another
    are not listed.
    """
    from tenuto.host.registry import missing_weights
    from tenuto.worker.engines import missing_here

    offered = catalog.models(settings)
    members = {one.model for model in offered.values() for one in model.entry.composed_of}
    say("Models, each loaded when it is first used:" if offered else NO_ENGINES)
    for name, model in offered.items():
        if name not in members:
            lacking = missing_weights(model.entry, settings.cache) + missing_here(model, settings)
            notes = engines_of(model.entry)[0].notes[:1]
            text = f"cannot be used, {', '.join(lacking)} is missing" if lacking else " ".join(notes)
            say(f"  {model.kind:12} {name}{': ' * bool(text)}{text}")


def address_of(addresses: list[Any]) -> str:
    """The first address of a listening server, as written in a URL."""
    host, port = addresses[0]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _command() -> str:
    """The command to type: by name if that finds this installation, else by its path."""
    installed = Path(sys.executable).with_name("tenuto")
    return "tenuto" if shutil.which("tenuto") == str(installed) else shlex.quote(str(installed))
