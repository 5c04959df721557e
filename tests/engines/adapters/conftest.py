"""Hosts of the adapters' engines, under an interpreter that has the stand-ins of the models' packages."""

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines.adapters.adapted import STUBS, Adapt, Adapted, voice
from tenuto.host import manifests
from tenuto.host.child_host import ChildHost
from tenuto.host.host import EngineSpec


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that finds the stand-ins, as one with the packages installed finds those."""
    path = tmp_path_factory.mktemp("interpreter") / "python"
    command = shlex.join(["env", f"PYTHONPATH={STUBS}", sys.executable])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o700)
    return str(path)


@pytest.fixture(scope="module")
def models() -> Iterator[dict[str, Adapted]]:
    """Loaded models by what they were loaded with, for the tests of a file: a start takes half a second."""
    loaded: dict[str, Adapted] = {}
    yield loaded
    for model in loaded.values():
        model.host.close()


@pytest.fixture
def adapt(
    models: dict[str, Adapted], interpreter: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Adapt]:
    """Give a function that gives an adapter's engine on a model folder with these answers.

    Two models with the same options in one test are one; `fresh` makes another, which no test has used.
    """
    fresh_ones: list[Adapted] = []

    def adapt(name: str, answers: list[Any] | None = None, *, fresh: bool = False, **options: Any) -> Adapted:
        key = json.dumps([name, options], sort_keys=True)
        model = models.get(key)
        if fresh or model is None:
            folder = tmp_path_factory.mktemp("model")
            (folder / "config.yaml").write_text("version: 2.5\n")
            model = Adapted(ChildHost(_spec(name, interpreter, folder, options)), folder)
            if fresh:
                fresh_ones.append(model)
            else:
                models[key] = model
        model.begin(answers)
        return model

    yield adapt
    for model in fresh_ones:
        model.host.close()


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The voice of jobs that name none."""
    path = tmp_path_factory.mktemp("reference") / "reference.wav"
    path.write_bytes(voice(150))
    return path


def _spec(name: str, interpreter: str, folder: Path, options: dict[str, Any]) -> EngineSpec:
    manifest = manifests.adapters()[name]
    chosen = {key: option.default for key, option in manifest.options.items()}
    told = {"model": manifest.model, "model_revision": "7", "weights": {}, "threads": 2}
    return EngineSpec(
        engine=manifest.engine,
        interpreter=interpreter,
        options={**told, **chosen, "model_dir": str(folder), **options},
        installed=True,
        folder=manifest.folder,
    )
