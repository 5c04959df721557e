"""`tenuto admin models add` and `remove`: from a hub of this machine to a model that answers, and back."""

import json
import os
import signal
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.conftest import Operator, rows
from servers import forking
from servers.hub import Hub, Repository, commit_of
from servers.service import RunningService
from tenuto.command import run
from tenuto.config import Settings
from tenuto.config.model_settings import read_models
from tenuto.errors import Fault, OperatorError
from tenuto.features.models import addition_commands as command
from tenuto.features.models.additions import additions
from tenuto.features.models.additions import table_of as written
from tenuto.features.models.cache import default_cache
from tenuto.features.models.manifest import File, HubSource, Weight
from tenuto.host import manifests
from tenuto.kind.model import models

NAME = "qwen2.5-1.5b"
ADDITION = additions()[NAME]
FILE = ADDITION.repository[0].file
REAL = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
JUNK = b"This is no model. " * 100_000
NEWER = b"Nor is this. " * 100_000
TIMEOUT_S = 300


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    file = tmp_path / "junk"
    file.write_bytes(JUNK)
    with Hub() as running:
        running.repositories[ADDITION.repository[0].repository] = Repository(
            commit_of("first"), large={FILE: file}
        )
        yield running


@pytest.fixture
def adding(operator: Operator, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operator:
    """The command line, with that hub and an empty cache."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    return replace(operator, settings={"cache": str(tmp_path / "cache")})


@pytest.fixture
def add(adding: Operator, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command in this process, where a test may replace what the engine answers: Paris."""
    for name in [name for name in os.environ if name.startswith("TENUTO_")]:
        monkeypatch.delenv(name)
    for name, value in adding.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(command, "self_test", lambda *_: "Paris")
    return lambda *options: run(["admin", "models", "add", NAME, "--yes", *options])


def table_of(operator: Operator) -> Any:
    file = operator.folder / "models" / f"{NAME}.toml"
    return tomllib.loads(file.read_text())["models"][ADDITION.model] if file.exists() else None


def weights_in(operator: Operator) -> str:
    listed = {line["model"]: line["weights"] for line in rows(operator("admin", "models", "list"))}
    return listed[ADDITION.model]


def begin(operator: Operator) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [forking.TENUTO, "admin", "models", "add", NAME, "--yes"],
        env=operator.environment(),
        cwd=operator.folder.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.variant("depth")
@pytest.mark.real_engine
def test_a_model_is_added_though_the_first_try_is_killed(adding: Operator, hub: Hub) -> None:
    """SIGKILL in the middle of the download: the same command continues from there, tests the model with one
    question on its engine and enables it; once more changes nothing and asks nobody. The next start offers
    it, and it answers. Removed, it is listed as one that can be added.
    """
    repository = hub.repositories[ADDITION.repository[0].repository]
    repository.large[FILE] = default_cache() / REAL
    hub.stalls = True
    first = begin(adding)
    assert hub.stalled.wait(TIMEOUT_S)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(TIMEOUT_S)
    after_kill = table_of(adding)
    hub.released.set()
    # Half a gigabyte is hashed, and a model loaded.
    words = ("admin", "models", "add", NAME, "--yes", "--json")
    done = forking.complete(words, env=adding.environment(), cwd=adding.folder.parent, timeout=TIMEOUT_S)
    assert 0 == done.returncode, done.stderr
    added, asked = json.loads(done.stdout), len(hub.asked)
    again = adding.json("admin", "models", "add", ADDITION.model)
    service = RunningService(adding.folder, variables={"TENUTO_CACHE": adding.settings["cache"]})
    service.start()
    service.key = service.make_key(credit="1")
    question = {
        "model": ADDITION.model,
        "messages": [{"role": "user", "content": "Say yes."}],
        "max_tokens": 8,
    }
    with service.client() as client:
        answer = client.post("/v1/chat/completions", json=question, timeout=TIMEOUT_S)
    service.stop()
    before_removal = weights_in(adding)
    removed = adding.json("admin", "models", "remove", NAME, "--yes")

    assert after_kill is None
    whole, rest = hub.downloads()
    assert "" == whole and int(rest.removeprefix("bytes=").removesuffix("-")) > 1 << 20
    assert ("added", commit_of("first")) == (added["state"], added["sources"][0]["revision"])
    assert "Paris" in added["self_test"]
    assert ("unchanged", len(hub.asked)) == (again["state"], asked)
    assert 200 == answer.status_code, answer.text
    assert "verified" == before_removal
    assert "removed" == removed["state"]
    assert f"1.1 GB: tenuto admin models add {NAME}" == weights_in(adding)
    assert not (Path(adding.settings["cache"]) / NAME).exists()


def test_a_model_that_fails_its_test_stays_disabled(adding: Operator, hub: Hub) -> None:
    failed = adding("admin", "models", "add", NAME, "--yes")
    downloads = len(hub.downloads())
    again = adding("admin", "models", "add", NAME, "--yes")

    assert (1, 1) == (failed.returncode, again.returncode)
    assert f"{NAME} failed its test and is not enabled: " in failed.stderr
    assert table_of(adding) is None
    assert 1 == downloads == len(hub.downloads())


def test_what_the_first_download_pinned_later_ones_must_match(adding: Operator, hub: Hub) -> None:
    adding("admin", "models", "add", NAME, "--yes")
    removed = adding("admin", "models", "remove", NAME, "--yes")
    hub.sent_instead[FILE] = JUNK[::-1]
    other = adding("admin", "models", "add", NAME, "--yes")
    hub.sent_instead.clear()
    hub.repositories[ADDITION.repository[0].repository].commit = commit_of("second")
    pinned = adding("admin", "models", "add", NAME, "--yes")
    updated = adding("admin", "models", "add", NAME, "--yes", "--update")

    assert 0 == removed.returncode, removed.stderr
    assert "has the SHA-256" in other.stderr
    assert "404" in pinned.stderr
    assert commit_of("second") in updated.stderr
    assert "failed its test" in updated.stderr


@pytest.fixture
def update(add: Callable[..., int], hub: Hub, tmp_path: Path) -> Callable[..., int]:
    assert 0 == add()
    newer = tmp_path / "newer"
    newer.write_bytes(NEWER)
    hub.repositories[ADDITION.repository[0].repository] = Repository(commit_of("second"), large={FILE: newer})
    return lambda: add("--update")


def in_service(operator: Operator) -> tuple[str, bytes]:
    """The revision of the table that enables the model, and the bytes that its engine loads."""
    table = table_of(operator)
    return table["revision"], Path(table["options"]["path"]).read_bytes()


def weights_left(operator: Operator) -> list[str]:
    return sorted(path.name for path in Path(operator.settings["cache"]).glob(f"{NAME}*"))


def ends(error: BaseException) -> Callable[..., str]:
    def end(*_: object) -> str:
        raise error

    return end


@pytest.mark.parametrize(
    ("code", "step", "error"),
    [
        (130, "self_test", KeyboardInterrupt()),
        (1, "bring", OperatorError("the network is lost")),
    ],
    ids=["interrupted in its test", "network lost"],
)
def test_an_update_that_does_not_pass_changes_nothing(
    request: pytest.FixtureRequest, adding: Operator, code: int, step: str, error: BaseException
) -> None:
    """The model stays in service as it was, even after a pull; the next update that passes replaces it, and
    leaves none of the weights before.
    """
    update = request.getfixturevalue("update")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(command, step, ends(error))
        ended = update()
    pulled = run(["models", "pull", ADDITION.model])
    before = in_service(adding)
    updated = update()

    assert (code, 0) == (ended, pulled)
    assert (commit_of("first")[:12], JUNK) == before
    assert (0, commit_of("second")[:12], NEWER) == (updated, *in_service(adding))
    assert 1 == len(weights_left(adding))
    assert "verified" == weights_in(adding)
    assert 0 == run(["admin", "models", "remove", NAME, "--yes"])
    assert ([], None) == (weights_left(adding), table_of(adding))


def test_without_a_terminal_nothing_is_downloaded_unasked(
    adding: Operator, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, and what to add; licence, size, memory, repository, revision were shown. Too small a disk
    and a hub that is away are told at once, with a remedy."""
    done = adding("admin", "models", "add", NAME)
    hub.repositories[ADDITION.repository[0].repository].listed_bytes = 1 << 40
    large = adding("admin", "models", "add", NAME)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    away = adding("admin", "models", "add", NAME, "--yes")

    assert (2, 1, 1) == (done.returncode, large.returncode, away.returncode)
    for shown in (ADDITION.licence.name, "1.8 MB on disk", "1.8 GB", commit_of("first"), "add --yes"):
        assert shown in done.stderr, shown
    assert "the weights need 1099.5 GB" in large.stderr
    assert "the hub cannot be reached" in away.stderr and "HTTPS_PROXY" in away.stderr
    assert [] == hub.downloads()


def test_a_removed_models_own_settings_stay_without_effect(operator: Operator, tmp_path: Path) -> None:
    own = tmp_path / "tenuto.toml"
    own.write_text(f'[models."{ADDITION.model}"]\nthreads = 1\n')
    table = operator.folder / "models" / f"{NAME}.toml"
    table.parent.mkdir(parents=True)
    table.write_text(
        f'[models."{ADDITION.model}"]\nadapter = "llama-gguf"\nrevision = "1"\noptions = {{ path = "/x" }}\n'
    )
    configured = replace(operator, settings={"config": str(own), "cache": str(tmp_path / "cache")})
    before = weights_in(configured)
    removed = configured("admin", "models", "remove", NAME, "--yes")

    assert "none needed" == before
    assert 0 == removed.returncode, removed.stderr
    assert f"1.1 GB: tenuto admin models add {NAME}" == weights_in(configured)


def test_every_model_that_can_be_added_has_an_adapter_that_takes_its_table() -> None:
    settings = Settings(folder=Path("x"))
    for one in additions().values():
        manifest = manifests.adapters()[one.engine]
        weights = [
            Weight("w", one.licence.name, "x", commit_of("x"), (source,), file=File(1, "0" * 64))
            for source in [HubSource(each.repository, commit_of("x"), "{file}") for each in one.repository]
        ]
        accepted = manifest.licence.name if manifest.licence.needs_acceptance else None
        interpreter = "python3" if manifest.own_interpreter else None
        table = written(one, weights, settings, interpreter=interpreter, accepted=accepted)
        faults: list[Fault] = []
        tables = read_models({one.model: json.loads(json.dumps(table))}, faults)

        assert [] == faults, one.name
        assert one.kind == models(msgspec.structs.replace(settings, models=tables))[one.model].kind
