"""The studio on both databases; money and jobs agree when a test is over."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from features.studio.browsers import Studio
from tenuto.db.database import Database


class Open(Protocol):
    """Makes a studio with settings of its own."""

    def __call__(self, **options: Any) -> Studio: ...


@pytest.fixture
def open_studio(database: Database, tmp_path: Path) -> Iterator[Open]:
    """Studios that a test has settings for, all on one database."""
    opened: list[Studio] = []

    def make(**options: Any) -> Studio:
        opened.append(Studio(database, tmp_path / "data", **options))
        return opened[-1]

    yield make
    for studio in opened:
        studio.close()


@pytest.fixture
def studio(open_studio: Open) -> Studio:
    """A studio where everybody may register, without credit."""
    return open_studio(registration="open", initial_credit="0")
