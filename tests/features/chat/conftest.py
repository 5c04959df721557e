"""What tests of calls with a price share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.world import World
from tenuto.db.database import Database


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    """A world whose records and money agree when the test is over."""
    made = World(database, tmp_path)
    made.open(1)
    yield made
    assert [] == made.findings()
