"""The world of records before any worker has been there."""

from pathlib import Path

import pytest

from servers.world import World
from tenuto.db.database import Database


@pytest.fixture
def world(database: Database, tmp_path: Path) -> World:
    """A world with one slot in the lane and no worker."""
    made = World(database, tmp_path)
    made.slots(1)
    return made
