"""The world of jobs, for tests beside them; its audit must be clean when a test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.world import World
from tenuto.db.database import Database


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    """A world with one slot in the lane; after the test records and money agree."""
    made = World(database, tmp_path)
    made.open(1)
    yield made
    assert [] == made.findings()
