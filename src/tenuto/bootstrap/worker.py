"""The worker's process: what it can run, its parts, and its end by a signal."""

import signal
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tenuto.bootstrap.opening import MIGRATIONS_PATIENCE_S, open_blobs, open_records
from tenuto.bootstrap.process import arm_failpoints, clock, log
from tenuto.catalog import rules as catalog
from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.errors import OperatorError
from tenuto.ids import Ids

if TYPE_CHECKING:
    from tenuto.worker.abilities import Ability
    from tenuto.worker.parts import Parts


def run_worker(
    settings: Settings,
    models: list[str] | None,
    *,
    tell: "Callable[[Sequence[Ability]], None] | None" = None,
) -> None:
    """Work until SIGTERM or SIGINT. `tell` is told what this worker can run, before it claims anything."""
    from tenuto.worker import health
    from tenuto.worker.supervisor import Worker

    arm_failpoints()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    # Chats are answered by the API's process; a worker has nothing to do with them.
    offered = {name: model for name, model in catalog.models(settings).items() if model.interface == "jobs"}
    abilities = _abilities(settings, models, offered)
    if tell is not None:
        tell(abilities)
    watch = health.expose(settings)
    try:
        database = open_records(settings, patience_s=MIGRATIONS_PATIENCE_S, stopping=stopping)
    except OperatorError:
        # Told to stop while it waited for a migration: that is an end as any other.
        if stopping.is_set():
            return
        raise
    try:
        database.occupy()
        worker = Worker(_parts(settings, database, offered), abilities)
        worker.start()
        watch.worker = worker
        stopping.wait()
        watch.stopping = True
        worker.stop()
    finally:
        database.close()


def _abilities(
    settings: Settings, models: list[str] | None, offered: dict[str, catalog.Model]
) -> "list[Ability]":
    """What can run here of the models that are named, or of all; the log says why the rest cannot."""
    from tenuto.worker.abilities import look

    unknown = [name for name in models or () if name not in offered]
    if unknown:
        raise OperatorError(f"there is no model {', '.join(unknown)}; there are {', '.join(offered)}")
    abilities = look(settings, offered, list(offered) if models is None else models)
    for ability in abilities:
        if ability.reason is not None:
            log().warning("model.not_offered", model=ability.model, reason=ability.reason)
    return abilities


def _parts(settings: Settings, database: Database, offered: dict[str, catalog.Model]) -> "Parts":
    from tenuto.worker.parts import Parts

    ids = Ids(clock)
    return Parts(
        settings=settings,
        database=database,
        blobs=open_blobs(settings),
        models=offered,
        ids=ids,
        clock=clock,
        worker_id=ids.new("worker"),
        locks=settings.folder / "locks",
    )
