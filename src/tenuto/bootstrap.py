"""Where parts become processes: the only place that builds them, and the only one that reads the clock.

`serve` is the API with a worker as its child; `api` and `worker` are the same parts for many machines.
"""

import json
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenuto import config, failpoints
from tenuto.accounts import operations as accounts
from tenuto.backup.move import refuse_moved
from tenuto.backup.restore import refuse_unfinished
from tenuto.blobs.blob import BlobStore
from tenuto.blobs.opening import open_store
from tenuto.catalog import keys
from tenuto.catalog import rules as catalog
from tenuto.config import Settings
from tenuto.db.awaiting import await_migrations
from tenuto.db.database import Database, open_database
from tenuto.db.migrations import later, migrate, pending
from tenuto.errors import OperatorError, StoreAwayForWrites, TenutoError, Unavailable
from tenuto.ids import Ids
from tenuto.logs import set_up_logs

if TYPE_CHECKING:
    from tenuto.api.service import Service
    from tenuto.web.studio import Studio
    from tenuto.worker.abilities import Ability
    from tenuto.worker.child import ChildWorker
    from tenuto.worker.locks import FolderLock

Say = Callable[[str], None]

BLOB_READERS = 8
DATABASE_AWAY = "the database does not answer; start it, or correct the setting database"
FLUSH_S = 30.0
MIGRATIONS_PATIENCE_S = 300.0
"""How long a process waits for `tenuto migrate`; whoever supervises it starts it again."""


def clock() -> int:
    """Wall time in milliseconds UTC."""
    return time.time_ns() // 1_000_000


def open_records(
    settings: Settings, *, patience_s: float = 0.0, stopping: threading.Event | None = None
) -> Database:
    """The database, migrated; where others migrate it, `patience_s` is how long that is waited for."""
    make_folder(settings.folder)
    refuse_unfinished(settings.folder)
    refuse_moved(settings.folder, settings.database, settings.blobs)
    database = open_database(settings.database, folder=settings.folder)
    try:
        if settings.migrations == "wait":
            await_migrations(
                database,
                patience_s=patience_s,
                stopping=stopping or threading.Event(),
                on_wait=lambda: _log().info("database.awaited", remedy="tenuto migrate"),
            )
        else:
            migrate(database)
        if newer := later(database):
            _log().warning("database.newer", migrations=newer)
    except Unavailable as error:
        database.close()
        raise OperatorError(DATABASE_AWAY) from error
    except BaseException:
        database.close()
        raise
    return database


def open_as_it_is(settings: Settings) -> Database:
    """The database of a service that was here before: nothing is made, no migration is applied."""
    place = settings.database.removeprefix("sqlite:///")
    if place != settings.database and not (settings.folder / place).exists():
        raise OperatorError(
            f"there is no database {settings.folder / place}; name the data folder with --data"
        )
    database = open_database(settings.database, folder=settings.folder)
    try:
        waiting = pending(database)
    except Unavailable as error:
        database.close()
        raise OperatorError(DATABASE_AWAY) from error
    except BaseException:
        database.close()
        raise
    if waiting:
        database.close()
        raise OperatorError("the database is an older version's; `tenuto migrate` brings it up to date")
    return database


def open_blobs(settings: Settings) -> BlobStore:
    """The bytes, in the data folder or a bucket."""
    return open_store(settings, os.environ)


def install_voices(database: Database, blobs: BlobStore) -> None:
    """The voices that ship with the program: bytes first, then the rows. Done when they are all there."""
    from tenuto.voices import builtin

    voices = builtin.built_in_voices()
    lacking = database.read(lambda tx: builtin.missing(tx, voices))
    ids = Ids(clock)
    try:
        recordings = {voice.voice_id: blobs.write(ids.new("blob"), voice.content()) for voice in lacking}
    except StoreAwayForWrites as error:
        raise OperatorError("the store of bytes does not answer; `tenuto doctor` says why") from error
    failpoints.hit("install.after_bytes")
    now_ms = clock()
    database.write(lambda tx: builtin.install(tx, voices, recordings, now_ms=now_ms))


def is_first_run(database: Database) -> bool:
    """Whether no account was made yet."""
    return not database.read(accounts.list_accounts)


def run_api(settings: Settings, say: Say) -> None:
    """Serve the API until SIGTERM or SIGINT."""
    arm_failpoints()
    _run_api(settings, say)


def run_serve(settings: Settings, say: Say) -> None:
    """Everything on one machine: the API here, a worker as a child that is started again when it dies."""
    from tenuto.worker.child import ChildWorker
    from tenuto.worker.locks import FolderLock

    arm_failpoints()
    # A model's table that is wrong, a key that is missing: told once, and not by the child again and again.
    keys.check(catalog.models(settings), os.environ)
    make_folder(settings.folder)
    lock = FolderLock(settings.folder)
    # Migrated before the worker looks; what refuses the start is told once, and not by both.
    open_records(settings, patience_s=MIGRATIONS_PATIENCE_S).close()
    child = ChildWorker(settings, [sys.executable, "-m", "tenuto.bootstrap"])
    child.start()
    try:
        _run_api(settings, say, child=child, lock=lock)
    finally:
        child.stop()
        lock.release()


