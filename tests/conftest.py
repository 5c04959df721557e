"""Fixtures for all tests: fresh databases of both kinds, and the PostgreSQL server that the second needs."""

import gc
import itertools
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import tenuto_engine
from servers.callers import Caller, Operator
from servers.postgres import PostgresServer, start_postgres
from servers.rig import Rig
from servers.seaweedfs import SeaweedServer, start_seaweedfs
from servers.service import RunningService
from servers.world import METERED, SPEECH, World
from tenuto.config import ModelSettings
from tenuto.db.database import Database
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import migrate
from tenuto.ids import Ids
from tenuto.worker.engines import Engines
from tiers import ADVERSITY, FOLDERS, LONGEST, MEASURED, UNIT, VARIANT, is_variant, tier

# Importing it keeps libraries that tests import from reporting anything.
assert tenuto_engine

# As in a host: numpy's own threads only get in the way. It reads this when a test first imports it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell has Ctrl-C ignored by what it runs in the background, and by all that this starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long one example takes is the machine's affair; what may not be slow has a test or a bench that says so.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

_DATABASES = ("sqlite", "postgresql")
TESTS = Path(__file__).parent
_numbers = itertools.count(1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What cannot be of the tiers that are asked for is not even imported: that takes longer than tests."""
    is_inside = TESTS in collection_path.parents
    of_folder = FOLDERS.get(str(collection_path.relative_to(TESTS))) if is_inside else None
    asked = config.option.markexpr
    is_other = asked == UNIT or (of_folder == ADVERSITY and f"not {ADVERSITY}" in asked)
    return True if of_folder and is_other else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Nothing of what is collected is ever garbage, and looking for some in it takes two fifths of the time.

    Afterwards it is out of the collector's sight, or each of its full runs in a test would go through it all.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Each test is marked with its tier, so that `-m unit` chooses those of one, and each variant as one; the
    longest run first.

    Workers get an equal share of the list each, and who is done takes from the end of another's: a test of a
    minute that came last would run alone. Most of the longest wait, so they cost the other workers little.
    """
    for item in items:
        item.add_marker(tier(item))
        if item.path.name.startswith("measured_"):
            item.add_marker(MEASURED)
        if is_variant(item):
            item.add_marker(VARIANT)
    yield
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, dialect: str) -> Iterator[str]:
    """The URL of a migrated database that only this test uses."""
    yield from _fresh(request, dialect, is_migrated=True)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated database that only this test uses."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def empty_database_url(request: pytest.FixtureRequest, dialect: str) -> Iterator[str]:
    """The URL of a database without tables that only this test uses."""
    yield from _fresh(request, dialect, is_migrated=False)


@pytest.fixture
def empty_database(empty_database_url: str) -> Iterator[Database]:
    """A database without tables that only this test uses."""
    opened = open_database(empty_database_url)
    yield opened
    opened.close()


@pytest.fixture(params=_DATABASES)
def dialect(request: pytest.FixtureRequest) -> str:
    """Runs the test on SQLite and on PostgreSQL."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for each worker of the test run, without syncing: it starts in half a second."""
    server = start_postgres(is_durable=False)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def seaweed() -> Iterator[SeaweedServer]:
    """An S3 server; who kills it starts it again."""
    server = start_seaweedfs()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """A PostgreSQL database with all migrations applied, to be copied."""
    postgres_server.run("create database migrated")
    _migrate(postgres_server.url("migrated"))
    return "migrated"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with all migrations applied, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    _migrate(f"sqlite:///{path}")
    return path


def _fresh(request: pytest.FixtureRequest, dialect: str, *, is_migrated: bool) -> Iterator[str]:
    if dialect == "sqlite":
        path: Path = request.getfixturevalue("tmp_path") / "tenuto.db"
        if is_migrated:
            shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    template: str = request.getfixturevalue("postgres_template") if is_migrated else "template0"
    name = f"test_{next(_numbers)}"
    server.run(f"create database {name} template {template} strategy file_copy")
    yield server.url(name)
    server.run(f"drop database {name} with (force)")


def _migrate(url: str) -> None:
    database = open_database(url)
    migrate(database)
    database.close()


@pytest.fixture(scope="session", params=_DATABASES)
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """`tenuto serve` with the fake engines on SQLite and on PostgreSQL, an account with credit and a key.

    Shared by a test run: a test takes accounts of its own where it looks at money or lists.
    """
    url = None
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        # pytest may end this fixture and make it again.
        name = f"service_{next(_numbers)}"
        server.run(f"create database {name}")
        url = server.url(name)
    running = RunningService(
        tmp_path_factory.mktemp("service") / "data",
        url,
        variables={"TENUTO_REQUESTS_PER_SECOND": "0", "TENUTO_WEBHOOKS": "any"},
    )
    running.start()
    running.key = running.make_key(credit="1000")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def operator(service: RunningService) -> Iterator[Operator]:
    """The operator of the service that most tests share."""
    operator = Operator(service)
    yield operator
    operator.close()


@pytest.fixture
def caller(operator: Operator) -> Caller:
    """A new account with credit, and a key of it."""
    return operator.caller(credit="100")


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    """A world with one slot in the lane; after the test records and money agree."""
    made = World(database, tmp_path)
    made.open(1)
    yield made
    assert [] == made.findings()


@pytest.fixture
def broken_world(database: Database, tmp_path: Path) -> World:
    """A world with one slot in which a test breaks what the audit guards."""
    made = World(database, tmp_path)
    made.open(1)
    return made


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


@pytest.fixture
def new_id() -> Callable[[], str]:
    """A fresh blob id at each call."""
    ids = Ids(clock=lambda: 1_700_000_000_000)
    return lambda: ids.new("blob")
