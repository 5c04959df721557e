"""What a worker does with a result, in its order: durable bytes, then the rows that speak of them."""

import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from servers.rig import Rig, full_disk, run
from servers.world import METERED, SPEECH, World
from tenuto.errors import StoreUnreachableForWrites
from tenuto.file.blob import BlobRecord
from tenuto.file.directory import DirectoryBlobs
from tenuto.worker import attempt, storage_retries
from tenuto.worker.engine_calls import DOUBTFUL_RUN_S, LEAST_PAID_RUN_S, LEAST_RUN_S, EngineCalls
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import ClockTrust


def test_no_row_speaks_of_bytes_that_are_not_there(
    world: World, rig: Rig, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk refuses the result: no blob, no artifact, no charge; the job waits, and nothing is counted
    against it (P5).
    """
    monkeypatch.setattr(storage_retries, "STORE_PAUSE_S", 0.001)
    monkeypatch.setattr(attempt, "PATIENCE_S", 0.01)
    claim = rig.running("worker_us", SPEECH)
    with full_disk():
        run(rig, engines, claim)

    assert ("queued", 0) == (world.state(claim.job_id), world.job(claim.job_id)["hosts_lost"])
    assert ([], []) == (world.all("select id from blob"), world.all("select id from artifact"))
    assert ["hold"] == world.entries(claim.job_id)


class Away(DirectoryBlobs):
    """A real folder that cannot be reached for the first so many writes."""

    def __init__(self, folder: Path, writes: int) -> None:
        super().__init__(folder)
        self.refusals = writes

    def write(self, blob_id: str, content: bytes | Iterable[bytes]) -> BlobRecord:
        if self.refusals > 0:
            self.refusals -= 1
            raise StoreUnreachableForWrites
        return super().write(blob_id, content)


@pytest.mark.parametrize("model", [SPEECH, METERED])
def test_a_store_that_is_away_is_waited_for(
    world: World, rig: Rig, engines: Engines, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made, or paid for, is not given up however long the store stays away: one run, one charge
    (P1, P3, P10).
    """
    monkeypatch.setattr(storage_retries, "STORE_PAUSE_S", 0.001)
    rig.context = replace(rig.context, blobs=Away(rig.folder / "blobs", 3 * storage_retries.STORE_TRIES))
    claim = rig.running("worker_us", model)
    run(rig, engines, claim)

    assert "succeeded" == world.state(claim.job_id)
    assert 1 == world.job(claim.job_id)["attempts"]
    assert ["hold", "settle"] == world.entries(claim.job_id)


@pytest.mark.parametrize(("model", "least_s"), [(SPEECH, LEAST_RUN_S), (METERED, LEAST_PAID_RUN_S)])
def test_a_deadline_ends_a_run_while_the_clock_is_known(
    world: World, rig: Rig, engines: Engines, model: str, least_s: float
) -> None:
    """To the moment, or after the least that a claimed job has; a clock that jumped ends nothing (P20)."""
    claim = rig.running("worker_us", model)
    watched = rig.heartbeat.watch(claim.attempt_id, cancellable=True)
    calls = EngineCalls(rig.context, engines, claim, watched, lambda: None)
    left = {"a start": calls.time_left_s()}
    world.now_ms = claim.deadline_at - 7_200_000
    left["a jump to the end"] = calls.time_left_s()
    # Both clocks were looked at eleven minutes ago and have agreed since.
    rig.heartbeat.clock_trust = ClockTrust(world.now_ms - 660_000, time.monotonic() - 660)
    left["two hours before"] = calls.time_left_s()
    rig.heartbeat.clock_trust = ClockTrust(claim.deadline_at - 660_000, time.monotonic() - 660)
    world.now_ms = claim.deadline_at - 1000
    left["a second before"] = calls.time_left_s()
    world.now_ms += 3_600_000
    left["another jump"] = calls.time_left_s()
    rig.heartbeat.clock_trust = ClockTrust(world.now_ms - 660_000, time.monotonic() - 660)
    unset = replace(claim, deadline_at=14 * 24 * 3_600_000)
    left["accepted in 1970"] = replace(calls, claim=unset).time_left_s()

    assert {
        "a start": 14 * 24 * 3600,
        "a jump to the end": DOUBTFUL_RUN_S,
        "two hours before": 7200,
        "a second before": least_s,
        "another jump": DOUBTFUL_RUN_S,
        "accepted in 1970": DOUBTFUL_RUN_S,
    } == {when: round(seconds) for when, seconds in left.items()}