def run_worker(
    settings: Settings,
    models: list[str] | None,
    *,
    tell: "Callable[[Sequence[Ability]], None] | None" = None,
    parent: int | None = None,
) -> None:
    """Work until SIGTERM or SIGINT, or at once no longer when the parent (behind a pipe) is gone.

    `tell` is told what this worker can run, before it claims anything.
    """
    from tenuto.worker import health
    from tenuto.worker.abilities import look
    from tenuto.worker.child import follow_parent
    from tenuto.worker.parts import Parts
    from tenuto.worker.supervisor import Worker

    arm_failpoints()
    if parent is not None:
        threading.Thread(target=follow_parent, args=(parent,), name="parent", daemon=True).start()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    # Chats are answered by the API's process; a worker has nothing to do with them.
    offered = {name: model for name, model in catalog.models(settings).items() if model.interface == "jobs"}
    wanted = _wanted(models, offered)
    abilities = look(settings, offered, wanted)
    for ability in abilities:
        if ability.reason is not None:
            _log().warning("model.not_offered", model=ability.model, reason=ability.reason)
    if tell is not None:
        tell(abilities)
    watch = health.expose(settings)
    try:
        database = open_records(settings, patience_s=MIGRATIONS_PATIENCE_S, stopping=stopping)
    except OperatorError:
        if stopping.is_set():
            return
        raise
    try:
        database.occupy()
        ids = Ids(clock)
        parts = Parts(
            settings=settings,
            database=database,
            blobs=open_blobs(settings),
            models=offered,
            ids=ids,
            clock=clock,
            worker_id=ids.new("worker"),
            locks=settings.folder / "locks",
        )
        worker = Worker(parts, abilities)
        worker.start()
        watch.worker = worker
        stopping.wait()
        watch.stopping = True
        worker.stop()
    finally:
        database.close()


def _run_api(
    settings: Settings, say: Say, *, child: "ChildWorker | None" = None, lock: "FolderLock | None" = None
) -> None:
    from tenuto.api import metrics, server
    from tenuto.web.app import make_app
    from tenuto.web.studio import make_studio

    def on_ready(addresses: list[Any]) -> None:
        address = _address(addresses)
        if lock is not None:
            lock.sign(address)
        _announce(settings, database, address, say)

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
        http = server.make_server(
            make_app(service, studio),
            request_id=lambda: service.ids.new("req"),
            host=settings.host,
            port=settings.port,
            limits=service.http,
            on_refusal=service.metrics.refused,
            on_ready=on_ready,
        )
        flusher.start()
        metrics.expose(service)
        server.run(http, on_stop=on_stop)
    finally:
        stopping.set()
        studio.hashing.close()
        service.readers.shutdown(wait=False)
        service.uploads.threads.shutdown(wait=False)
        database.close()


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


def _address(addresses: list[Any]) -> str:
    host, port = addresses[0]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _announce(settings: Settings, database: Database, address: str, say: Say) -> None:
    from tenuto.web.invitations import set_up_link

    say(f"Tenuto answers at http://{address}, its data is in {settings.folder.resolve()}")
    if (link := set_up_link(settings, database, address, now_ms=clock())) is not None:
        say("To set up the studio, open this link; it makes the operator, works once, and for a day:")
        say(f"  {link}")
    if is_first_run(database):
        command, data = _command(), shlex.quote(str(settings.folder.resolve()))
        say("There is no account yet. For the API alone, in another terminal:")
        say(f"  {command} accounts create me --data {data}")
        say(f"  {command} keys create --account me --data {data}")


def _command() -> str:
    """How a person calls us: by name when that finds us, else by the path of this installation."""
    installed = Path(sys.executable).with_name("tenuto")
    return "tenuto" if shutil.which("tenuto") == str(installed) else shlex.quote(str(installed))


def _flush_use(service: "Service", studio: "Studio", stopping: threading.Event) -> None:
    while not stopping.wait(FLUSH_S):
        try:
            studio.note_use(service)
        except Unavailable:
            _log().warning("key_use.not_written")


def make_folder(folder: Path) -> None:
    """The data folder, which its owner alone may read."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OperatorError(
            f"{folder} can't be the data folder: {error.strerror}; choose another with --data"
        ) from error


def arm_failpoints() -> None:
    """For tests alone; whoever finds the variable set by mistake finds this line in the log."""
    text = os.environ.get(failpoints.VARIABLE, "")
    failpoints.arm(text)
    if text:
        _log().warning("failpoints.armed", text=text)


def _wanted(models: list[str] | None, offered: Mapping[str, Any]) -> list[str]:
    if models is None:
        return list(offered)
    unknown = [name for name in models if name not in offered]
    if unknown:
        raise OperatorError(f"there is no model {', '.join(unknown)}; there are {', '.join(offered)}")
    return models


def _child_main(read_end: int) -> None:
    from tenuto.worker.child import NOT_STARTED

    settings = config.undump(os.environ.pop("TENUTO_CHILD_SETTINGS"))
    set_up_logs(settings.log_level)
    try:
        run_worker(settings, None, parent=read_end)
    except TenutoError as error:
        # The database is away, most likely: our parent starts us again until it is back, ever more slowly.
        _log().error("worker.not_started", reason=error.message)
        sys.exit(NOT_STARTED)


def settings_from(environment: Mapping[str, str], *, file: Path | None = None, **options: Any) -> Settings:
    """Settings for a command: the file, the variables, the options."""
    return config.load(environment, file=file, options=options)


def _log() -> Any:
    """Loaded by the processes that log, for it takes as long as all the rest of a short command."""
    import structlog

    return structlog.get_logger("tenuto")


def as_json(value: Any) -> str:
    """One line of JSON for scripts."""
    return json.dumps(value, ensure_ascii=False, default=str)


if __name__ == "__main__":
    _child_main(int(sys.argv[1]))
