"""The files of deploy/ against their schemas, and every figure in them against the program's own."""

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import check_jsonschema
import pytest
from jsonschema import Draft202012Validator

from deploy.manifests import documents, pods
from deploy.proxies import CADDY, DEPLOY
from servers.command_lines import fault_of
from servers.service import TENUTO
from tenuto import config
from tenuto.api.limits import HttpLimits
from tenuto.config import Settings, declarations
from tenuto.errors import PayloadTooLarge, Unavailable
from tenuto.features.chat.settings import ChatSettings
from tenuto.file.inputs import MAX_INPUT_BYTES
from tenuto.host.registry import ENTRIES

ROOT = DEPLOY.parent
SETTINGS = Settings(Path("data"))
HTTP = HttpLimits()
MIB = 1 << 20
CLOSING_S = 30
"""What a worker takes at most to close, beyond its jobs: upkeep 10, audit 10, heartbeat 5, sockets 5."""
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = sorted((DEPLOY / "compose").glob("*.yaml"))


def test_nothing_is_killed_before_it_has_drained() -> None:
    """The grace of every supervisor is longer than what the program takes by its own settings (P19)."""
    worker_s = SETTINGS.drain_s + SETTINGS.host_grace_s + CLOSING_S
    serve_s = HTTP.grace_s + SETTINGS.drain_s + SETTINGS.host_grace_s + 20
    api_s = HTTP.grace_s + 25
    needed = {"api": api_s, "worker": max(worker_s, serve_s), "serve": max(worker_s, serve_s)}
    graces = []
    for unit in UNITS:
        text = unit.read_text("utf-8")
        if found := re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE):
            graces.append((unit.name, command_of(text), int(found[1])))
    for path in COMPOSE:
        [composed] = documents(path)
        graces += [
            (f"{path.name} {name}", each["command"][0], int(each["stop_grace_period"].removesuffix("s")))
            for name, each in composed["services"].items()
            if each.get("command", [""])[0] in needed
        ]
    for name, pod in pods():
        [container] = pod["containers"]
        if container["args"][0] in needed:
            before_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            graces.append((name, container["args"][0], pod["terminationGracePeriodSeconds"] - before_s))

    assert 12 == len(graces)
    assert not [(name, grace_s) for name, command, grace_s in graces if grace_s < needed[command]]
    assert all(
        "\nKillMode=mixed\n" in unit.read_text("utf-8") for unit in UNITS if "migrate" not in unit.name
    )


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_what_systemd_takes_and_expose_little(unit: Path, tmp_path: Path) -> None:
    """`systemd-analyze verify` says nothing; `security` finds no more exposed than 2 of 10."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text("utf-8").replace("/opt/tenuto/.venv/bin/tenuto", TENUTO))
    beside = [shutil.copy(other, tmp_path) for other in UNITS if other != unit]
    verified = subprocess.run(
        [program, "verify", "--man=no", "--recursive-errors=no", str(copy)], capture_output=True, text=True
    )
    secure = subprocess.run(
        [program, "security", "--offline=true", "--threshold=20", str(copy)], capture_output=True, text=True
    )

    assert (0, "") == (verified.returncode, verified.stderr)
    assert 0 == secure.returncode, secure.stdout[-300:]
    assert len(UNITS) - 1 == len(beside)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_let_decoders_be_confined(unit: Path) -> None:
    """The system calls with which a process gives up its rights are allowed, also by systemd 252, whose
    @system-service lacks them (P12).
    """
    program = shutil.which("systemd-analyze")
    if program is None or "migrate" in unit.name:
        pytest.skip("no systemd-analyze here, or nothing to decode")
    listed = subprocess.run([program, "syscall-filter"], capture_output=True, text=True, check=True).stdout
    groups = {
        lines[0]: {line.strip() for line in lines[1:]}
        for lines in (group.splitlines() for group in re.split(r"\n(?=@)", "\n" + listed)[1:])
    }
    filters = re.findall(r"^SystemCallFilter=(.*)$", unit.read_text("utf-8"), re.MULTILINE)
    allowed = {name for line in filters for name in line.split()}
    while named := allowed & groups.keys():
        allowed = (allowed - named).union(*(groups[name] for name in named))

    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"} <= allowed
    assert {"accept4", "openat", "clone3"} <= allowed


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_files_fit_the_specification(path: Path) -> None:
    schema = files(check_jsonschema) / "builtin_schemas" / "vendor" / "compose-spec.json"
    [composed] = documents(path)
    Draft202012Validator(json.loads(schema.read_text("utf-8"))).validate(composed)
    named = set(composed["volumes"])
    for name, service in composed["services"].items():
        sources = [volume.split(":")[0] for volume in service.get("volumes", [])]

        assert service["image"].startswith("${TENUTO_IMAGE:-") == ("build" in service), name
        assert (path.parent / service.get("build", {}).get("context", ".")).is_dir(), name
        assert set(service.get("networks", [])) <= set(composed["networks"]), name
        assert all((path.parent / place).exists() for place in sources if place.startswith(".")), name
        assert {place for place in sources if not place.startswith(".")} <= named, name
        assert set(service.get("depends_on", {})) <= set(composed["services"]), name


def test_variables_and_settings_of_all_shapes_are_ones_that_there_are() -> None:
    """Every TENUTO_ variable, and every file of settings, loads; every command is one; every model is one."""
    texts = {path: path.read_text("utf-8") for path in DEPLOY.rglob("*") if path.is_file()}
    named = {
        name
        for path, text in texts.items()
        for name in re.findall(r"\b(TENUTO_[A-Z0-9_]+)(?:=|:)", text)
        if path.parent.name != "caddy"
    } - {"TENUTO_CONFIG", "TENUTO_IMAGE", "TENUTO_SITE", "TENUTO_UPSTREAM"}
    settings = {f"TENUTO_{name.upper()}" for name in declarations()} | {
        "TENUTO_DATA",
        "TENUTO_LOG",
    }
    models = {entry.model for entry in ENTRIES}
    given = [
        model
        for text in texts.values()
        for each in re.findall(r"--models\"?, \"([^\"]+)\"", text)
        for model in each.split(",")
    ]
    lines = [words_of(unit.read_text("utf-8")) for unit in UNITS]
    lines += [pod["containers"][0]["args"] for _, pod in pods()]
    lines += [
        service["command"]
        for path in COMPOSE
        for composed in documents(path)
        for service in composed["services"].values()
        if "build" in service and "command" in service
    ]

    assert named <= settings
    assert {path for path in texts if path.suffix == ".toml"} == {
        path for path in texts if path.suffix == ".toml" and config.load({}, file=path)
    }
    assert len(given) == 10
    assert set(given) <= models
    assert 18 == len(lines)
    assert [] == [(line, fault) for line in lines if (fault := fault_of(line)) is not None]


def test_the_proxies_limits_are_the_programs() -> None:
    """Bodies, heads, patience, idle connections; what a proxy answers itself says what the program would."""
    nginx = (DEPLOY / "nginx" / "tenuto.conf").read_text("utf-8")
    passed = (DEPLOY / "nginx" / "tenuto.proxy").read_text("utf-8")
    caddy = (DEPLOY / "caddy" / "Caddyfile").read_text("utf-8")
    bodies = [
        int(size)
        for path in [*(DEPLOY / "nginx").iterdir(), *(DEPLOY / "caddy").iterdir()]
        for size in re.findall(
            r"(?:client_max_body_size|max_size) (\d+)(?:m;|MiB\n)", path.read_text("utf-8")
        )
    ]
    too_large = PayloadTooLarge(f"the body may have at most {MAX_INPUT_BYTES} bytes")

    assert [MAX_INPUT_BYTES // MIB + 1] * 4 == bodies
    assert f"large_client_header_buffers 4 {HTTP.head_bytes // 1024}k;" in nginx
    assert f"max_header_size {HTTP.head_bytes // 1024}KiB" in caddy
    assert f"client_header_timeout {SETTINGS.slow_head_s}s;" in nginx
    assert f"read_header {SETTINGS.slow_head_s}s" in caddy
    assert f"send_timeout {SETTINGS.slow_reader_s}s;" in nginx
    # A chat's first word may take its whole time, and the proxy must not be the first to go.
    limit_s = SETTINGS.of(ChatSettings).chat_timeout_s
    for text, pattern in ((passed, r"proxy_read_timeout (\d+)s"), (caddy, r"response_header_timeout (\d+)s")):
        assert [limit_s + 60] == [int(seconds) for seconds in re.findall(pattern, text)]
    for text, pattern in ((nginx, r"keepalive_timeout (\d+)s"), (caddy, r"keepalive (\d+)s")):
        assert [s for s in re.findall(pattern, text) if int(s) < HTTP.keep_alive_s]
    for text in (nginx, caddy):
        assert f'"message":"{too_large.message}"' in text
        assert f'"code":"{too_large.code}"' in text
        assert f'"code":"{Unavailable().code}"' in text


def test_caddy_takes_its_files_as_they_are_shipped() -> None:
    """Validated and formatted by Caddy itself; nginx tests its own in `test_deploy_proxies`."""
    if not CADDY.exists():
        pytest.skip("no caddy here")
    shipped = DEPLOY / "caddy" / "Caddyfile"
    said = subprocess.run(
        [CADDY, "adapt", "--validate", "--config", shipped], capture_output=True, text=True, cwd=ROOT
    )
    formatted = [
        subprocess.run([CADDY, "fmt", path], capture_output=True, text=True).stdout == path.read_text("utf-8")
        for path in (DEPLOY / "caddy").iterdir()
    ]

    assert 0 == said.returncode, said.stderr
    assert [True, True] == formatted


def command_of(unit: str) -> str:
    """The command of `tenuto` that a unit runs."""
    return words_of(unit)[0]


def words_of(unit: str) -> list[str]:
    """All that stands behind `tenuto` in a unit."""
    found = re.search(r"^ExecStart=\S+/tenuto (.+)$", unit, re.MULTILINE)
    assert found is not None
    return found[1].replace("%i", "8080").split()
