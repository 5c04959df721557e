"""The world of jobs, for tests beside them; its audit must be clean when a test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.rig import Rig
from servers.world import METERED, SPEECH, World
from tenuto.db.database import Database
from tenuto.worker.engines import Engines


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


@pytest.fixture
def engines(rig: Rig) -> Iterator[Engines]:
    """The fake engines in their processes."""
    made = Engines(rig.context, [SPEECH, METERED], rig.bell)
    yield made
    made.close()
