"""The core's tests where no feature is: `python -m tests.without_features [pytest's arguments]`.

A copy of the tree loses `tenuto/features`, and all of `tests/core` runs there. The package in
`tests/core/kind/plain` is installed beside it: plain kinds of jobs, and the fake engines.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FEATURES = Path("packages/tenuto/src/tenuto/features")
PLAIN = Path("tests/core/kind/plain")
COPIED = (
    *("packages", "engines", "contrib", "tests", "docs", "scripts"),
    *("pyproject.toml", "openapi.yaml", "README.md"),
)


def main(arguments: list[str]) -> int:
    """pytest's exit status."""
    with tempfile.TemporaryDirectory(prefix="tenuto-core-") as folder:
        tree = copied(Path(folder))
        shutil.copytree(tree / FEATURES / "fakes", tree / PLAIN / "tenuto_plain" / "fakes")
        shutil.rmtree(tree / FEATURES)
        sources = os.pathsep.join(map(str, [*sorted(tree.glob("*/*/src")), tree / PLAIN]))
        return subprocess.run(
            [sys.executable, "-m", "pytest", *(arguments or ["-n", "2"]), "tests/core"],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": sources},
            check=False,
        ).returncode


def copied(tree: Path) -> Path:
    """All that tests in a process read, without what was built."""
    leave_out = shutil.ignore_patterns("__pycache__", "node_modules", "*.egg-info", "*.jsonl")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=leave_out, symlinks=True)
        else:
            shutil.copy2(ROOT / name, tree / name)
    return tree


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
