"""Prints which engines are installed for the interpreter that runs this file, as JSON; imports none of them.

`INTERPRETER …/tenuto_engine/adapters.py` gives, for each entry point of the group `tenuto.engines`, its
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
    """The engines by name. The first on the path wins, as it does when it is imported."""
    engines: dict[str, dict[str, Any]] = {}
    for distribution in importlib.metadata.distributions():
        for point in distribution.entry_points:
            if point.group == GROUP and point.name not in engines:
                folder, manifest = _manifest(point.value)
                engines[point.name] = {
                    "engine": point.value.replace(" ", ""),
                    "folder": folder,
                    "manifest": manifest,
                }
    return engines


def _manifest(value: str) -> tuple[str | None, str | None]:
    # Finding a package that is not inside another imports nothing.
    package = importlib.util.find_spec(value.partition(":")[0].partition(".")[0].strip())
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        path = os.path.join(folder, "engine.toml")  # noqa: PTH118, as in __main__
        if os.path.isfile(path):  # noqa: PTH113
            with open(path, encoding="utf-8") as file:  # noqa: PTH123
                return folder, file.read()
    return None, None


if __name__ == "__main__":
    # Python put this folder first; its files are no packages of the interpreter's.
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(__file__)]  # noqa: PTH120
    sys.stdout.write(json.dumps(found()))
