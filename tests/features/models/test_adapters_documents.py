"""docs/operations/engines.md against the code: what is added how, servers, diffusers, one's own engine."""

import re
import tomllib
from pathlib import Path

import pytest

from tenuto import config
from tenuto.host import manifests
from tenuto.kind.model import models

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "operations" / "engines.md").read_text("utf-8")
SECTIONS = dict(part.split("\n", 1) for part in DOCUMENT.split("\n## ")[1:])
SERVERS, DIFFUSERS, OWN = "Servers with OpenAI's interfaces", "diffusers", "An engine of your own"
OURS = {
    SERVERS: [one for one in manifests.adapters().values() if one.upstream],
    DIFFUSERS: [one for one in manifests.adapters().values() if one.engine.startswith("tenuto_diffusers")],
}


@pytest.mark.parametrize("heading", OURS)
def test_the_examples_are_sound(heading: str, tmp_path: Path) -> None:
    """They load as an operator's file, and every model that they name is offered."""
    [example] = re.findall(r"^```toml\n(.*?)^```$", SECTIONS[heading], re.MULTILINE | re.DOTALL)
    (tmp_path / "tenuto.toml").write_text(example)
    offered = models(config.load({}, file=tmp_path / "tenuto.toml"))

    assert set(tomllib.loads(example)["models"]) <= set(offered)
