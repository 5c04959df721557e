"""The documents' tables are held against what they speak of, so that neither changes alone."""

import json
import re
from pathlib import Path

import pytest
from scripts import settings_table

import tenuto_kokoro
from tenuto import config
from tenuto.features.speech.parameters import Numbers
from tenuto.features.telemetry.metrics import ERRORS
from tenuto.host.registry import ENTRIES
from tenuto.kind.kinds import kinds
from tenuto.kind.model import models
from tenuto.rules import Boolean, Choice, Integer, Number, Rule, Text, Texts

ROOT = Path(__file__).parents[1]
RUNNING = (ROOT / "docs" / "operations" / "running.md").read_text("utf-8")
SPEECH = (ROOT / "docs" / "speech.md").read_text("utf-8")
SERVICE = ROOT / "packages" / "tenuto" / "src" / "tenuto"
SOURCES = {path: path.read_text("utf-8") for path in SERVICE.rglob("*.py")}


def test_the_table_of_settings_is_that_of_their_declarations() -> None:
    """docs/operations/running.md; `python scripts/settings_table.py` writes it."""
    assert settings_table.table() == settings_table.written(RUNNING)
    assert settings_table.model_table() == settings_table.written(RUNNING, settings_table.MODEL_HEAD)


def test_every_documented_variable_is_read(tmp_path: Path) -> None:
    """A value of each variable arrives in its setting."""
    table = [(name, variable) for name, variable, *_ in rows(RUNNING, "## Settings") if name != "models"]
    numbers = {name for name, one in config.declarations().items() if isinstance(one.rule, Integer | Number)}
    given = {variable: "7" if name in numbers else "" for name, variable in table}
    given |= {"TENUTO_DATA": "here", "TENUTO_CACHE": "there", "TENUTO_ENGINES": "fake", "TENUTO_LOG": "error"}
    given |= {"TENUTO_DATABASE": "sqlite:///other.db", "TENUTO_BLOBS": "directory", "TENUTO_SILENCE_S": "30"}
    given |= {"TENUTO_HOST": "::1", "TENUTO_METRICS_HOST": "::1", "TENUTO_REGISTRATION": "closed"}
    given |= {"TENUTO_PUBLIC_URL": "https://[::1]:8443", "TENUTO_TRUSTED_PROXIES": "::1, 10.0.0.0/8"}
    given |= {"TENUTO_INITIAL_CREDIT": "0.5", "TENUTO_MIGRATIONS": "wait", "TENUTO_BASE_PATH": "/a/b"}
    given |= {"TENUTO_S3_ENDPOINT": "http://[::1]:8333", "TENUTO_S3_REGION": "eu-central-1"}
    given |= {"TENUTO_S3_ADDRESSING": "virtual", "TENUTO_S3_CA_FILE": "/etc/ca.pem", "TENUTO_PULL": "never"}
    given |= {"TENUTO_PRICES": "free", "TENUTO_OPENAI_ROUTES": "off", "TENUTO_CORS_ORIGINS": "*"}
    given |= {"TENUTO_LOG_FORMAT": "json", "TENUTO_WEBHOOKS": "public", "TENUTO_LOW_BALANCE": "2.5"}
    given |= {"TENUTO_FFMPEG": "/usr/bin/ffmpeg", "TENUTO_OTLP_ENDPOINT": "http://[::1]:4318"}
    given |= {"TENUTO_MCP": "on", "TENUTO_SCRATCH_MIB": "700"}
    loaded = settings_table.values(config.load(given))
    kept = {variable: loaded[name] for name, variable in table}

    assert not [
        variable for variable, value in given.items() if str(kept[variable]).removesuffix(".0") != value
    ]


def test_the_documented_file_of_settings_is_sound(tmp_path: Path) -> None:
    """The TOML example loads, and shows every setting of a model."""
    [example] = re.findall(r"^```toml\n(.*?)^```$", RUNNING, re.MULTILINE | re.DOTALL)
    (tmp_path / "tenuto.toml").write_text(example)
    loaded = config.load({}, file=tmp_path / "tenuto.toml")

    assert {"hexgrad/Kokoro-82M", "example/large-chat", "acme/images"} < set(loaded.models)
    assert {"acme/images", "acme/dual-recognition"} < set(models(loaded))
    assert set(config.model_settings.DECLARED) == set(
        re.findall(r"^(\w+) =", example.partition("[models")[2], re.MULTILINE)
    )


_LOGGED = re.compile(
    r'(?:log(?:\(\))?\.(?!get_logger)\w+\(|log_failure\(\w+(?:\(\))?,)\s*"([a-z_]+\.[a-z_]+)"'
)


