"""`tenuto uninstall`: what lies where, and that only what was asked for goes, and only what is ours."""

import json
from pathlib import Path

import pytest

from cli.conftest import run
from servers.command_lines import told
from servers.service import RunningService
from servers.terminals import at_a_terminal
from tenuto.command.common import readable_size
from tenuto.features.help.uninstall import of_root


@pytest.fixture
def used(home: Path) -> Path:
    files = {
        ".cache/tenuto/.verified/old-model.json": "{}",
        ".cache/tenuto/.compiled/decoder.compiled": "x",
        ".cache/tenuto/old-model/part": "x" * 2000,
        ".cache/tenuto/pictograms/a.png": "x",
        ".config/tenuto/credentials.json": "{}",
        ".local/state/tenuto/journal/abc.1.journal": "{}",
        ".local/share/bash-completion/completions/tenuto": "x",
        ".local/share/bash-completion/completions/other": "x",
        ".cache/Microsoft/DeveloperTools/.onnxruntime/deviceid": "x",
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return home


@pytest.fixture
def data(used: Path, tmp_path: Path) -> Path:
    """A data folder in which a service has run, and one file of somebody else's."""
    folder = tmp_path / "data"
    made = run("admin", "accounts", "create", "ann", "--data", str(folder))
    assert made.returncode == 0, made.stderr
    (folder / "blobs" / "0c").mkdir(parents=True)
    (folder / "blobs" / "0c" / "blob").write_text("bytes")
    (folder / "notes.txt").write_text("mine")
    return folder


def test_it_says_what_lies_where_and_removes_nothing(used: Path, data: Path) -> None:
    before = sorted(used.rglob("*")) + sorted(data.rglob("*"))
    done = run("uninstall", "--json", TENUTO_DATA=str(data))
    found = {each["what"]: each for each in json.loads(done.stdout)}
    people = run("uninstall", TENUTO_DATA=str(data), LC_ALL="zh_CN.UTF-8")
    after = sorted(used.rglob("*")) + sorted(data.rglob("*"))

    assert ["--data", "--cache", "--all", "--all", "--all"] == [
        found[name]["option"] for name in ("data", "weights", "logins", "journal", "completion")
    ]
    assert f"{used}/.cache/Microsoft/DeveloperTools/.onnxruntime" == found["left by a library"]["path"]
    assert str(data) == found["data"]["path"] and 2004 == found["weights"]["size_bytes"]
    assert "数据\t" in people.stdout and "没有删除任何东西" in people.stderr
    assert before == after


def test_only_what_is_asked_for_goes_and_only_what_is_ours(used: Path, data: Path) -> None:
    cache = run("uninstall", "--cache", "--yes", TENUTO_DATA=str(data))
    gone, kept = (used / ".cache/tenuto").exists(), (data / "tenuto.db").exists()
    other = data.parent / "other"
    (other / "blobs").mkdir(parents=True)
    foreign = run("uninstall", "--data", str(other), "--yes")
    rest = run("uninstall", "--all", "--yes", TENUTO_DATA=str(data))
    again = run("uninstall", "--json", TENUTO_DATA=str(data))

    assert (0, False, True) == (cache.returncode, gone, kept), cache.stderr
    assert f"removed: {used}/.cache/tenuto (2.0 KB)\n" == cache.stdout
    assert 0 == rest.returncode, rest.stderr
    assert "Nothing was removed." in foreign.stderr and (other / "blobs").is_dir()
    assert ["notes.txt"] == [path.name for path in data.iterdir()]
    assert f"left in {data}, for it is not Tenuto's: notes.txt" in rest.stderr
    assert f"not removed: {used}/.cache/Microsoft/DeveloperTools/.onnxruntime" in rest.stderr
    assert {
        ".cache/Microsoft/DeveloperTools/.onnxruntime/deviceid",
        ".local/share/bash-completion/completions/other",
    } == {str(path.relative_to(used)) for path in used.rglob("*") if path.is_file()}
    assert not [each for each in json.loads(again.stdout) if each["option"] is not None]


def test_it_asks_first(used: Path, data: Path) -> None:
    script = run("uninstall", "--data", str(data))
    answers = {}
    for answer in (b"\n", b"y\n"):
        code, shown = at_a_terminal(answer, "uninstall", "--data", str(data))
        answers[answer] = (code, (data / "tenuto.db").exists())

    assert 1 == script.returncode and "add --yes" in script.stderr
    assert {b"\n": (1, True), b"y\n": (0, False)} == answers
    assert "tenuto admin backup DIR" in shown


def test_it_is_refused_while_a_service_runs(used: Path, tmp_path: Path) -> None:
    service = RunningService(tmp_path / "served", variables={"XDG_STATE_HOME": str(used / ".local/state")})
    service.start()
    words = ("uninstall", "--cache", "--data", str(service.folder), "--yes")
    refused = [told(run(*words)), told(run("uninstall", "--all", "--yes", TENUTO_DATA=words[3]))]
    service.stop()
    done = run(*words)

    assert [f"a service is running on {words[3]}; stop it first. Nothing was removed"] * 2 == refused
    assert 0 == done.returncode, done.stderr
    assert not service.folder.exists() and not (used / ".cache/tenuto").exists()


def test_what_root_has_installed_is_listed_alone(tmp_path: Path) -> None:
    for name in ("etc/systemd/system/tenuto-serve.service", "etc/systemd/system/cron.service"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "var/lib/tenuto").mkdir(parents=True)
    found = [(str(each.path.relative_to(tmp_path)), each.option) for each in of_root(tmp_path)]

    assert [("etc/systemd/system/tenuto-serve.service", None), ("var/lib/tenuto", None)] == found
    assert ["999 B", "1.5 KB", "886.6 MB", "2.0 GB"] == [
        readable_size(size) for size in (999, 1500, 886_580_000, 2_000_000_000)
    ]
