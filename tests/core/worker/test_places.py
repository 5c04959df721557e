"""A worker claims what its engines have places for, and no more; what the registry says of them is so."""

from importlib import import_module

import pytest
from msgspec.structs import replace

from servers.rig import Rig, eventually
from servers.speed import HANG_S
from servers.world import METERED, SPEECH, World
from tenuto.host.registry import entry_of
from tenuto.worker.engines import Engines
from tenuto.worker.supervisor import Slot

SLOTS = 3


@pytest.fixture
def dialect() -> str:
    """One database: which one it is makes no difference to engines."""
    return "sqlite"


def test_the_registry_says_how_many_runs_an_engine_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker relies on it before the host is started."""
    entries = [entry_of(model) for model in (SPEECH, METERED)]
    monkeypatch.syspath_prepend(entries[0].folder)
    named = [entry.engine.split(":") for entry in entries]
    engines = [getattr(import_module(module), name) for module, name in named]

    assert [entry.concurrency for entry in entries] == [engine.concurrency for engine in engines]


def test_a_full_engine_is_offered_no_more(world: World, rig: Rig) -> None:
    """Places are counted; the end of a run on a full engine wakes who waits for a place."""
    engines = Engines(rig.context, [SPEECH], rig.work_condition)
    for _ in range(rig.context.models[SPEECH].entry.concurrency):
        assert frozenset({SPEECH}) == engines.offered()
        engines.begin(SPEECH)

    assert frozenset() == engines.offered()
    announced = rig.work_condition.count("speech")
    engines.end(SPEECH)
    assert frozenset({SPEECH}) == engines.offered()
    assert rig.work_condition.count("speech") == announced + 1
    engines.end(SPEECH)
    assert rig.work_condition.count("speech") == announced + 1


def test_slots_without_a_place_leave_jobs_to_others(world: World, rig: Rig) -> None:
    """Three slots and an engine with one place: no job is claimed while another runs; the rest is queued."""
    world.slots(SLOTS)
    model = rig.context.models[SPEECH]
    one_place = replace(model, entry=replace(model.entry, concurrency=1))
    settings = replace(rig.context.settings, features={"speech_slots": SLOTS})
    context = replace(rig.context, models=rig.context.models | {SPEECH: one_place}, settings=settings)
    caller = world.caller()
    for number in range(4):
        world.submit(caller, f"key {number}", text="[fake:sleep=0.2] One at a time.")
    engines = CountedPlaces(context, [SPEECH], rig.work_condition)
    slots = [
        Slot(context, "speech", engines, rig.heartbeat, rig.work_condition, arm=lambda: None)
        for _ in range(SLOTS)
    ]
    try:
        for slot in slots:
            slot.start()
        assert eventually(lambda: 4 == len(world.all("select id from job where state = 'succeeded'")), 60)
    finally:
        for slot in slots:
            slot.stop()
        rig.work_condition.announce()
        assert all(slot.join(60) for slot in slots)
        engines.close()

    assert 1 == engines.most


class CountedPlaces(Engines):
    """Engines that note how many places were taken at once. A place is free before its job has settled."""

    taken = most = 0

    def begin(self, model: str) -> None:
        super().begin(model)
        self.taken += 1
        self.most = max(self.most, self.taken)

    def end(self, model: str) -> None:
        self.taken -= 1
        super().end(model)


def test_a_claim_that_fails_is_tried_again(world: World, rig: Rig) -> None:
    """A fault that nobody has foreseen, here a table that is away for a while, ends no slot's thread."""
    engines = Engines(rig.context, [SPEECH], rig.work_condition)
    slot = Slot(rig.context, "speech", engines, rig.heartbeat, rig.work_condition, arm=lambda: None)
    world.database.write(lambda tx: tx.run("alter table turn rename to hidden"))
    world.submit(world.caller(), "key")
    slot.start()
    try:
        assert eventually(lambda: slot.faults > 0)
        world.database.write(lambda tx: tx.run("alter table hidden rename to turn"))
        rig.work_condition.announce()
        has_run = eventually(lambda: 1 == len(world.all("select id from job where state = 'succeeded'")))
    finally:
        slot.stop()
        rig.work_condition.announce()
        assert slot.join(HANG_S)
        engines.close()

    assert has_run
