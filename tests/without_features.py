"""The core's tests where no feature is: `python -m tests.without_features [pytest's arguments]`.

A copy of the tree loses `tenuto/features`, and the unit tier of `tests/core` runs there. A test is a
feature's if it uses what is imported of one, by itself or by a helper or a fixture, or names a module of one.
`--list` counts the others.
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
PLAIN = Path("tests/core/kind/plain")
"""A package of kinds of jobs and of fake engines, which is installed in the copy."""
COPIED = (
    *("packages", "engines", "contrib", "tests", "docs", "scripts"),
    *("pyproject.toml", "openapi.yaml", "README.md"),
)


TEST = "\ndef test_"
TIERS = "unit or in_core"
OF_ALL = {
    "test_the_table_names_the_failpoints_of_the_code": "the table has the places of features, too",
    "test_every_table_that_keeps_something_of_a_job_has_its_turn_at_an_erasure": "so have migrations",
    "test_what_the_database_keeps_is_stored_whatever_becomes_of_the_attempt": "`kept_results` stores it",
    "test_a_worker_says_what_it_can_run_and_why_not": "`models` verifies weights",
    "test_openapi_has_the_parameters_of_a_kind": "it has those of our own kinds",
    "test_the_client_has_the_parameters_of_a_kind": "it has those of our own kinds",
    "test_a_composed_model_lacks_what_its_engines_lack": "`models` verifies weights",
}
"""Tests of the core with all its features, and why."""


def main(arguments: list[str]) -> int:
    """pytest's exit status."""
    ours = {path: text for path in _candidates() if TEST in (text := _of_the_core(path))}
    if arguments == ["--list"]:
        for path in _candidates():
            kept, written = (text.count(TEST) for text in (ours.get(path, ""), path.read_text("utf-8")))
            print(f"{kept:3} of {written:3} {path.relative_to(TESTS)}")
        return 0
    with tempfile.TemporaryDirectory(prefix="tenuto-core-") as folder:
        tree = Path(folder)
        copied(tree)
        shutil.copytree(tree / FEATURES / "fakes", tree / PLAIN / "tenuto_plain" / "fakes")
        shutil.rmtree(tree / FEATURES)
        for path in {fixtures for test in ours for fixtures in _fixtures(test)} | ours.keys():
            (tree / path.relative_to(ROOT)).write_text(_of_the_core(path), "utf-8")
        sources = os.pathsep.join(map(str, [*sorted(tree.glob("*/*/src")), tree / PLAIN]))
        command = [sys.executable, "-m", "pytest", "-m", TIERS, *(arguments or ["-n", "2"])]
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
    """The test files of the core."""
    return sorted((TESTS / "core").rglob("test_*.py"))


def _of_the_core(path: Path) -> str:
    """A file of tests or fixtures without what is a feature's; the other lines keep their numbers."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    for statement in _split(path)[0]:
        first = min(each.lineno for each in (statement, *getattr(statement, "decorator_list", ())))
        for number in range(first - 1, statement.end_lineno or first):
            lines[number] = "\n"
    return "".join(lines)


@cache
def _split(path: Path) -> tuple[list[ast.stmt], frozenset[str]]:
    """The statements of a file that are a feature's, and the names that they give."""
    statements = ast.parse(path.read_text("utf-8")).body
    theirs: list[ast.stmt] = []
    names = set(OF_ALL).union(*(_split(each)[1] for each in _fixtures(path)))
    while more := [each for each in statements if each not in theirs and _is_a_features(each, names)]:
        theirs += more
        names |= {name for statement in more for name in _given(statement)}
    return theirs, frozenset(names)


def _is_a_features(statement: ast.stmt, names: set[str]) -> bool:
    if any(map(_leads_to_features, _imports(statement))):
        return True
    nodes = list(ast.walk(statement))
    texts = (each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))
    if any("tenuto.features." in text for text in texts):
        return True
    used = {each.id for each in nodes if isinstance(each, ast.Name)}
    asked_for = {each.arg for each in nodes if isinstance(each, ast.arg)}
    return not names.isdisjoint(used | asked_for | set(_given(statement)))


def _given(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module gives."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (each.asname or each.name.partition(".")[0] for each in statement.names)
    elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def _fixtures(path: Path) -> list[Path]:
    """The files of fixtures that a test may ask for."""
    found = [TESTS / folder / "conftest.py" for folder in path.relative_to(TESTS).parents]
    return [each for each in found if each.exists() and each != path]


@cache
def _leads_to_features(module: str) -> bool:
    """Whether a module is a feature's, or a helper of tests that imports one."""
    if module.startswith("tenuto.features"):
        return True
    helper = TESTS / f"{module.replace('.', '/')}.py"
    return helper.exists() and any(map(_leads_to_features, _imports(ast.parse(helper.read_text("utf-8")))))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
