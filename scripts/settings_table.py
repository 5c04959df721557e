"""Writes the tables of settings in docs/operations/running.md, from their declarations.

python scripts/settings_table.py
"""

from __future__ import annotations

import re
from pathlib import Path

from tenuto import config
from tenuto.config import model_settings
from tenuto.feature import features
from tenuto.rules import Field, Integer, Number

PAGE = Path(__file__).parents[1] / "docs" / "operations" / "running.md"
HEAD = "| setting | variable | default | what it is |\n|---|---|---|---|\n"
MODEL_HEAD = "| setting of a model | what it is |\n|---|---|\n"


def main() -> None:
    """Replace the tables."""
    page = PAGE.read_text("utf-8")
    for head, new in ((HEAD, table()), (MODEL_HEAD, model_table())):
        page = page.replace(written(page, head), new)
    PAGE.write_text(page, "utf-8")


def written(page: str, head: str = HEAD) -> str:
    """A table as it stands in the page."""
    match = re.search(rf"^{re.escape(head)}(\|.*\n)*", page, re.MULTILINE)
    assert match is not None
    return match[0]


def table() -> str:
    """The table as the declarations have it, in the order of the page; new settings stand at its end."""
    order = re.findall(r"^\| `(\w+)` ", written(PAGE.read_text("utf-8")), re.MULTILINE)
    known, loaded = config.declarations(), values(config.load({"HOME": "~"}))
    lines = []
    for name in sorted(known, key=lambda name: order.index(name) if name in order else len(order)):
        one = known[name]
        default = {"cache": "~/.cache/tenuto", "models": "none"}.get(name, str(loaded[name]))
        variable = one.named or f"TENUTO_{name.upper()}"
        where = ("in the file alone", "none") if name == "models" else (f"`{variable}`", f"`{default}`")
        lines.append(f"| `{name}` | {where[0]} | {where[1]} | {_meaning(one)} |\n")
    return HEAD + "".join(lines)


def values(settings: config.Settings) -> dict[str, object]:
    """Each setting's value, by name."""
    known = (feature for feature in features().values() if feature.settings)
    parts = [settings, *(settings.of(feature.part(feature.settings)) for feature in known)]
    return {name: getattr(part, name) for part in parts for name in part.__struct_fields__}


def model_table() -> str:
    """The table of what may stand in a model's table."""
    return MODEL_HEAD + "".join(
        f"| `{key}` | {_meaning(one)} |\n" for key, one in model_settings.DECLARED.items()
    )


def _meaning(one: Field) -> str:
    bounds = f"{one.rule.minimum} to {one.rule.maximum}" if isinstance(one.rule, Integer | Number) else ""
    return one.meaning.replace("{range}", bounds)


if __name__ == "__main__":
    main()
