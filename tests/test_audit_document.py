"""docs/operations/audit.md names every check there is, with the words that a finding uses."""

import re
from pathlib import Path

from tenuto.features.audit import deep
from tenuto.features.audit.audit import CHECKS, DATABASE_DAMAGED

DOCUMENT = (Path(__file__).parents[1] / "docs" / "operations" / "audit.md").read_text("utf-8")


def test_every_check_is_documented() -> None:
    """In the order of the code; those of the deep audit at the end."""
    table = re.findall(r"^\| `(\w+)` \| (.*) \|$", DOCUMENT, re.MULTILINE)
    rows = [(name, said) for name, said in table if said not in ("", "what to do")]

    assert [(check.name, check.what) for check in CHECKS] == rows[: len(CHECKS)]
    others = [DATABASE_DAMAGED, *deep.CHECKS]
    assert others == [name for name, _ in rows[len(CHECKS) : len(CHECKS) + len(others)]]
