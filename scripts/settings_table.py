"""Writes the table of settings in docs/operations/running.md, from their declarations.

python scripts/settings_table.py
"""

from __future__ import annotations

import re
from pathlib import Path

from tenuto import config
from tenuto.config.rules import Integer, Number

PAGE = Path(__file__).parents[1] / "docs" / "operations" / "running.md"
HEAD = "| setting | variable | default | what it is |\n|---|---|---|---|\n"


def main() -> None:
    """Replace the table."""
    page = PAGE.read_text("utf-8")
    PAGE.write_text(page.replace(written(page), table()), "utf-8")


def written(page: str) -> str:
    """The table as it stands in the page."""
    found = re.search(rf"^{re.escape(HEAD)}(\|.*\n)+", page, re.MULTILINE)
    assert found is not None
    return found[0]


def table() -> str:
    """The table as the declarations have it; defaults are what loads."""
    loaded = config.load({"HOME": "~"})
    lines = []
    for name, one in config.DECLARED.items():
        default = {"cache": "~/.cache/tenuto", "models": "none"}.get(name, str(getattr(loaded, name)))
        variable = one.variable or f"TENUTO_{name.upper()}"
        where = ("in the file alone", "none") if name == "models" else (f"`{variable}`", f"`{default}`")
        bounds = f"{one.rule.low} to {one.rule.high}" if isinstance(one.rule, Integer | Number) else ""
        meaning = one.meaning.replace("{range}", bounds)
        lines.append(f"| `{name}` | {where[0]} | {where[1]} | {meaning} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    main()
