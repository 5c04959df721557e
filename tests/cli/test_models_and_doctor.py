"""`tenuto admin models` and `doctor`: what is there, what is missing, and the command that repairs it."""

import shlex
from contextlib import closing
from pathlib import Path

import pytest

from cli.conftest import Operator, rows
from servers.ffmpegs import ffmpeg
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import pending, shipped
from tenuto.features.models import manifest
from tenuto.features.models.additions import additions
from tenuto.features.models.cache import default_cache
from tenuto.host.registry import ENTRIES

pytestmark = pytest.mark.variant("database", only="postgresql")

KOKORO = "hexgrad/Kokoro-82M"


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
    assert ("Apache-2.0", "missing: tenuto models pull") == (
        listed[KOKORO]["licence"],
        listed[KOKORO]["weights"],
    )
    assert "none needed" == fakes["fake/speech"]["weights"]


@pytest.mark.real_engine
def test_pull_and_verify_without_names_mean_what_the_real_engines_need(operator: Operator) -> None:
    """All weights that an enabled model's engine names, each path on stdout; a model's name means its own."""
    needed = sorted({name for entry in ENTRIES for name in entry.weights})
    cache = default_cache()
    pulled = operator("models", "pull", cache=str(cache))
    of_model = operator("models", "pull", KOKORO, cache=str(cache))
    verified = operator("admin", "models", "verify", "kokoro-vocabulary", cache=str(cache))

    assert set(needed) <= set(manifest.shipped().weights)
    assert [str(cache / name) for name in needed] == pulled.stdout.splitlines()
    assert set(pulled.stdout.splitlines()) > set(of_model.stdout.splitlines())
    assert (0, "all weights match the manifest\n") == (verified.returncode, verified.stdout)


def test_verify_names_every_wrong_file_and_fails(operator: Operator, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "text2tashkeel").mkdir(parents=True)
    (cache / "text2tashkeel" / "rawi_v2.vocab.json").write_text("altered")
    done = operator("admin", "models", "verify", "text2tashkeel", "kokoro-vocabulary", cache=str(cache))

    assert (1, "to repair them: tenuto models pull\n") == (done.returncode, done.stderr)
    networks = {"rawi_ensemble.int8.onnx", "rawi_v2.vocab.json", "rawi.int8.onnx", "rawi.vocab.json"}
    assert {*networks, "kokoro-vocabulary"} == {
        Path(line.partition(": ")[0]).name for line in done.stdout.splitlines()
    }


def test_doctor_finds_nothing_on_a_sound_machine(operator: Operator) -> None:
    operator("admin", "accounts", "create", "me")
    done = operator("admin", "doctor", engines="fake")

    assert 0 == done.returncode
    assert {"ok"} == {line.split()[0] for line in done.stdout.splitlines()}


def test_doctor_runs_the_ffmpeg_of_the_settings(operator: Operator) -> None:
    """As the service does, confined; one that is not there is a line with its remedy."""
    operator("admin", "accounts", "create", "me")
    good = operator("admin", "doctor", engines="fake", ffmpeg=ffmpeg())
    bad = operator("admin", "doctor", engines="fake", ffmpeg="/usr/bin/no-such-ffmpeg")

    assert "ffmpeg version" in good.stdout
    assert 0 == good.returncode
    assert "/usr/bin/no-such-ffmpeg does not run → set `ffmpeg`" in bad.stdout
    assert 1 == bad.returncode


def test_every_failing_line_of_doctor_ends_with_its_remedy(operator: Operator, tmp_path: Path) -> None:
    """A folder that others read, no weights; one of the remedies is carried out and mends it."""
    operator.folder.mkdir(mode=0o755)
    operator.folder.chmod(0o755)
    done = operator("admin", "doctor", cache=str(tmp_path / "cache"))
    failing = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    remedies = {line.rpartition(" → ")[2] for line in failing}
    operator.folder.chmod(int(shlex.split(next(r for r in remedies if r.startswith("chmod")))[1], 8))

    assert 1 == done.returncode
    assert {f"chmod 700 {operator.folder}", "tenuto models pull"} == remedies
    assert 0 == operator("admin", "doctor", engines="fake").returncode


def test_doctor_continues_after_a_database_that_this_user_may_not_write(operator: Operator) -> None:
    operator("admin", "accounts", "create", "me")
    turn = operator.folder / "tenuto.db.turn"
    turn.unlink()
    turn.mkdir()
    done = operator("admin", "doctor", engines="fake")
    failing = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]

    assert 1 == done.returncode
    assert 1 == len(failing)
    assert failing[0].endswith("tenuto.db.turn' → let this user read and write it")
    assert "ok    decoders: " in done.stdout
    assert "ok    hosts: " in done.stdout


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

    assert [0, 0, 1] == [done.returncode for done in (fresh, new, waits)]
    for done in (fresh, new):
        assert "ok    database: is empty; the first start makes its tables" in done.stdout
    assert f"answers, but lacks {len(missing)} migrations → tenuto admin migrate" in waits.stdout
    assert len(shipped()) == len(missing)
    assert not is_made


def test_doctor_tells_a_broken_interpreter_a_database_that_is_away_and_settings_that_are_wrong(
    operator: Operator, tmp_path: Path
) -> None:
    file = tmp_path / "tenuto.toml"
    file.write_text('[models."fake/speech"]\ninterpreter = "/nowhere/python"\n')
    broken = operator(
        "admin", "doctor", "--config", str(file), engines="fake", database="postgresql://127.0.0.1:1/tenuto"
    )
    file.write_text('[models."fake/speech"]\ninterpreter = "python3"\n')
    named = operator("admin", "doctor", "--config", str(file), engines="fake")
    wrong = operator("admin", "doctor", port="high", no_such="1")
    failing = [line for line in broken.stdout.splitlines() if line.startswith("FAIL")]

    assert ["database", "fake/speech"] == [line.split()[1].rstrip(":") for line in failing]
    assert [
        "start it, or correct the setting database",
        'correct [models."fake/speech"] interpreter',
    ] == [line.rpartition(" → ")[2] for line in failing]
    assert "fake/speech: python3" not in named.stdout
    assert {"TENUTO_NO_SUCH", "port"} == {line.split(": ")[1] for line in wrong.stdout.splitlines()}
    assert 1 == wrong.returncode == broken.returncode
