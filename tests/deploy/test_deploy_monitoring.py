"""Dashboards and alerts: PromQL that parses, series that are exported, alerts that fire when they should."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import promql_parser
import pytest
import yaml

from deploy.proxies import DEPLOY
from servers.ports import free_port
from servers.service import RunningService
from tenuto import config
from tenuto.api.app import routes_of
from tenuto.features.telemetry.api_metrics import CAUSES, LIMITS

ROOT = DEPLOY.parent
RULES = DEPLOY / "prometheus" / "tenuto.rules.yaml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "tenuto.json").read_text("utf-8"))
MONITORING = (ROOT / "docs" / "operations" / "monitoring.md").read_text("utf-8")
RUNNING = (ROOT / "docs" / "operations" / "running.md").read_text("utf-8")
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    for rule in group["rules"]
}
EXPRESSIONS = {
    **{name: rule["expr"] for name, rule in ALERTS.items()},
    **{
        f"panel {panel['title']} {target['refId']}": target["expr"].replace("$__rate_interval", "5m")
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", [])
    },
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service whose API and worker each have a port for their metrics."""
    ports = {name: str(free_port()) for name in ("TENUTO_METRICS_PORT", "TENUTO_WORKER_METRICS_PORT")}
    service = RunningService(tmp_path_factory.mktemp("watched") / "data", variables=ports)
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def scraped(watched: RunningService) -> set[str]:
    """The names of all series that a service and its worker export, after a job."""
    watched.key = watched.make_key(credit="1")
    watched.wait(watched.submit("Hold the note."))
    texts = [httpx2.get(f"http://127.0.0.1:{port}/metrics").text for port in watched.variables.values()]
    declared = re.findall(r"^# TYPE (tenuto_\w+) (\w+)$", "".join(texts), re.MULTILINE)
    return {
        name
        for base, kind in declared
        if not base.endswith("_created")
        for name in ([f"{base}_bucket", f"{base}_count"] if kind == "histogram" else [base])
    }


def test_every_expression_is_promql() -> None:
    for name, expression in EXPRESSIONS.items():
        assert promql_parser.parse(expression) is not None, name


def test_every_series_that_is_named_is_exported_and_looked_at(scraped: set[str]) -> None:
    """Neither alert nor panel waits for a series that nobody exports; none is exported in vain."""
    named = {series for text in EXPRESSIONS.values() for series in re.findall(r"\btenuto_\w+", text)}
    unseen = {name for name in scraped - named if f"{name.removesuffix('_count')}_bucket" not in named}

    assert set() == named - scraped
    assert set() == unseen


def test_the_health_check_asks_whoever_listens(watched: RunningService) -> None:
    """The API of a container that has one, else its worker; without either it fails and says so."""
    worker = {"TENUTO_METRICS_PORT": str(free_port())}
    nobody = worker | {"TENUTO_WORKER_METRICS_PORT": str(free_port())}
    api, behind, gone = (health({**watched.variables, **other}) for other in ({}, worker, nobody))

    assert [(0, "200")] * 2 == [(done.returncode, done.stdout.split(" ")[0]) for done in (api, behind)]
    assert (1, "neither an API nor a worker listens here\n") == (gone.returncode, gone.stdout)


def health(variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """The image's health check in a container with these variables."""
    command = [sys.executable, "-I", str(DEPLOY / "container" / "ready.py")]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)


def test_every_label_that_is_asked_for_can_be_there() -> None:
    """Limits, routes and events are ones of the program's; a slip would be an alert that never comes."""
    table = RUNNING.split("\n## Logs\n")[1].split("\n## ")[0]
    events = set(re.findall(r"`([a-z_]+\.[a-z_]+)`", table))
    asked = {
        (label, value)
        for text in EXPRESSIONS.values()
        for label, matcher, values in re.findall(r'(\w+)(=~?)"([^"]+)"', text)
        for value in (values.split("|") if matcher == "=~" else [values])
    }
    plain = {
        "limit": set(LIMITS),
        "route": set(routes_of(config.load({}))),
        "level": {"info", "warning", "error"},
        "status": {"500"},
        "cause": set(CAUSES),
        "job": {"tenuto.*"},
    }
    strange = [
        (label, value)
        for label, value in asked
        if not (
            any(re.fullmatch(value.replace("\\\\", "\\"), event) for event in events)
            if label == "event"
            else value in plain[label]
        )
    ]

    assert len(asked) > 20
    assert [] == strange


def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    """Prometheus' own tool checks the rules, and runs them on series that are written down."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool here; it is in Debian's package prometheus")
    told = (Path(__file__).parent / "alerts.yaml").read_text("utf-8").replace("RULES", str(RULES))
    (tmp_path / "alerts.yaml").write_text(told)
    shutil.copy(RULES, tmp_path)
    shutil.copy(DEPLOY / "prometheus" / "prometheus.yaml", tmp_path)
    runs = [
        subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True)
        for arguments in (
            ("check", "rules", RULES.name),
            ("check", "config", "prometheus.yaml"),
            ("test", "rules", "alerts.yaml"),
        )
    ]

    assert [0, 0, 0] == [done.returncode for done in runs], runs[2].stdout
