"""When a job whose call is charged passes its fence: with the call, not while it waits for its turn."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from servers.rig import Rig, eventually, run
from servers.speed import HANG_S
from servers.world import METERED, World
from tenuto.host.host import OutcomeUnknown
from tenuto.job.queue import Claim
from tenuto.worker.engine_calls import EngineCalls
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Watched


@contextmanager
def waiting(rig: Rig, engines: Engines, claim: Claim) -> Iterator[threading.Thread]:
    """The attempt in its thread, while another run has its engine alone."""
    other = Watched("attempt_other", cancellable=True, trusts_clock=lambda: True)
    thread = threading.Thread(target=run, args=(rig, engines, claim), daemon=True)
    with engines.sharing(METERED, other, is_alone=True):
        thread.start()
        assert eventually(lambda: len(engines._sharing[METERED]._waiting) == 2)
        yield thread
    thread.join(HANG_S)
    assert not thread.is_alive()


def test_a_paid_job_that_waits_for_its_turn_is_queued_again_if_its_worker_dies(
    world: World, rig: Rig, engines: Engines
) -> None:
    """Nothing was called, so no operator has to look into it; the worker that wakes up late stops (P9)."""
    claim = rig.running("worker_us", METERED)
    with waiting(rig, engines, claim):
        outcome = world.rescue(claim.attempt_id)

    assert ("queued", "queued", ["hold"]) == (outcome, world.state(claim.job_id), world.entries(claim.job_id))
    assert world.attempt(claim.attempt_id)["fenced_at"] is None


@pytest.mark.parametrize(("is_cancelled", "state"), [(True, "cancelled"), (False, "queued")])
def test_a_paid_job_that_waits_for_its_turn_stops_at_once(
    world: World, rig: Rig, engines: Engines, is_cancelled: bool, state: str
) -> None:
    """For a caller who cancels it, whom it costs nothing, and for a worker that is asked to stop."""
    claim = rig.running("worker_us", METERED)
    rig.heartbeat.start()
    with waiting(rig, engines, claim) as thread:
        if is_cancelled:
            world.cancel(world.job(claim.job_id)["account_id"], claim.job_id)
        else:
            for watched in rig.heartbeat.active():
                if watched.cancellable:
                    watched.stop.set()
        thread.join(HANG_S)
        is_stopped = not thread.is_alive()

    assert (True, state) == (is_stopped, world.state(claim.job_id))
    assert (["hold", "void"] if is_cancelled else ["hold"]) == world.entries(claim.job_id)


def test_a_worker_that_must_end_makes_no_further_paid_call(rig: Rig, engines: Engines) -> None:
    """It would be cut off, and paid for in vain (P10)."""
    claim = rig.running("worker_us", METERED)
    watched = rig.heartbeat.watch(claim.attempt_id, cancellable=False)
    watched.makes_no_more = True
    passed: list[str] = []
    calls = EngineCalls(rig.context, engines, claim, watched, lambda: passed.append("the fence"))
    with pytest.raises(OutcomeUnknown):
        calls.run(claim.parameters, {})

    assert [] == passed


def test_a_paid_call_is_not_stopped(world: World, rig: Rig, engines: Engines) -> None:
    """Once its fence is passed a cancellation is only recorded: the call is paid for, and its result kept."""
    world.submit(world.caller(), "key", text="[fake:sleep=1] 你好。", model=METERED)
    claim = world.claim("worker_us")
    assert claim is not None
    rig.heartbeat.start()
    thread = threading.Thread(target=run, args=(rig, engines, claim), daemon=True)
    thread.start()
    assert eventually(lambda: world.attempt(claim.attempt_id)["fenced_at"] is not None)
    world.cancel(world.job(claim.job_id)["account_id"], claim.job_id)
    thread.join(HANG_S)

    assert ("succeeded", ["hold", "settle"]) == (world.state(claim.job_id), world.entries(claim.job_id))
