"""Wheels, and an environment of `tenuto[cpu]`: made once, for all processes of a test run."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from alone.environment import OURS, built, installed_from_index

Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """A function that gives a folder by its name, after one of the processes has filled it."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def fill_once(name: str, fill: Callable[[Path], object]) -> Path:
        is_filled = shared / f"{name}.is-filled"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_filled.exists():
                fill(shared / name)
                is_filled.touch()
        return shared / name

    return fill_once


@pytest.fixture(scope="session")
def wheels(once: Once) -> Path:
    """The wheels and source archives of all distributions, as they would be published."""
    return once("distributions", lambda folder: built(OURS, folder)) / "wheels"


@pytest.fixture(scope="session")
def user(once: Once, wheels: Path) -> Path:
    """The interpreter of somebody who has installed `tenuto[cpu]` from the wheels, and nothing else."""
    return once("user", lambda folder: installed_from_index("tenuto[cpu]", folder, wheels)) / "bin" / "python"
