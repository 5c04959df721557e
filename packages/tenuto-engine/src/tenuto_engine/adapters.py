"""Prints the engines that are installed for the interpreter that runs this file, as JSON; imports none of
them.

`INTERPRETER …/tenuto_engine/adapters.py` prints, for each entry point of the group `tenuto.engines`, its
`module:Class`, and the folder and text of its manifest: `engine.toml` in the package (null if there is none).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
from typing import Any

GROUP = "tenuto.engines"


def found() -> dict[str, dict[str, Any]]:
    """The engines by name. The first one on the path wins, as with an import."""
    engines: dict[str, dict[str, Any]] = {}
    packages: dict[str, tuple[str | None, str | None]] = {}
    for distribution in importlib.metadata.distributions():
        # Most packages have no engines; parsing all their entry points would take longer than everything
        # else.
        if GROUP not in (distribution.read_text("entry_points.txt") or ""):
            continue
        for point in distribution.entry_points:
            if point.group == GROUP and point.name not in engines:
                package = point.value.partition(":")[0].partition(".")[0].strip()
                if package not in packages:
                    packages[package] = _manifest(package)
                folder, manifest = packages[package]
                engines[point.name] = {
                    "engine": point.value.replace(" ", ""),
                    "folder": folder,
                    "manifest": manifest,
                }
    return engines


def _manifest(package: str) -> tuple[str | None, str | None]:
    # Finding a top-level package imports nothing.
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = os.path.join(folder, "engine.toml")  # noqa: PTH118, as in __main__
        if os.path.isfile(path):  # noqa: PTH113
            # A manifest in another encoding concerns its own package alone.
            with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                return folder, file.read()
    return None, None


if __name__ == "__main__":
    # Python put this folder first on the path; its files are not the interpreter's packages.
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(__file__)]  # noqa: PTH120
    sys.stdout.write(json.dumps(found()))
