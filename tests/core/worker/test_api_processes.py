"""How many API processes a `serve` has, and what it gathers from them."""

from pathlib import Path

import pytest

from tenuto.config import Settings
from tenuto.process.serve import processes_of

POSTGRES = "postgresql://localhost/tenuto"


@pytest.mark.parametrize(
    ("database", "chosen", "cores", "expected"),
    [
        ("sqlite:///tenuto.db", 0, 64, 1),
        ("sqlite:///tenuto.db", 3, 2, 3),
        (POSTGRES, 0, 1, 1),
        (POSTGRES, 0, 2, 1),
        (POSTGRES, 0, 7, 1),
        (POSTGRES, 0, 8, 2),
        (POSTGRES, 0, 64, 4),
        (POSTGRES, 1, 64, 1),
        (POSTGRES, 6, 2, 6),
    ],
)
def test_their_number_is_the_one_that_is_set_or_follows_the_cores(
    tmp_path: Path, database: str, chosen: int, cores: int, expected: int
) -> None:
    """By default one on SQLite, and on PostgreSQL one for every four cores, from one to four."""
    settings = Settings(tmp_path, database=database, api_processes=chosen)

    assert expected == processes_of(settings, cores)
