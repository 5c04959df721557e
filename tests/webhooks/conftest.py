"""The world of jobs, for webhooks beside it: time passes only as a test says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.rig import Rig
from servers.world import World
from tenuto.db.database import Database


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    """A world with one slot in the lane; after the test records and money agree."""
    made = World(database, tmp_path)
    made.open(1)
    yield made
    assert [] == made.findings()


@pytest.fixture
def rig(world: World, tmp_path: Path) -> Iterator[Rig]:
    """A worker's parts on the world's database."""
    made = Rig(world, tmp_path)
    yield made
    made.heartbeat.stop()
