"""Each distribution installed by itself: an import that it does not declare fails here, and nowhere else."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from alone.environment import OURS, installed, others

pytestmark = pytest.mark.variant("package")

ENGINES = [
    name
    for name, folder in OURS.items()
    if 'entry-points."tenuto.engines"' in (folder / "pyproject.toml").read_text("utf-8")
]
WALK = """
import importlib, pkgutil
import {module} as package
for one in pkgutil.walk_packages(package.__path__, "{module}."):
    one.name in {left_out} or importlib.import_module(one.name)
"""
LOAD = """
import importlib, importlib.metadata, json, pkgutil, sys, tomllib
from tenuto_engine.adapters import found
engines = found()
for one in engines.values():
    module, _, name = one["engine"].partition(":")
    getattr(importlib.import_module(module), name)
    package = importlib.import_module(module.partition(".")[0])
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(each.name)
tables = {one["name"] for text in engines.values() for one in tomllib.loads(text["manifest"])["engine"]}
print(json.dumps({"engines": sorted(engines), "tables": sorted(tables)}))
"""
"""What a service reads of an engine, and what a host imports, with every module beside it."""


@pytest.fixture(scope="module")
def service(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which only `tenuto` was installed."""
    return installed("tenuto", tmp_path_factory.mktemp("environments"), wheels)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_alone_is_found_and_every_module_of_it_can_be_imported(
    wheels: Path, tmp_path: Path, name: str
) -> None:
    """With what it declares and nothing else, and without the service; each entry point has its table."""
    python = installed(name, tmp_path, wheels)
    answer = json.loads(output(python, LOAD))

    assert answer["engines"]
    assert answer["engines"] == answer["tables"]
    assert "no tenuto" == output(
        python, "import importlib.util as u; print('tenuto' if u.find_spec('tenuto') else 'no tenuto')"
    )


def test_what_is_not_declared_is_not_there(wheels: Path, tmp_path: Path) -> None:
    """Or the tests above would prove nothing: numpy is installed here, and the seam does not name it."""
    python = installed("tenuto-engine", tmp_path, wheels)
    program = "import importlib.util as u; print([n for n in ('numpy', 'tenuto', 'pip') if u.find_spec(n)])"

    assert "[]" == output(python, program)


@pytest.mark.parametrize("name", ["tenuto-engine", "tenuto-engine-kit", "tenuto-client", "tenuto-ray"])
def test_a_package_alone_can_be_imported(wheels: Path, tmp_path: Path, name: str) -> None:
    """The seam needs nothing at all, and examines an engine all the same; the client knows no service."""
    python = installed(name, tmp_path, wheels)
    module = name.replace("-", "_")
    # `__main__` is run as a file; the kit draws only for engines that ask for its extra `pictures`.
    left_out = ("tenuto_engine.__main__", "tenuto_engine_kit.picture")
    output(python, WALK.format(module=module, left_out=left_out))

    assert name != "tenuto-engine" or not others(name)


@pytest.fixture
def serving(service: Path, tmp_path: Path, engines: str) -> Iterator[str]:
    """The address of `tenuto serve` in that environment."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("TENUTO_", "PYTHON"))
    }
    process = subprocess.Popen(
        [service.with_name("tenuto"), "serve", "--port", "0"],
        env={**inherited, "TENUTO_DATA": str(tmp_path / "data"), "TENUTO_ENGINES": engines},
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "log").open("w"),
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert "http://" in first, first + (tmp_path / "log").read_text()
    yield "http://127.0.0.1:" + first.split("http://")[1].split(",")[0].rsplit(":", 1)[1].strip()
    process.send_signal(signal.SIGTERM)
    assert 0 == process.wait(60)


@pytest.mark.parametrize("engines", ["fake", "real"])
def test_the_service_alone_serves_and_offers_only_its_fakes(
    service: Path, serving: str, tmp_path: Path, engines: str
) -> None:
    """Health answers 200; the models are the fakes, or none where real ones are wanted: no engine is here."""
    with urllib.request.urlopen(f"{serving}/livez", timeout=120) as answer:
        status = answer.status
    fake = engines == "fake"
    listing = "import json\nfrom tenuto.host.registry import entries\n"
    listing += f"print(json.dumps([one.model for one in entries(fake={fake})]))"
    names = json.loads(output(service, listing))

    assert 200 == status
    assert bool(names) == fake
    assert all(name.startswith("fake/") for name in names)


def output(python: Path, program: str) -> str:
    """What a program prints in an environment, without anything of ours on its path."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-c", program],
        env=clean,
        cwd=python.parent,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
