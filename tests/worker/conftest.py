"""The world of jobs, for tests beside them; its audit must be clean when a test is over."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.rig import Rig
from servers.world import METERED, SPEECH, World
from tenuto.config import ModelSettings
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
    made = Engines(rig.context, [SPEECH, METERED], rig.work_condition)
    yield made
    made.close()


@pytest.fixture
def interpreter(tmp_path: Path) -> Callable[[str], ModelSettings]:
    """Settings whose interpreter is a shell script with these lines; the next call replaces them."""
    script = tmp_path / "python"

    def write(lines: str) -> ModelSettings:
        script.write_text(f"#!/bin/sh\n{lines}\n")
        script.chmod(0o700)
        return ModelSettings(interpreter=str(script))

    return write
