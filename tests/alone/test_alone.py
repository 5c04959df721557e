"""Each distribution installed by itself: an import that it does not declare fails here, and nowhere else."""

import json
import os
import urllib.request
from pathlib import Path

import pytest

from alone.environment import OURS, installed, others, output, serving

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
    answer = json.loads(printed(python, LOAD))

    assert answer["engines"]
    assert answer["engines"] == answer["tables"]
    assert "no tenuto" == printed(
        python, "import importlib.util as u; print('tenuto' if u.find_spec('tenuto') else 'no tenuto')"
    )


def test_what_is_not_declared_is_not_there(wheels: Path, tmp_path: Path) -> None:
    """Or the tests above would prove nothing: numpy is installed here, and the seam does not name it."""
    python = installed("tenuto-engine", tmp_path, wheels)
    program = "import importlib.util as u; print([n for n in ('numpy', 'tenuto', 'pip') if u.find_spec(n)])"

    assert "[]" == printed(python, program)


@pytest.mark.parametrize("name", ["tenuto-engine", "tenuto-engine-kit", "tenuto-client", "tenuto-ray"])
def test_a_package_alone_can_be_imported(wheels: Path, tmp_path: Path, name: str) -> None:
    """The seam needs nothing at all, and examines an engine all the same; the client knows no service."""
    python = installed(name, tmp_path, wheels)
    module = name.replace("-", "_")
    # `__main__` is run as a file; the kit draws only for engines that ask for its extra `pictures`.
    left_out = ("tenuto_engine.__main__", "tenuto_engine_kit.picture")
    printed(python, WALK.format(module=module, left_out=left_out))

    assert name != "tenuto-engine" or not others(name)


@pytest.mark.parametrize("engines", ["fake", "real"])
def test_the_service_alone_serves_and_offers_only_its_fakes(
    service: Path, tmp_path: Path, engines: str
) -> None:
    """Health answers 200; the models are the fakes, or none where real ones are wanted: no engine is here."""
    own = {"TENUTO_DATA": str(tmp_path / "data"), "TENUTO_ENGINES": engines}
    inherited = {name: value for name, value in clean().items() if not name.startswith("TENUTO_")}
    with (
        serving(service, tmp_path, inherited | own) as address,
        urllib.request.urlopen(f"{address}/livez", timeout=120) as answer,
    ):
        status = answer.status
    fake = engines == "fake"
    listing = "import json\nfrom tenuto.host.registry import entries\n"
    listing += f"print(json.dumps([one.model for one in entries(fake={fake})]))"
    names = json.loads(printed(service, listing))

    assert 200 == status
    assert bool(names) == fake
    assert all(name.startswith("fake/") for name in names)


def clean() -> dict[str, str]:
    """The environment of this process, with nothing of ours on Python's path."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def printed(python: Path, program: str) -> str:
    """What a program prints in an environment."""
    return output([python, "-c", program], python.parent, clean())
