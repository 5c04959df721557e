"""Services with a history to back up: some are started for a test, one of each database is there for all."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers.postgres import PostgresServer
from servers.service import RunningService

PRICES = '[models."fake/speech"]\nprice = "0.05"\n[models."fake/metered-speech"]\nprice = "0.05"\n'
_numbers = itertools.count(1)

MakeService = Callable[..., RunningService]


@dataclass(frozen=True)
class Origin:
    """A service that was stopped with three results and a job that waits for an operator, and its backup."""

    place: RunningService
    kept: Path


@pytest.fixture
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeService]:
    """Makes services that are not started, each with a database of its own; what runs is stopped."""
    made: list[RunningService] = []

    def make(dialect: str, **variables: str) -> RunningService:
        made.append(_place(request, dialect, tmp_path / f"data{len(made)}", variables))
        return made[-1]

    yield make
    for place in made:
        if place.process is not None and place.process.poll() is None:
            place.stop()


@pytest.fixture(scope="session", params=("sqlite", "postgresql"))
def origin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Origin:
    """One for all tests of a database; nobody changes it or its backup."""
    folder = tmp_path_factory.mktemp("origin")
    place = _place(request, request.param, folder / "data", {})
    place.start()
    place.key = place.make_key(credit="100")
    for number in range(3):
        place.wait(place.submit(f"Sentence {number}.", stream=True))
    place.wait(place.submit("[fake:unknown] Word.", model="fake/metered-speech"))
    place.stop()
    place.command("admin", "backup", str(folder / "kept"))
    return Origin(place, folder / "kept")


def _place(
    request: pytest.FixtureRequest, dialect: str, folder: Path, variables: dict[str, str]
) -> RunningService:
    url = None
    if dialect == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        name = f"place_{next(_numbers)}"
        server.run(f"create database {name}")
        url = server.url(name)
    file = folder.with_name("tenuto.toml")
    file.write_text(PRICES)
    own = {"TENUTO_CONFIG": str(file), "TENUTO_REQUESTS_PER_SECOND": "0", **variables}
    return RunningService(folder, url, variables=own)
