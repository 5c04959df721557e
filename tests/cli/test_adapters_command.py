"""`tenuto admin adapters`: what there is, and tables that need nothing but paths; licences at the door."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from cli.conftest import Operator, rows
from servers.command_lines import told
from tenuto.config import Settings
from tenuto.config.model_settings import read_models
from tenuto.features.models.adapter_commands import as_table
from tenuto.host import manifests
from tenuto.kind.model import models


def accepted(table: str) -> str:
    """The table once its licence was read."""
    return table.replace("# accept_licence", "accept_licence")


@pytest.mark.parametrize("every_line", [False, True])
def test_the_table_that_is_printed_is_one_that_is_taken(every_line: bool) -> None:
    """Of every adapter that ships, with and without the lines that may be left out."""
    for name, manifest in manifests.adapters().items():
        text = accepted(as_table(manifest, None))
        if every_line:
            lines = [line.removeprefix("# ") for line in text.splitlines()]
            text = "\n".join(line for line in lines if re.match(r"\[|[\w.]+ = ", line))
        faults: list[str] = []
        tables = read_models(tomllib.loads(text)["models"], faults)
        offered = models(Settings(folder=Path("x"), models=tables))

        assert [] == faults, name
        assert manifest.licence.name == offered[manifest.model].entry.licence


def test_adapters_are_listed_with_what_must_be_accepted(operator: Operator) -> None:
    """One line each; a name that there is not is told with those there are."""
    listed = {line["adapter"]: line for line in rows(operator("admin", "adapters"))}
    unknown = operator("admin", "adapters", "nope")

    assert set(manifests.adapters()) == set(listed)
    assert ("yes", "no") == (listed["indextts-2.5"]["accept first"], listed["openai-image"]["accept first"])
    assert "there is no nope; there are diffusers, " in told(unknown)


def test_a_relative_interpreter_is_printed_as_an_absolute_path(operator: Operator, tmp_path: Path) -> None:
    """By its link, which a Python knows its environment by; a name alone is looked up by PATH."""
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "python").symlink_to(sys.executable)
    tables = [
        tomllib.loads(accepted(operator("admin", "adapters", "indextts-2.5", "--interpreter", name).stdout))
        for name in ("env/python", "python3")
    ]
    interpreters = [one["interpreter"] for table in tables for one in table["models"].values()]

    assert [f"{tmp_path}/env/python", "python3"] == interpreters


def test_serve_refuses_a_model_whose_licence_is_not_accepted(operator: Operator, tmp_path: Path) -> None:
    """As the printed table has it: one line names it, its address and what to write; nothing was started and
    no folder made.
    """
    file = tmp_path / "tenuto.toml"
    manifest = manifests.adapters()["indextts-2.5"]
    file.write_text(as_table(manifest, "/usr/bin/python3"))
    refused = operator("serve", "--config", str(file), engines="fake")
    [line] = [line for line in refused.stderr.splitlines() if "licence" in line]

    assert 1 == refused.returncode
    assert manifest.licence.url in line
    assert f'accept_licence = "{manifest.licence.name}"' in line
    assert not operator.folder.exists()


def test_doctor_tells_what_an_added_model_lacks(operator: Operator, tmp_path: Path) -> None:
    """A licence that is not accepted; then a file, an interpreter and a key that are not there."""
    file = tmp_path / "tenuto.toml"
    text = as_table(manifests.adapters()["indextts-2.5"], "/nowhere/python")
    server = as_table(manifests.adapters()["openai-speech"], None).replace("# upstream_key", "upstream_key")
    file.write_text(text)
    refused = operator("admin", "doctor", "--config", str(file), engines="fake")
    file.write_text(f"{accepted(text)}\n{server}")
    lacking = operator("admin", "doctor", "--config", str(file), engines="fake")
    failing = [line for line in lacking.stdout.splitlines() if line.startswith("FAIL  ")]

    assert "must be accepted first" in refused.stdout
    assert [
        "/nowhere/python does not run",
        "path is not there",
        "path is not there",
    ] == [line.split(": ")[1].partition(" → ")[0] for line in failing[:3]]
    assert "there is no key in the variable ITS_KEY" in failing[3]
