"""docs/operations/engines.md against the code: what is added how, servers, diffusers, one's own engine."""

import re
import tomllib
from pathlib import Path

import pytest

from tenuto import config
from tenuto.config.models import AdapterSettings
from tenuto.config.rules import declared
from tenuto.host import manifests
from tenuto.host.manifests import _TYPES, Composition, Manifest
from tenuto.kind.rules import models

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "operations" / "engines.md").read_text("utf-8")
SECTIONS = dict(part.split("\n", 1) for part in DOCUMENT.split("\n## ")[1:])
HEAD = DOCUMENT.split("\n## ")[0]
SERVERS, DIFFUSERS, OWN = "Servers with OpenAI's interfaces", "diffusers", "An engine of your own"
OURS = {
    SERVERS: [one for one in manifests.adapters().values() if one.upstream],
    DIFFUSERS: [one for one in manifests.adapters().values() if one.engine.startswith("tenuto_diffusers")],
}


def test_every_adapter_that_ships_is_listed_with_its_kind() -> None:
    """In the first table, and nothing else is."""
    listed = {
        name: kind
        for names, kind in re.findall(r"^\| (`.*`) \| (\w+) \|", HEAD, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", names)
    }

    assert {name: manifest.kind for name, manifest in manifests.adapters().items()} == listed


@pytest.mark.parametrize("heading", OURS)
def test_every_option_is_documented(heading: str) -> None:
    """What must be given says so; a number's default stands beside it."""
    table = SECTIONS[heading].partition("| option |")[2].partition("\n\n")[0]
    told = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", table, re.MULTILINE))
    options = [(name, option) for one in OURS[heading] for name, option in one.options.items()]
    numbers = [(name, str(option.default)) for name, option in options if option.type == "integer"]

    assert {name for name, _ in options} == set(told)
    assert all(("needed" in told[name]) == option.required for name, option in options)
    assert not [name for name, default in numbers if default not in told[name] and "above" not in told[name]]


def test_what_a_pipeline_is_drawn_with_stands_in_the_table() -> None:
    """Size, steps and guidance of each adapter, what its guidance is called, how much it reads."""
    rows = re.findall(
        r"^\| `(diffusers[\w-]*)` \| (\d+), (\d+), (\S+) \| ([^|]+) \| ([^|]+) \|",
        SECTIONS[DIFFUSERS],
        re.MULTILINE,
    )
    for name, size, steps, guidance, called, reads in rows:
        manifest = manifests.adapters()[name]
        option = manifest.options["guidance"].default

        assert (int(size), int(steps)) == (
            manifest.defaults["width"],
            manifest.defaults["num_inference_steps"],
        )
        assert option == "none" or (
            float(guidance) == manifest.defaults["guidance_scale"] and option in called
        )
        assert str(manifest.options["max_sequence_length"].default or "as the pipeline") in reads
    assert {row[0] for row in rows} == {one.name for one in OURS[DIFFUSERS]}


@pytest.mark.parametrize("heading", OURS)
def test_the_examples_are_sound(heading: str, tmp_path: Path) -> None:
    """They load as an operator's file, and every model that they name is offered."""
    [example] = re.findall(r"^```toml\n(.*?)^```$", SECTIONS[heading], re.MULTILINE | re.DOTALL)
    (tmp_path / "tenuto.toml").write_text(example)
    offered = models(config.load({}, file=tmp_path / "tenuto.toml"))

    assert set(tomllib.loads(example)["models"]) <= set(offered)


def test_every_setting_of_a_table_is_told() -> None:
    """And every key of a manifest, and every type of an option."""
    settings = set(re.findall(r"`(\w+)`", SECTIONS["Adding one"]))
    keys = set(re.findall(r"`(?:\[engine\.)?(\w+)\]?`", SECTIONS[OWN]))
    known = set(Manifest.__struct_fields__) - {
        "name",
        "engine",
        "folder",
        "licence",
        "options",
    }

    assert {one.named or name for name, one in declared(AdapterSettings).items()} <= settings
    assert known <= keys
    assert set(Composition.__struct_fields__) <= keys
    assert all(f"{name}" in SECTIONS[OWN] for name in _TYPES)
    assert "[engine.licence]" in SECTIONS[OWN]
