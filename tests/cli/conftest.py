"""The operator's command line as a user has it: processes, their streams and exit codes."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from servers import forking
from servers.postgres import PostgresServer
from servers.service import RunningService

PRICES = """
[models."fake/speech"]
price = "0.05"
[models."fake/metered-speech"]
price = "0.05"
"""


@dataclass(frozen=True)
class Operator:
    """Runs `tenuto` on one data folder, with no settings but these."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """A command; more settings by keyword, `speech_slots="2"`."""
        return forking.complete(arguments, env=self.environment(**settings), cwd=self.folder.parent)

    def json(self, *arguments: str) -> Any:
        """What a command that must succeed prints with --json."""
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def environment(self, **settings: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
        own = {"data": str(self.folder), "pull": "never", **self.settings, **settings}
        home = {"XDG_STATE_HOME": f"{self.folder}.state"}
        return home | kept | {f"TENUTO_{name.upper()}": value for name, value in own.items()}


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path / "data")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("TENUTO_", "XDG_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
    return home


def run(*words: str, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of that person in a script."""
    return forking.complete(words, env=os.environ | {"TENUTO_PULL": "never"} | variables, cwd=folder)


@pytest.fixture(scope="session", params=("sqlite", "postgresql"))
def paid_service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """`tenuto serve` with fake engines that cost 0.05 CNY a job, on either database."""
    folder = tmp_path_factory.mktemp("paid")
    (folder / "tenuto.toml").write_text(PRICES)
    url = None
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        server.run(f'create database "{folder.name}"')
        url = server.url(folder.name)
    running = RunningService(folder / "data", url, variables={"TENUTO_CONFIG": str(folder / "tenuto.toml")})
    running.start()
    yield running
    running.stop()


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    """A table as scripts get it: tabs between the cells, the headings first."""
    assert done.returncode == 0, done.stderr
    headings, *lines = (line.split("\t") for line in done.stdout.splitlines())
    return [dict(zip(headings, line, strict=True)) for line in lines]
