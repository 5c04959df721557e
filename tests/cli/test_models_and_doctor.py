"""`tenuto admin models`, `adapters` and `doctor`: what is there, what is missing, and what repairs it."""

import re
import shlex
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from cli.conftest import Operator, rows
from servers.command_lines import told
from servers.ffmpegs import ffmpeg
from tenuto.config import Settings
from tenuto.config.model_settings import read_models
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import pending, shipped
from tenuto.errors import Fault
from tenuto.features.models import manifest
from tenuto.features.models.adapter_commands import as_table
from tenuto.features.models.additions import additions
from tenuto.features.models.cache import default_cache
from tenuto.host import manifests
from tenuto.host.registry import ENTRIES
from tenuto.kind.model import models

pytestmark = pytest.mark.variant("database", only="postgresql")

KOKORO = "hexgrad/Kokoro-82M"


def failing(stdout: str) -> dict[str, str]:
    """What doctor finds wrong, with its remedy."""
    lines = [line.removeprefix("FAIL  ") for line in stdout.splitlines() if line.startswith("FAIL")]
    return {what: remedy for what, _, remedy in (line.rpartition(" → ") for line in lines)}


def accepted(table: str) -> str:
    return table.replace("# accept_licence", "accept_licence")


def test_models_are_listed_with_licence_and_state_of_their_weights(
    operator: Operator, tmp_path: Path
) -> None:
    """A cache without weights is named with the remedy; real and fake models never stand beside each other.
    Behind the real ones are those that can be added.
    """
    listed = {
        line["model"]: line
        for line in rows(operator("admin", "models", "list", cache=str(tmp_path / "cache")))
    }
    fakes = {line["model"]: line for line in rows(operator("admin", "models", "list", engines="fake"))}
    real = [entry.model for entry in ENTRIES if not entry.fake]

    assert [*real, *(one.model for one in additions().values())] == list(listed)
    assert [entry.model for entry in ENTRIES if entry.fake] == list(fakes)
    kokoro = (listed[KOKORO]["licence"], listed[KOKORO]["weights"])
    assert ("Apache-2.0", "missing: tenuto models pull") == kokoro
    assert "none needed" == fakes["fake/speech"]["weights"]


@pytest.mark.real_engine
def test_pull_and_verify_without_names_mean_what_the_real_engines_need(
    operator: Operator, tmp_path: Path
) -> None:
    """All weights that an enabled model's engine names, each path on stdout; a model's name means its own.
    What is wrong in another cache is named, with the remedy."""
    needed = sorted({name for entry in ENTRIES for name in entry.weights})
    cache = default_cache()
    pulled = operator("models", "pull", cache=str(cache))
    of_model = operator("models", "pull", KOKORO, cache=str(cache))
    verify = ("admin", "models", "verify", "kokoro-vocabulary")
    verified = operator(*verify, cache=str(cache))
    missing = operator(*verify, cache=str(tmp_path / "cache"))

    assert set(needed) <= set(manifest.shipped().weights)
    assert [str(cache / name) for name in needed] == pulled.stdout.splitlines()
    assert set(pulled.stdout.splitlines()) > set(of_model.stdout.splitlines())
    assert (0, "all weights match the manifest\n") == (verified.returncode, verified.stdout)
    assert (1, "to repair them: tenuto models pull\n") == (missing.returncode, missing.stderr)
    assert "kokoro-vocabulary: " in missing.stdout


@pytest.mark.parametrize("every_line", [False, True])
def test_the_table_that_is_printed_is_one_that_is_taken(every_line: bool) -> None:
    """Of every adapter that ships, with and without the lines that may be left out."""
    for name, adapter in manifests.adapters().items():
        text = accepted(as_table(adapter, None))
        if every_line:
            lines = [line.removeprefix("# ") for line in text.splitlines()]
            text = "\n".join(line for line in lines if re.match(r"\[|[\w.]+ = ", line))
        faults: list[Fault] = []
        tables = read_models(tomllib.loads(text)["models"], faults)
        offered = models(Settings(folder=Path("x"), models=tables))

        assert [] == faults, name
        assert adapter.licence.name == offered[adapter.model].entry.licence


def test_adapters_are_listed_and_printed_with_a_path_to_their_interpreter(
    operator: Operator, tmp_path: Path
) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "python").symlink_to(sys.executable)
    listed = {line["adapter"]: line for line in rows(operator("admin", "adapters"))}
    unknown = operator("admin", "adapters", "nope")
    printed = operator("admin", "adapters", "indextts-2.5", "--interpreter", "env/python").stdout
    [table] = tomllib.loads(accepted(printed))["models"].values()

    assert set(manifests.adapters()) == set(listed)
    assert ("yes", "no") == (listed["indextts-2.5"]["accept first"], listed["openai-image"]["accept first"])
    assert "there is no nope; there are diffusers, " in told(unknown)
    assert f"{tmp_path}/env/python" == table["interpreter"]


