"""Starts a host: `INTERPRETER …/tenuto_engine MODULE:CLASS --fd N --parent PID`, then `--package`, `--path`.

Makes `tenuto_engine` importable without adding its parent folder to the path. Old interpreters can parse this
file, so that they can report that they are too old.
"""

import importlib.util
import os
import sys

if sys.version_info < (3, 9):  # noqa: UP036, the operator's interpreter runs this file
    sys.exit("a host needs Python 3.9 or newer; this is Python " + sys.version.split()[0])

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120, as Python wrote it into sys.path
# Python put this folder first: its files would be top-level modules, in front of the engine's own libraries.
sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]

_SPEC = importlib.util.spec_from_file_location(
    "tenuto_engine",
    os.path.join(_FOLDER, "__init__.py"),  # noqa: PTH118
    submodule_search_locations=[_FOLDER],
)
assert _SPEC is not None
assert _SPEC.loader is not None
_PACKAGE = importlib.util.module_from_spec(_SPEC)
sys.modules["tenuto_engine"] = _PACKAGE
_SPEC.loader.exec_module(_PACKAGE)

from tenuto_engine.serve import main  # noqa: E402, importable only now

if __name__ == "__main__":
    main(sys.argv[1:])
