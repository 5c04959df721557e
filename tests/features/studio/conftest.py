"""The studio on both databases; money and jobs agree when a test is over."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from argon2 import PasswordHasher

from features.studio.browsers import Studio
from tenuto.db.database import Database
from tenuto.features.studio import passwords


class Open(Protocol):
    """Makes a studio with settings of its own."""

    def __call__(self, **options: Any) -> Studio: ...


REAL = passwords._hasher
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes cost nothing, but in tests of what they cost."""
    monkeypatch.setattr(passwords, "_hasher", QUICK)


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
