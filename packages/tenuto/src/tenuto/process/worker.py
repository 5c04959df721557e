"""The worker process: what it can run, its parts, and how a signal stops it."""

from collections.abc import Callable, Sequence
from contextlib import closing

from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.db.database_opening import server_clock
from tenuto.errors import OperatorError
from tenuto.ids import Ids
from tenuto.kind import model as catalog
from tenuto.process.data_opening import MIGRATIONS_PATIENCE_S, open_records
from tenuto.process.newest_copy import begin
from tenuto.process.runtime import (
    CLOSE_S,
    StopSignal,
    arm_failpoints,
    clock,
    end_within,
    keep_private,
    log,
    observe,
)
from tenuto.process.store_watch import StoreWatch, open_beside
from tenuto.worker.abilities import Ability, abilities_of
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import of_features
from tenuto.worker.supervisor import Worker
from tenuto.worker.watch import Watch


def run_worker(
    settings: Settings,
    models: list[str] | None,
    *,
    tell: Callable[[Sequence[Ability]], None] | None = None,
    withdraws: bool = True,
) -> None:
    """Work until a stop signal. `tell` receives what this worker can run, before it claims anything.

    `withdraws`: whether it withdraws its offers when it stops. The worker of `serve` does not: it stops with
    the whole service or is restarted at once, and no job should be refused because of a restart.
    """
    keep_private()
    arm_failpoints()
    stopping = StopSignal()
    offered = _offered(settings)
    abilities = _abilities(settings, models, offered)
    if tell is not None:
        tell(abilities)
    observe(settings, "worker")
    watch = Watch(settings)
    duties = of_features(watch)
    try:
        database = open_records(settings, patience_s=MIGRATIONS_PATIENCE_S, stopping=stopping)
    except OperatorError:
        if stopping.is_set():
            return  # The signal came while it was waiting for a migration: an ordinary stop.
        raise
    with closing(database):
        context = _context(settings, database, offered)
        store_watch = StoreWatch(settings, database, context.blobs)
        begin(database)
        worker = Worker(context, abilities, duties, withdraws=withdraws)
        worker.start()
        store_watch.start()
        watch.worker = worker
        stopping.wait_for_signal()
        end_within(settings.drain_s + settings.host_grace_s + CLOSE_S)
        watch.stopping = True
        worker.stop()  # While it drains, too, its connections must leave an outdated copy of the database.
        store_watch.stop()


def _offered(settings: Settings) -> dict[str, catalog.Model]:
    """The models that run jobs. Chats are answered by API processes, not by workers."""
    return {name: model for name, model in catalog.models(settings).items() if model.interface == "jobs"}


def _abilities(
    settings: Settings, models: list[str] | None, offered: dict[str, catalog.Model]
) -> list[Ability]:
    """Which of the named models, or of all, can run here; the log says why the others cannot."""
    unknown = [name for name in models or () if name not in offered]
    if unknown:
        raise OperatorError(f"there is no model {', '.join(unknown)}; there are {', '.join(offered)}")
    abilities = abilities_of(settings, offered, list(offered) if models is None else models)
    for ability in abilities:
        if ability.reason is not None:
            log().warning("model.not_offered", model=ability.model, reason=ability.reason)
    return abilities


def _context(settings: Settings, database: Database, offered: dict[str, catalog.Model]) -> WorkerContext:
    ids = Ids(clock)
    return WorkerContext(
        settings=settings,
        database=database,
        blobs=open_beside(settings, database),
        models=offered,
        ids=ids,
        clock=clock,
        worker_id=ids.new("worker"),
        locks=settings.folder / "locks",
        database_clock=server_clock(database),
    )
