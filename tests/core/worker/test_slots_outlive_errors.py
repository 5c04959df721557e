"""A passing lack of threads: a slot runs what it claimed, and an accepted job is stored."""

import pytest

from servers.rig import Rig, eventually
from servers.speed import HANG_S
from servers.threads import lacking
from servers.world import LANE, World
from tenuto.worker.engines import Engines
from tenuto.worker.supervisor import Slot


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_a_slot_runs_what_it_claimed_although_no_thread_can_be_started(
    world: World, rig: Rig, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is committed and its notice gets no thread: others hear later, and the job is run."""
    job_id = world.submit(world.caller(), "key").job_id
    # Another process accepted it: this one has sent no notice yet.
    monkeypatch.setattr(world.database._notices, "_sending", None)  # type: ignore[attr-defined]
    refused = lacking(monkeypatch, "postgres-notify")
    slot = Slot(rig.context, LANE, engines, rig.heartbeat, rig.work_condition, arm=lambda: None)
    slot.start()
    succeeded = eventually(lambda: world.state(job_id) == "succeeded")
    dead = slot.is_dead()
    slot.stop()
    rig.work_condition.announce()

    assert slot.join(HANG_S)
    assert ["postgres-notify"] == refused
    assert (True, False) == (succeeded, dead)


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_a_job_is_accepted_although_no_thread_can_be_started(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored by then: an answer that says otherwise would be untrue."""
    caller = world.caller()
    refused = lacking(monkeypatch, "postgres-notify")
    accepted = world.submit(caller, "key")

    assert ["postgres-notify"] == refused
    assert ("queued", False) == (world.state(accepted.job_id), accepted.replayed)
