"""A worker claims what its engines have places for, and no more; what the registry says of them is so."""

import pytest
from msgspec.structs import replace

from servers.rig import Rig, eventually
from servers.speed import HANG_S
from servers.world import SPEECH, World
from tenuto.features.fakes import fake_speech
from tenuto.host import registry
from tenuto.worker.engines import Engines
from tenuto.worker.supervisor import Slot

SLOTS = 3


@pytest.mark.parametrize(
    ("model", "engine"),
    [("fake/speech", fake_speech.FakeSpeech), ("fake/metered-speech", fake_speech.FakeMetered)],
)
def test_the_registry_says_how_many_runs_an_engine_takes(model: str, engine: type) -> None:
    """The worker relies on it before the host is started."""
    entries = {entry.model: entry for entry in registry.ENTRIES}

    assert engine.concurrency == entries[model].concurrency  # type: ignore[attr-defined]


def test_a_full_engine_is_offered_no_more(world: World, rig: Rig) -> None:
    """Places are counted; the end of a run on a full engine wakes who waits for a place."""
    engines = Engines(rig.context, [SPEECH], rig.bell)
    for _ in range(rig.context.models[SPEECH].entry.concurrency):
        assert frozenset({SPEECH}) == engines.offered()
        engines.begin(SPEECH)

    assert frozenset() == engines.offered()
    rung = rig.bell.rung("speech")
    engines.end(SPEECH)
    assert frozenset({SPEECH}) == engines.offered()
    assert rig.bell.rung("speech") == rung + 1
    engines.end(SPEECH)
    assert rig.bell.rung("speech") == rung + 1


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
    engines = CountedPlaces(context, [SPEECH], rig.bell)
    slots = [
        Slot(context, "speech", engines, rig.heartbeat, rig.bell, arm=lambda: None) for _ in range(SLOTS)
    ]
    try:
        for slot in slots:
            slot.start()
        assert eventually(lambda: 4 == len(world.all("select id from job where state = 'succeeded'")), 60)
    finally:
        for slot in slots:
            slot.stop()
        rig.bell.ring()
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
    engines = Engines(rig.context, [SPEECH], rig.bell)
    slot = Slot(rig.context, "speech", engines, rig.heartbeat, rig.bell, arm=lambda: None)
    world.database.write(lambda tx: tx.run("alter table turn rename to hidden"))
    world.submit(world.caller(), "key")
    slot.start()
    try:
        assert eventually(lambda: slot.faults > 0)
        world.database.write(lambda tx: tx.run("alter table hidden rename to turn"))
        rig.bell.ring()
        has_run = eventually(lambda: 1 == len(world.all("select id from job where state = 'succeeded'")))
    finally:
        slot.stop()
        rig.bell.ring()
        assert slot.join(HANG_S)
        engines.close()

    assert has_run
