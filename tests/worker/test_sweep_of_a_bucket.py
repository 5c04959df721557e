"""The sweep where the bytes are in a bucket: orphans go, and uploads that a killed writer left are ended."""

import os
import time
from dataclasses import replace
from pathlib import Path

import obstore

from jobs.world import World
from servers.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedServer
from tenuto.artifacts.operations import ORPHAN_AGE_MS
from tenuto.blobs.s3 import S3Blobs
from tenuto.blobs.s3_content import PART_BYTES
from tenuto.blobs.s3_place import Credentials, S3Place, client
from tenuto.worker.sweep import Sweeper
from worker.rig import Rig

WAIT_S = 30.0


def test_orphans_and_unfinished_uploads_go(
    world: World, rig: Rig, seaweed: SeaweedServer, tmp_path: Path
) -> None:
    """After a day: bytes without a row, a reservation and the parts behind it; a result's bytes stay (P5)."""
    keys = Credentials(ACCESS_KEY, SECRET_KEY)
    place = S3Place(bucket="swept", prefix=tmp_path.name, endpoint=seaweed.endpoint, credentials=keys)
    blobs = S3Blobs(place)
    rig.parts = replace(rig.parts, blobs=blobs)
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


def unfinished(blobs: S3Blobs, expected: int) -> int:
    """How many uploads are begun, once it is so many: a part goes up in the background."""
    until = time.monotonic() + WAIT_S
    while (found := blobs.unfinished()) != expected and time.monotonic() < until:
        time.sleep(0.05)
    return found


def sweep(rig: Rig) -> None:
    """One sweep, to its end."""
    sweeper = Sweeper(rig.parts)
    sweeper.look()
    sweeper.join(WAIT_S)
