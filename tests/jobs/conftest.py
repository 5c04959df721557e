"""The world in which jobs are accepted, claimed and ended; its audit must be clean when a test is over."""

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


@pytest.fixture
def broken_world(database: Database, tmp_path: Path) -> World:
    """A world with one slot in which a test breaks what the audit guards."""
    made = World(database, tmp_path)
    made.open(1)
    return made
