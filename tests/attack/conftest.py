"""Services to be attacked: each on a folder, a database and links of its own."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.checker import PRICED
from servers.postgres import THROUGH, PostgresServer
from servers.processes import family
from servers.proxy import Proxy
from servers.service import RunningService

MakeService = Callable[..., RunningService]
_numbers = itertools.count(1)


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[MakeService]:
    """Makes services of a folder, a database URL and variables; whatever is left of them is killed."""
    made: list[RunningService] = []

    def make(
        folder: Path | None = None,
        url: str | None = None,
        *,
        config: str = PRICED,
        **variables: str,
    ) -> RunningService:
        file = tmp_path / f"tenuto{len(made)}.toml"
        file.write_text(config)
        standard = {"TENUTO_CONFIG": str(file), "TENUTO_REQUESTS_PER_SECOND": "0"}
        folder = folder or tmp_path / f"data{len(made)}"
        service = RunningService(folder, url, variables=standard | variables)
        made.append(service)
        return service

    yield make
    for service in made:
        if family(service).api is not None:
            service.kill()


@pytest.fixture
def server_url(postgres_server: PostgresServer) -> str:
    """The URL of a fresh database on the server that all tests share: the server itself is left alone."""
    name = f"attack_{next(_numbers)}"
    postgres_server.run(f"create database {name}")
    return postgres_server.url(name)


@pytest.fixture
def fresh_url(request: pytest.FixtureRequest, dialect: str) -> str | None:
    """The URL of a fresh database; None where the data folder holds it."""
    if dialect == "sqlite":
        return None
    url: str = request.getfixturevalue("server_url")
    return url


@pytest.fixture
def link(postgres_server: PostgresServer) -> Iterator[Proxy]:
    """A proxy before the server."""
    proxy = Proxy(postgres_server.address)
    yield proxy
    proxy.close()


@pytest.fixture
def linked_url(link: Proxy, server_url: str) -> str:
    """The URL of a fresh database behind that proxy."""
    return THROUGH.format(port=link.port, name=server_url.split("/")[3].split("?", maxsplit=1)[0])