def test_every_event_of_the_log_and_every_metric_is_documented() -> None:
    """Names in the code are names in the tables, and the other way round."""
    logged = {name for text in SOURCES.values() for name in _LOGGED.findall(text)}

    assert logged == {name for row in rows(RUNNING, "## Logs") for name in row[0].replace("`", "").split()}
    assert exported() == {row[0] for row in rows(RUNNING, "## Metrics")}
    assert set(ERRORS) == {
        name
        for row in rows(RUNNING, "## Logs")
        if row[1] == "error"
        for name in row[0].replace("`", "").split()
    }


def exported() -> set[str]:
    """Every metric that a process exports, by the name that Prometheus stores it under, but for `_bucket`."""
    text = "".join(SOURCES.values())
    counters = {f"{name}_total" for name in re.findall(r'\bCounter\(\s*"(\w+)"', text)}
    gauges = set(re.findall(r'\b(?:Gauge|GaugeMetricFamily|Histogram)\(\s*"(\w+)"', text))
    return counters | gauges | set(re.findall(r'(?<!Counter)\("(tenuto_\w+)", "[A-Z]', text))


@pytest.mark.parametrize(
    ("kind", "page", "heading", "left_out"),
    [
        ("speech", "speech", "## Parameters", "none"),
        ("recognition", "recognition", "## Recognise", "none"),
        ("image", "images", "## Parameters", "the model's"),
    ],
)
def test_every_parameter_is_documented_with_its_bounds_and_default(
    kind: str, page: str, heading: str, left_out: str
) -> None:
    """The table of a kind's page against its declaration, in its order."""
    parameters = kinds()[kind].fields
    document = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    table = {name: (values, default) for name, values, default, *_ in rows(document, heading)}
    defaults = {
        field.name: "required"
        if field.required
        else left_out
        if field.default is None
        else json.dumps(field.default)
        for field in parameters
    }
    # A seed has a sentence of its own.
    defaults |= {"seed": "drawn when the job is accepted"} if "seed" in defaults else {}

    assert [field.name for field in parameters] == list(table)
    assert defaults == {name: default for name, (_, default) in table.items()}
    assert not [(f.name, table[f.name][0]) for f in parameters if bounds(f.rule) not in table[f.name][0]]


def test_speech_documents_say_what_the_model_honours() -> None:
    """The engine, its manifest and the table agree on every parameter."""
    table = {row[0]: row[3] for row in rows(SPEECH, "## Parameters")}
    honoured = {name for name, said in table.items() if said.startswith("honoured")}
    ignored = {name for name, said in table.items() if said.startswith("changes nothing: ")}
    [kokoro] = [entry for entry in ENTRIES if entry.kind == "speech" and not entry.fake]

    assert honoured == set(kokoro.honoured) == set(tenuto_kokoro.HONOURED)
    assert ignored == set(tenuto_kokoro.NOT_HONOURED)
    assert honoured | ignored == set(table)


def test_no_command_makes_its_idempotency_key_as_it_runs() -> None:
    """Run again it would be new work, with a charge of its own; and not every machine has `uuidgen`."""
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("README*.md")]

    assert not [page.name for page in pages if re.search(r"Idempotency-Key: \$\(", page.read_text("utf-8"))]


def rows(document: str, heading: str) -> list[list[str]]:
    """The first table under a heading, without its own headings; a cell that is one code word is bared."""
    section = document.split(f"\n{heading}\n")[1].partition("\n## ")[0]
    table = re.search(r"^\|.*?(?=\n\n|\Z)", section, re.MULTILINE | re.DOTALL)
    assert table is not None
    cells = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in table[0].splitlines()[2:]]
    return [[re.sub(r"^`([^`]*)`$", r"\1", cell.strip()) for cell in row] for row in cells]


def bounds(rule: Rule) -> str:
    """How a rule's bounds are written."""
    match rule:
        case Boolean():
            return "true, false"
        case Choice(values):
            return ", ".join(values)
        case Integer(low, high) | Number(low, high):
            step = rule.step if isinstance(rule, Integer) else 1
            return f"{low} to {high}" + (f", a multiple of {step}" if step > 1 else "")
        case Numbers(length, low, high):
            return f"{length} numbers from {low} to {high}"
        case Text(maximum, measure):
            return f"1 to {maximum} bytes" if measure == "bytes" else f"up to {maximum} characters"
        case Texts(most, item):
            return f"up to {most}, each {bounds(item)}"
    raise AssertionError(rule)
