"""A bucket that is away while a rescue needs it."""

from msgspec.structs import replace

from servers.ports import free_port
from servers.rig import Rig
from servers.world import World
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import Credentials, S3Location


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
