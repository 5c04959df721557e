"""A service to be killed: on a folder of its own, with a priced fake model, on both databases."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.checker import PRICED
from servers.postgres import PostgresServer, start_postgres
from servers.processes import family
from servers.service import RunningService

MakeService = Callable[..., RunningService]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def mortal_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server of our own: other tests would not like what happens to it."""
    server = start_postgres()
    yield server
    server.stop()


@pytest.fixture
def make_service(request: pytest.FixtureRequest, dialect: str, tmp_path: Path) -> Iterator[MakeService]:
    """Makes services with these `TENUTO_…` variables; whatever is left of them is killed afterwards."""
    made: list[RunningService] = []

    def make(**variables: str) -> RunningService:
        url = None
        if dialect == "postgresql":
            server: PostgresServer = request.getfixturevalue("mortal_postgres")
            name = f"crash_{next(_numbers)}"
            server.run(f"create database {name}")
            url = server.url(name)
        config = tmp_path / "tenuto.toml"
        config.write_text(PRICED)
        standard = {"TENUTO_CONFIG": str(config), "TENUTO_REQUESTS_PER_SECOND": "0"}
        service = RunningService(tmp_path / f"data{len(made)}", url, variables=standard | variables)
        made.append(service)
        return service

    yield make
    for service in made:
        left = family(service)
        if left.api is not None:
            service.kill()
