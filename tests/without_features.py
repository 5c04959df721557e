"""The core's tests where no feature is: `python -m tests.without_features [pytest's arguments]`.

A copy of the tree loses `tenuto/features`, and the unit tier of the core's folders runs there. A file that
imports a feature, by itself or by what it imports of tests/, is a feature's; `--list` names both sorts.
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
FEATURES = Path("packages/tenuto/src/tenuto/features")
PLAIN = Path("tests/kinds/plain")
"""A package of kinds of jobs and of fake engines, which is installed in the copy."""
FOLDERS = (
    "accounts",
    "api",
    "artifacts",
    "billing",
    "blobs",
    "db",
    "hosts",
    "jobs",
    "kinds",
    "media",
    "worker",
)
FILES = ("test_config.py", "test_failpoints.py", "test_ids.py", "test_logs.py", "test_strict_json.py")
"""Where tests of the core are, until they are in tests/core."""
COPIED = ("packages", "engines", "contrib", "tests", "docs", "pyproject.toml", "openapi.yaml", "README.md")


def main(arguments: list[str]) -> int:
    """pytest's exit status."""
    ours = [path for path in _candidates() if not _features_of(path)]
    if arguments == ["--list"]:
        for path in _candidates():
            print(f"{'feature' if path not in ours else 'core':8} {path.relative_to(TESTS)}")
        return 0
    with tempfile.TemporaryDirectory(prefix="tenuto-core-") as folder:
        tree = Path(folder)
        copied(tree)
        shutil.copytree(tree / FEATURES / "fakes", tree / PLAIN / "tenuto_plain" / "fakes")
        shutil.rmtree(tree / FEATURES)
        sources = os.pathsep.join(map(str, [*sorted(tree.glob("*/*/src")), tree / PLAIN]))
        command = [sys.executable, "-m", "pytest", "-m", "unit", *(arguments or ["-n", "2"])]
        return subprocess.run(
            [*command, *(str(path.relative_to(ROOT)) for path in ours)],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"},
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


def _candidates() -> list[Path]:
    """The test files of the folders that are of the core."""
    found = [path for folder in FOLDERS for path in sorted((TESTS / folder).glob("test_*.py"))]
    return [*found, *(TESTS / name for name in FILES)]


def _features_of(path: Path) -> frozenset[str]:
    """The features that a test file, the fixtures of its folder or its helpers import."""
    fixtures = [TESTS / folder / "conftest.py" for folder in path.relative_to(TESTS).parents]
    return frozenset().union(*(_reached(each) for each in (path, *fixtures) if each.exists()))


@cache
def _reached(path: Path) -> frozenset[str]:
    features: set[str] = set()
    seen, waiting = {path}, [path]
    while waiting:
        for name in _imports(waiting.pop()):
            if name.startswith("tenuto.features"):
                features.add(name)
            helper = TESTS / f"{name.replace('.', '/')}.py"
            if helper.exists() and helper not in seen:
                seen.add(helper)
                waiting.append(helper)
    return frozenset(features)


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
