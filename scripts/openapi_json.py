"""Writes what the service serves of `openapi.yaml`: the same document as JSON, a line for each of its parts.

    python scripts/openapi_json.py

`tests/features/studio/test_pages.py` fails if the file is old. The service has no parser for YAML, and
needs none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "openapi.yaml"
WRITTEN = (
    ROOT / "packages" / "tenuto" / "src" / "tenuto" / "features" / "studio" / "reference" / "openapi.json"
)
DEPTH = {"paths": 2, "components": 2}
"""How many levels of a part have lines of their own; all else is one line."""


def main() -> None:
    """Write the file."""
    WRITTEN.write_text(text(), "utf-8")


def text() -> str:
    """What the file holds."""
    document = yaml.safe_load(DOCUMENT.read_text("utf-8"))
    lines = (f"{json.dumps(key)}: {lined(value, DEPTH.get(key, 0))}" for key, value in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def lined(value: Any, depth: int) -> str:
    """A value as JSON, whose entries begin lines down to this depth."""
    if depth == 0:
        return json.dumps(value, ensure_ascii=False)
    lines = (f"{json.dumps(key)}: {lined(each, depth - 1)}" for key, each in value.items())
    return "{\n" + ",\n".join(lines) + "}"


if __name__ == "__main__":
    main()