def test_a_model_whose_licence_is_not_accepted_or_that_lacks_something_is_told(
    operator: Operator, tmp_path: Path
) -> None:
    """`serve` names the licence, its address and what to write, and makes nothing; then doctor tells a file,
    an interpreter and a key that are not there."""
    file = tmp_path / "tenuto.toml"
    adapter = manifests.adapters()["indextts-2.5"]
    text = as_table(adapter, "/nowhere/python")
    server = as_table(manifests.adapters()["openai-speech"], None).replace("# upstream_key", "upstream_key")
    file.write_text(text)
    refused = operator("serve", "--config", str(file), engines="fake")
    [line] = [line for line in refused.stderr.splitlines() if "licence" in line]
    is_made = operator.folder.exists()
    file.write_text(f"{accepted(text)}\n{server}")
    lacking = failing(operator("admin", "doctor", "--config", str(file), engines="fake").stdout)

    assert adapter.licence.url in line and f'accept_licence = "{adapter.licence.name}"' in line
    assert (1, False) == (refused.returncode, is_made)
    for what in (
        "/nowhere/python does not run",
        "path is not there",
        "there is no key in the variable ITS_KEY",
    ):
        assert [told for told in lacking if what in told], what


def test_every_failing_line_of_doctor_ends_with_its_remedy(operator: Operator, tmp_path: Path) -> None:
    """A folder that others read, no weights, no ffmpeg; carried out, the remedies mend it."""
    operator.folder.mkdir(mode=0o755)
    operator.folder.chmod(0o755)
    bad = operator("admin", "doctor", cache=str(tmp_path / "cache"), ffmpeg="/usr/bin/no-such-ffmpeg")
    remedies = failing(bad.stdout)
    chmod = next(remedy for remedy in remedies.values() if remedy.startswith("chmod"))
    operator.folder.chmod(int(shlex.split(chmod)[1], 8))
    operator("admin", "accounts", "create", "me")
    good = operator("admin", "doctor", engines="fake", ffmpeg=ffmpeg())

    assert {chmod, "tenuto models pull"} < set(remedies.values())
    assert "/usr/bin/no-such-ffmpeg does not run → set `ffmpeg`" in bad.stdout
    assert f"chmod 700 {operator.folder}" == chmod
    assert (1, 0) == (bad.returncode, good.returncode) and "ffmpeg version" in good.stdout
    assert {} == failing(good.stdout)


def test_doctor_continues_after_a_database_that_this_user_may_not_write(operator: Operator) -> None:
    operator("admin", "accounts", "create", "me")
    turn = operator.folder / "tenuto.db.turn"
    turn.unlink()
    turn.mkdir()
    done = operator("admin", "doctor", engines="fake")
    [(what, remedy)] = failing(done.stdout).items()

    assert 1 == done.returncode and what.endswith("tenuto.db.turn'")
    assert "let this user read and write it" == remedy
    assert "ok    decoders: " in done.stdout and "ok    hosts: " in done.stdout


def test_doctor_leaves_the_database_as_it_is(operator: Operator, empty_database_url: str) -> None:
    """Where there is none it makes none, so that a restore and a move still find an empty place; who waits
    for migrations is told the command that applies them.
    """
    fresh = operator("admin", "doctor", engines="fake")
    is_made = operator.folder.exists()
    new = operator("admin", "doctor", engines="fake", database=empty_database_url)
    waits = operator("admin", "doctor", engines="fake", database=empty_database_url, migrations="wait")
    with closing(open_database(empty_database_url)) as database:
        missing = pending(database)

    assert ([0, 0, 1], False) == ([done.returncode for done in (fresh, new, waits)], is_made)
    for done in (fresh, new):
        assert "ok    database: is empty; the first start makes its tables" in done.stdout
    assert f"answers, but lacks {len(missing)} migrations → tenuto admin migrate" in waits.stdout
    assert len(shipped()) == len(missing)


def test_doctor_tells_a_broken_interpreter_a_database_that_is_away_and_settings_that_are_wrong(
    operator: Operator, tmp_path: Path
) -> None:
    file = tmp_path / "tenuto.toml"
    file.write_text('[models."fake/speech"]\ninterpreter = "/nowhere/python"\n')
    doctor = ("admin", "doctor", "--config", str(file))
    away = "postgresql://127.0.0.1:1/tenuto"
    broken = failing(operator(*doctor, engines="fake", database=away).stdout)
    wrong = operator("admin", "doctor", port="high", no_such="1")

    assert {"database", "fake/speech"} == {what.partition(":")[0] for what in broken}
    remedies = ["start it, or correct the setting database", 'correct [models."fake/speech"] interpreter']
    assert remedies == list(broken.values())
    assert {"TENUTO_NO_SUCH", "port"} == {line.split(": ")[1] for line in wrong.stdout.splitlines()}
