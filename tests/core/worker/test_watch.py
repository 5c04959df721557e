"""What a worker tells whoever watches it, and what a scrape tells without a database."""

import threading
import time

import pytest
from msgspec.structs import replace

from servers.rig import Rig, eventually
from servers.world import World
from tenuto.kind import operations as catalog
from tenuto.worker import watch as watching
from tenuto.worker.abilities import abilities_of
from tenuto.worker.supervisor import Worker


def test_a_worker_without_a_heart_does_not_live(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only another start would mend it; before it has registered, and once it stops, it is not ready."""
    watch = watching.Watch(rig.context.settings)
    before = watch.live(), watch.ready()
    worker = Worker(replace(rig.context, worker_id="worker_other"), [])
    worker.start()
    watch.worker = worker
    working = watch.live(), watch.ready()
    worker._heartbeat.stop()
    monkeypatch.setattr(watching, "STUCK_S", 0.05)
    time.sleep(0.1)
    stuck = watch.live()
    watch.stopping = True
    stopping = watch.live(), watch.ready()
    worker.stop()

    assert (None, "the worker has not registered yet") == before
    assert (None, None) == working
    assert stuck is not None
    assert (None, "the worker is stopping") == stopping


def test_a_worker_that_drains_takes_back_its_offers_once_the_database_is_there(
    world: World, rig: Rig
) -> None:
    """Its heart beats all the while, so nobody would take it for away (R24)."""
    caller = world.caller()
    job_id = world.submit(caller, "key", text="[fake:sleep=30] Hold.").job_id
    settings = replace(rig.context.settings, engines="fake", drain_s=60)
    context = replace(rig.context, settings=settings, worker_id="worker_other")
    worker = Worker(context, abilities_of(settings, context.models, ["fake/speech"]))

    def offers() -> int:
        return len(world.read(lambda tx: catalog.worker_models(tx, "worker_other")))

    worker.start()
    stopper = threading.Thread(target=worker.stop)
    try:
        runs = eventually(lambda: world.state(job_id) == "running")
        offered = offers()
        rig.database.is_away = True
        stopper.start()
        still_offered = not eventually(lambda: offers() == 0, 1.0)
        rig.database.is_away = False
        withdrawn = eventually(lambda: offers() == 0)
        state = world.state(job_id)
    finally:
        rig.database.is_away = False
        world.cancel(caller.account_id, job_id)
        if stopper.ident is None:
            stopper.start()
        stopper.join()

    assert (True, 1, True, True, "running") == (runs, offered, still_offered, withdrawn, state)
