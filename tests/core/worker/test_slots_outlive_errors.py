"""A slot's thread goes on after an error that nobody foresaw: its lane must not stand still."""

import time
from pathlib import Path

import pytest

from servers.rig import Rig, eventually
from servers.service import RunningService
from servers.speed import HANG_S
from servers.threads import lacking
from servers.world import LANE, World
from tenuto.db.database_opening import open_database
from tenuto.worker.engines import Engines
from tenuto.worker.supervisor import Slot

UNFORESEEN = "claim.failed"
TIMEOUT_S = 120.0


def test_a_lane_works_again_when_what_broke_its_claims_is_mended(tmp_path: Path) -> None:
    """The table of slots goes away under a running worker and comes back: the waiting job is then run."""
    service = RunningService(tmp_path / "data", f"sqlite:///{tmp_path}/tenuto.db")
    service.start()
    try:
        service.key = service.make_key(credit="10")
        database = open_database(f"sqlite:///{tmp_path}/tenuto.db")
        database.write(lambda tx: tx.run("alter table slot rename to slot_away"))
        job_id = service.submit("It waits until the slots are back.")
        until = time.monotonic() + TIMEOUT_S
        while UNFORESEEN not in service.log_path.read_text():
            assert time.monotonic() < until, service.log_path.read_text()[-2000:]
            time.sleep(0.02)
        database.write(lambda tx: tx.run("alter table slot_away rename to slot"))
        database.close()

        assert "succeeded" == service.wait(job_id)["state"]
    finally:
        service.stop()


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
