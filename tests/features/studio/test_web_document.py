"""docs/web.md and docs/operations/accounts.md say what the code does."""

import re
from pathlib import Path

from tenuto.features.studio.app import ROUTES

DOCS = Path(__file__).parents[3] / "docs"


def test_every_route_of_the_studio_is_documented() -> None:
    """The table of routes is the one that requests are matched against, in its order."""
    document = (DOCS / "web.md").read_text("utf-8")
    lines = re.findall(r"^\| `(/web/[^`]*)` \| ([A-Z, ]+) \|", document, re.MULTILINE)

    assert [(path, ", ".join(handlers)) for path, handlers in ROUTES.items()] == lines
