"""The client for JavaScript: rules by script, flows against the service, kills, types, what is packed."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from servers.callers import ON_ONE_DATABASE, Operator
from servers.service import RunningService

PACKAGE = Path(__file__).parents[2] / "packages" / "tenuto-js"
TESTS = PACKAGE / "tests"
README = (PACKAGE / "README.md").read_text("utf-8")
[SPEAK, *_] = re.findall(r"^```js\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
"""What the README says to save as `speak.mjs`."""

is_built = pytest.mark.skipif(
    shutil.which("node") is None or not (PACKAGE / "dist" / "node.js").exists(),
    reason="the client for JavaScript is not built: `make test` does that if Node.js is installed",
)
pytestmark = is_built


def run(*command: str, folder: Path = PACKAGE, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder, without settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
    return subprocess.run(
        command, cwd=folder, env=kept | variables, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_rules_hold_against_a_service_by_script() -> None:
    """Retries, waits, downloads, the journal and errors, without a network (P2, P9, R19)."""
    done = run("node", "--test", str(TESTS / "rules.test.mjs"))

    assert 0 == done.returncode, done.stdout + done.stderr


@ON_ONE_DATABASE
def test_every_flow_works_against_the_service(
    service: RunningService, operator: Operator, tmp_path: Path
) -> None:
    import soundfile

    recording = tmp_path / "träumerei.flac"
    soundfile.write(recording, [0.01] * 16_000, 16_000, "PCM_16")
    caller = operator.caller(credit="100")
    done = run(
        *("node", str(TESTS / "service.mjs")),
        TENUTO_BASE_URL=service.url,
        TENUTO_API_KEY=caller.key,
        FLAC=str(recording),
    )

    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout)
    spoken, ends = report["speech"], report["ends"]
    assert spoken["announced"] == spoken["saved"] == spoken["read"] and spoken["isSame"]
    assert ["IdempotencyConflict", "idempotency_conflict"] == spoken["conflict"]
    assert ({"a": "b"}, "en", [True]) == (spoken["metadata"], spoken["request"], spoken["found"])
    preview = report["preview"]
    assert len(preview["sequences"]) > 1 and all([*preview["sequences"], *preview["wavs"]])
    assert ("succeeded", True) == (preview["live"], preview["isWhole"])
    assert {"schema": 1, "title": recording.name} == report["recognition"]
    assert {"type": "image/png", "head": "PNG", "seed": "9223372036854775807"} == report["image"]
    assert report["chat"]["whole"] and report["chat"]["usage"]
    assert report["chat"]["whole"] == report["chat"]["streamed"]
    assert ("engine_failed", True) == (ends["failed"], ends["cancelled"])
    assert ["parameters.lang", "parameters.text"] == ends["refused"]
    assert ["NotFound", "not_found"] == ends["missing"]
    account = report["account"]
    assert ("CNY", 1) == (account.pop("currency"), account.pop("ledger")) and all(account.values())
    assert [] == report["journal"]


@pytest.mark.variant("program")
def test_the_types_are_those_of_openapi_yaml_and_refuse_what_the_service_would() -> None:
    generated = run("npm", "run", "--silent", "types", "--", "--check")
    compiled = run("npx", "--offline", "tsc", "--project", "tests")

    assert 0 == generated.returncode, "run `npm run types` in packages/tenuto-js"
    assert 0 == compiled.returncode, compiled.stdout


@pytest.mark.variant("package")
@ON_ONE_DATABASE
def test_the_packed_client_works_alone(service: RunningService, operator: Operator, tmp_path: Path) -> None:
    caller = operator.caller(credit="100")
    archives: list[Path] = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        packed = run("npm", "pack", "--ignore-scripts", "--pack-destination", str(tmp_path / name))
        assert 0 == packed.returncode, packed.stderr
        archives += (tmp_path / name).glob("*.tgz")
    folder = tmp_path / "project"
    folder.mkdir()
    run("npm", "init", "-y", folder=folder)
    [name] = re.findall(r"`node (\S+)`", README)
    installed = run(
        *("npm", "install", "--offline", "--no-audit", "--no-fund", str(archives[0])), folder=folder
    )
    (folder / "speak.mts").write_text(SPEAK, "utf-8")
    (folder / name).write_text(SPEAK, "utf-8")
    packages = PACKAGE / "node_modules"
    compiler = (str(packages / ".bin" / "tsc"), "--noEmit", "--strict", "--module", "nodenext")
    types = ("--skipLibCheck", "--typeRoots", str(packages / "@types"), "--types", "node")
    compiled = run(*compiler, "--target", "es2022", *types, "speak.mts", folder=folder)
    spoken = run(*("node", name), folder=folder, TENUTO_BASE_URL=service.url, TENUTO_API_KEY=caller.key)

    assert archives[0].read_bytes() == archives[1].read_bytes()
    assert 0 == installed.returncode, installed.stderr
    assert 0 == compiled.returncode, compiled.stdout
    assert 0 == spoken.returncode, spoken.stderr
    assert b"RIFF" == (folder / "note.wav").read_bytes()[:4]


def test_the_lock_names_no_host_and_nothing_runs_when_it_is_installed() -> None:
    lock = (PACKAGE / "package-lock.json").read_text("utf-8")

    assert '"resolved"' not in lock
    assert lock.count('"node_modules/') == lock.count('"integrity"')
    assert "ignore-scripts=true" in (PACKAGE / ".npmrc").read_text("utf-8")
