"""Models that `tenuto admin models add` brings to adapters in a Python of their own: stand-ins of packages,
and a hub of this machine.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import forking
from servers.hub import Hub, Repository, commit_of
from tenuto.config import load
from tenuto.features.models.additions import Addition, additions

SENTENCE = "There is a garden behind the old library."
TIMEOUT_S = 300
LARGE = (".safetensors", ".gguf", ".onnx")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """It has every file that the list names, where a pattern stands for several one of them."""
    large = tmp_path / "weights"
    large.write_bytes(b"numbers")
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    with Hub() as running:
        for one in additions().values():
            for repository in one.repository:
                names = [pattern.replace("*", "model") for pattern in repository.patterns]
                running.repositories[repository.repository] = Repository(
                    commit_of(repository.repository),
                    large={name: large for name in names if name.endswith(LARGE)},
                    small={name: b"{}" for name in names if name.endswith((".json", ".txt"))},
                )
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def add(folder: Path, name: str, *more: str) -> "subprocess.CompletedProcess[str]":
    folder.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
    places = {"TENUTO_DATA": str(folder / "data"), "TENUTO_CACHE": str(folder / "cache")}
    line = ["admin", "models", "add", name, "--yes", *more]
    return forking.complete(line, env={**environment, **places}, cwd=folder, timeout=TIMEOUT_S)


def added(folder: Path, one: Addition, *more: str) -> Any:
    """What the command prints of a model that is added."""
    done = add(folder, one.name, *more, "--json")
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def test_a_recogniser_of_two_repositories_is_added_once_it_transcribes(
    hub: Hub, interpreter: str, tmp_path: Path
) -> None:
    """Each at a commit of its own, its small files with hashes that were made here; the transcript of one
    recorded sentence is printed.
    """
    one = additions()["qwen3-asr-0.6b"]
    recogniser = hub.repositories[one.repository[0].repository]
    recogniser.small["answers.json"] = json.dumps([SENTENCE]).encode()
    result = added(tmp_path / "good", one, "--interpreter", interpreter)
    settings = load({}, options={"folder": tmp_path / "good" / "data"}).models[one.model]

    assert SENTENCE in result["self_test"]
    assert [commit_of(each.repository) for each in one.repository] == [
        source["revision"] for source in result["sources"]
    ]
    assert settings.adapter is not None
    assert {"model_dir", "aligner_dir"} == set(settings.adapter.options)
    assert interpreter == settings.interpreter


def test_a_model_that_draws_is_added_with_its_licence(hub: Hub, interpreter: str, tmp_path: Path) -> None:
    """Where the licence must be accepted, --yes does not accept it: exit code 2, with what to write. Files
    that the list does not name are not downloaded.
    """
    one = additions()["sd-turbo"]
    repository = hub.repositories[one.repository[0].repository]
    repository.small["model_index.json"] = json.dumps({"_class_name": "ZImagePipeline"}).encode()
    repository.large["pytorch_model.bin"] = tmp_path / "weights"
    unread = add(tmp_path, one.name, "--interpreter", interpreter)
    wrong = add(tmp_path, one.name, "--interpreter", interpreter, "--accept-licence", "another")
    result = added(tmp_path, one, "--interpreter", interpreter, "--accept-licence", one.licence.name)

    assert (2, True) == (unread.returncode, "--accept-licence" in unread.stderr)
    assert (2, True) == (wrong.returncode, one.licence.url in wrong.stderr)
    assert result["self_test"].startswith("image/png, ")
    assert not (tmp_path / "cache" / one.name / "pytorch_model.bin").exists()
