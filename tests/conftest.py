"""Fixtures for all tests: fresh databases of both kinds."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tenuto.db.database import Database, open_database
from tenuto.db.migrations import migrate


@pytest.fixture(params=["sqlite"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, that only this test uses."""
    return f"sqlite:///{tmp_path}/tenuto.db"


@pytest.fixture
def empty_database(empty_database_url: str) -> Iterator[Database]:
    """A database without tables."""
    database = open_database(empty_database_url)
    yield database
    database.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with all migrations applied, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    database = open_database(f"sqlite:///{path}")
    migrate(database)
    database.close()
    return path


@pytest.fixture(params=["sqlite"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path, sqlite_template: Path) -> str:
    """The URL of a migrated database that only this test uses."""
    shutil.copyfile(sqlite_template, tmp_path / "tenuto.db")
    return f"sqlite:///{tmp_path}/tenuto.db"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated database, empty of rows that tests would see."""
    opened = open_database(database_url)
    yield opened
    opened.close()
