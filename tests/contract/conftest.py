"""The services that the contract is tested on; every test takes a caller of its own."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.callers import Caller, Operator
from servers.postgres import PostgresServer
from servers.service import RunningService
from servers.upstream import UpstreamServer

PRICES = """
[models."fake/speech"]
price = "0.05"
[models."fake/metered-speech"]
price = "0.08"
hold = "0.10"
"""
UPSTREAM_KEY = "secret-of-the-upstream"
UPSTREAMS = """
[models."there/chat"]
upstream = "{url}"
upstream_model = "their-name"
upstream_key_variable = "UPSTREAM_KEY"
[models."there/narrow"]
upstream = "{url}/"
takes = ["tools", "json"]
connections = 1
[models."there/vectors"]
upstream = "{url}"
upstream_model = "their-vectors"
serves = "embeddings"
[models."there/priced"]
upstream = "{url}"
input_price = "2"
output_price = "8"
longest_answer = 100
[models."there/priced-vectors"]
upstream = "{url}"
serves = "embeddings"
input_price = "0.5"
[models."there/closed"]
upstream = "http://127.0.0.1:{closed}/v1"
"""
BROKEN = """
[models."fake/speech"]
interpreter = "/bin/false"
[models."fake/metered-speech"]
price = "0.05"
"""


@pytest.fixture(scope="session")
def operator(service: RunningService) -> Iterator[Operator]:
    """The operator of the service that most tests share: free models, no limits."""
    yield from _operating(service)


@pytest.fixture
def caller(operator: Operator) -> Caller:
    """A new account with a key, on the shared service."""
    return operator.caller()


@pytest.fixture(scope="session")
def upstream() -> Iterator[UpstreamServer]:
    """A chat server of somebody else's."""
    server = UpstreamServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def paid(
    service: RunningService,
    request: pytest.FixtureRequest,
    upstream: UpstreamServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Operator]:
    """The operator of a service whose models cost money and whose hosts are killed soon after a cancel.

    It has chat models of the upstream, one of which takes one chat at a time, and sends to every webhook.
    """
    folder = tmp_path_factory.mktemp("paid")
    configuration = PRICES + UPSTREAMS.format(url=upstream.url, closed=_free_port())
    variables = {
        "TENUTO_HOST_GRACE_S": "0.2",
        "TENUTO_REQUESTS_PER_SECOND": "0",
        "TENUTO_METRICS_PORT": str(_free_port()),
        "TENUTO_LOG": "debug",
        "TENUTO_REGISTRATION": "open",
        "TENUTO_INITIAL_CREDIT": "1",
        "TENUTO_TRUSTED_PROXIES": "127.0.0.1",
        "TENUTO_QUEUED_CHATS": "2",
        "TENUTO_WEBHOOKS": "any",
        "TENUTO_LOW_BALANCE": "2",
        "UPSTREAM_KEY": UPSTREAM_KEY,
    }
    yield from _running(service, request, folder, configuration, variables)


@pytest.fixture(scope="session")
def poor(
    service: RunningService, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """The operator of a service with small limits, whose engine of fake/speech can't be started."""
    folder = tmp_path_factory.mktemp("poor")
    variables = {"TENUTO_REQUESTS_PER_SECOND": "5", "TENUTO_QUEUED_JOBS": "1", "TENUTO_DRAIN_S": "4"}
    variables["TENUTO_STORED_MIB"] = "1"
    yield from _running(service, request, folder, BROKEN, variables)


@pytest.fixture(scope="session")
def impatient(
    service: RunningService, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """The operator of a service whose OpenAI routes wait two seconds for their jobs."""
    variables = {"TENUTO_OPENAI_WAIT_S": "2", "TENUTO_REQUESTS_PER_SECOND": "0"}
    yield from _running(service, request, tmp_path_factory.mktemp("impatient"), PRICES, variables)


@pytest.fixture
def visitor(paid: Operator) -> Caller:
    """A new account with a key, on the service with upstreams."""
    return paid.caller()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _running(
    shared: RunningService,
    request: pytest.FixtureRequest,
    folder: Path,
    configuration: str,
    variables: dict[str, str],
) -> Iterator[Operator]:
    """A service of its own on the same kind of database as the shared one."""
    file = folder / "tenuto.toml"
    file.write_text(configuration)
    url = None
    if shared.database_url is not None:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        server.run(f'create database "{folder.name}"')
        url = server.url(folder.name)
    running = RunningService(folder / "data", url, variables={"TENUTO_CONFIG": str(file), **variables})
    running.start()
    try:
        yield from _operating(running)
    finally:
        running.stop()


def _operating(running: RunningService) -> Iterator[Operator]:
    operator = Operator(running)
    yield operator
    operator.close()
