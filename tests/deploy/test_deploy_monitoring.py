"""Dashboards and alerts: PromQL that parses, series that are exported, alerts that fire when they should."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """The names of all series that a service and its worker export, after a job."""
    ports = free_port(), free_port()
    service = RunningService(
        tmp_path_factory.mktemp("watched") / "data",
        variables={"TENUTO_METRICS_PORT": str(ports[0]), "TENUTO_WORKER_METRICS_PORT": str(ports[1])},
    )
    service.start()
    service.key = service.make_key(credit="1")
    service.wait(service.submit("Hold the note."))
    texts = [httpx2.get(f"http://127.0.0.1:{port}/metrics").text for port in ports]
    service.stop()
    declared = re.findall(r"^# TYPE (tenuto_\w+) (\w+)$", "".join(texts), re.MULTILINE)
    yield {
        name
        for base, kind in declared
        if not base.endswith("_created")
        for name in ([f"{base}_bucket", f"{base}_count"] if kind == "histogram" else [base])
    }


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_is_promql(name: str) -> None:
    """As Prometheus reads it."""
    assert promql_parser.parse(EXPRESSIONS[name]) is not None


def test_every_series_that_is_named_is_exported_and_looked_at(scraped: set[str]) -> None:
    """Neither alert nor panel waits for a series that nobody exports; none is exported in vain."""
    named = {series for text in EXPRESSIONS.values() for series in re.findall(r"\btenuto_\w+", text)}
    unseen = {name for name in scraped - named if f"{name.removesuffix('_count')}_bucket" not in named}

    assert set() == named - scraped
    assert set() == unseen


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


def test_every_alert_is_explained_and_says_how_urgent_it_is() -> None:
    """docs/operations/monitoring.md has a line for each, and no other."""
    table = MONITORING.split("\n## Alerts\n")[1].split("\n## ")[0]

    assert list(ALERTS) == re.findall(r"^\| `(Tenuto\w+)` \|", table, re.MULTILINE)
    assert {"critical", "warning"} == {rule["labels"]["severity"] for rule in ALERTS.values()}
    assert all(rule["annotations"]["summary"] for rule in ALERTS.values())


def test_the_dashboard_is_one_that_grafana_can_show() -> None:
    """Ids are unique, nothing lies on anything else, every panel asks the data source that is chosen."""
    panels = DASHBOARD["panels"]
    cells = [cell for panel in panels for cell in _cells(panel["gridPos"])]
    sources = {
        json.dumps(each["datasource"])
        for panel in panels
        if panel["type"] != "row"
        for each in (panel, *panel["targets"])
    }

    assert len(panels) == len({panel["id"] for panel in panels})
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert [json.dumps({"type": "prometheus", "uid": "${datasource}"})] == list(sources)
    assert ["datasource"] == [variable["name"] for variable in DASHBOARD["templating"]["list"]]
    assert all(panel["title"] and (panel["type"] == "row" or panel["description"]) for panel in panels)


def _cells(place: dict[str, Any]) -> list[tuple[int, int]]:
    return [
        (x, y)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
