"""A worker whose bytes are in a bucket: it sweeps there, and rescues while the bucket is away."""

import os
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event

import obstore
import pytest
from msgspec.structs import replace

from servers.ports import free_port
from servers.rig import Rig
from servers.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedServer
from servers.stub import serving
from servers.world import World
from tenuto.features.s3.s3 import PART_BYTES, S3Blobs
from tenuto.features.s3.s3_client import Credentials, S3Location, client
from tenuto.file import erasure
from tenuto.file import operations as artifacts
from tenuto.file.operations import ORPHAN_AGE_MS
from tenuto.worker import sweep as sweeping

WAIT_S = 120.0


def test_orphans_and_unfinished_uploads_go(
    world: World, rig: Rig, seaweed: SeaweedServer, tmp_path: Path
) -> None:
    """After a day: bytes without a row, a reservation and the parts behind it; a result's bytes stay (P5)."""
    keys = Credentials(ACCESS_KEY, SECRET_KEY)
    place = S3Location(bucket="swept", prefix=tmp_path.name, endpoint=seaweed.endpoint, credentials=keys)
    blobs = S3Blobs(place)
    rig.context = replace(rig.context, blobs=blobs)
    rig.neighbour()
    claim = rig.running("worker_b")
    kept = rig.record(claim)
    world.succeed(claim.attempt_id)
    orphan, half = blobs.write(world.ids.new("blob"), b"no row").blob_id, world.ids.new("blob")
    key = f"{half[-2:]}/{half}"
    obstore.put(client(place), f"{key}.tmp", b"a process that was killed")
    # Never closed: a part is there, and an upload that nobody will complete.
    writer = obstore.open_writer(client(place), key, buffer_size=PART_BYTES)
    writer.write(os.urandom(PART_BYTES + 1))
    writer.flush()
    world.now_ms = time.time_ns() // 1_000_000
    before = {*blobs.ids(2**53)}, unfinished(blobs, 1)
    sweep(rig)
    after_an_hour = {*blobs.ids(2**53)}, blobs.unfinished()
    world.now_ms += 2 * ORPHAN_AGE_MS

    sweep(rig)

    assert ({kept, orphan, half}, 1) == before == after_an_hour
    assert ({kept}, 0) == ({*blobs.ids(2**53)}, blobs.unfinished())


def test_a_store_that_stalls_holds_no_rescue_up(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two hundred removals that are not answered one is tried, and the attempt of a worker that died is
    rescued meanwhile (P9, P14).
    """
    monkeypatch.setattr(erasure, "PATIENCE_S", 0.0)
    asked, rescued = Event(), Event()
    tried: set[str] = set()

    class Stalled(BaseHTTPRequestHandler):
        def do_DELETE(self) -> None:
            tried.add(self.path)
            asked.set()
            rescued.wait(WAIT_S)
            self.send_error(503)

        def log_message(self, *_: object) -> None:
            pass

    condemned = [world.ids.new("blob") for _ in range(200)]
    world.write(lambda tx: artifacts.condemn_rowless(tx, condemned, now_ms=world.now_ms))
    rig.neighbour()
    claim = rig.running("worker_b")
    with serving(Stalled) as endpoint:
        place = S3Location("away", endpoint=endpoint, credentials=Credentials("a", "b"), timeout_s=WAIT_S)
        rig.context = replace(rig.context, blobs=S3Blobs(place))
        upkeep = rig.upkeep()
        upkeep.do_due(0.0)
        is_asked, is_sweeping = asked.wait(WAIT_S), upkeep.threads["sweep"].is_running()
        rescued.set()
        upkeep.threads["sweep"].join(WAIT_S)

    assert is_asked and is_sweeping
    assert ("queued", 1) == (world.state(claim.job_id), len(tried))
    assert len(condemned) == len(world.all("select id from blob where is_removed = 0"))


def test_a_store_that_is_away_damages_nothing(world: World, rig: Rig) -> None:
    """Whether recorded bytes are whole is not known while nobody answers: it is looked at again (P1, P6)."""
    rig.neighbour()
    claim = rig.running("worker_b")
    rig.record(claim)
    nobody = S3Location("away", endpoint=f"http://127.0.0.1:{free_port()}", credentials=Credentials("a", "b"))
    near, rig.context = rig.context, replace(rig.context, blobs=S3Blobs(nobody))
    rig.upkeep().do_due(0.0)
    meanwhile = world.state(claim.job_id)
    rig.context = near
    rig.upkeep().do_due(0.0)

    assert ("running", "succeeded") == (meanwhile, world.state(claim.job_id))


def unfinished(blobs: S3Blobs, expected: int) -> int:
    """How many uploads are begun, once it is so many: a part goes up in the background."""
    until = time.monotonic() + WAIT_S
    while (found := blobs.unfinished()) != expected and time.monotonic() < until:
        time.sleep(0.05)
    return found


def sweep(rig: Rig) -> None:
    """One sweep, to its end."""
    sweeping.sweep(rig.turn())
