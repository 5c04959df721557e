"""Measures of the whole code, read from its syntax trees: circles of imports, the size of the core."""

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

from tenuto.feature import features
from tenuto.job import states

ROOT = Path(__file__).parents[1]
SOURCES = sorted(ROOT.glob("packages/*/src")) + sorted(ROOT.glob("engines/*/src"))
CORE_LINES = 23_411
"""The budget of the core, which no change raises: what does not fit is a feature, in a folder of its own."""


def _modules() -> Mapping[str, Path]:
    found = {}
    for source in SOURCES:
        for path in source.rglob("*.py"):
            name = ".".join(path.relative_to(source).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """What runs: imports inside functions too, but not those for the type checker alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from _imports(node, package)


def _imported(name: str, path: Path, modules: Mapping[str, Path]) -> set[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imported = {_module_of(one, modules) for one in _imports(ast.parse(path.read_text("utf-8")), package)}
    return {one for one in imported if one is not None} - {name}


def _module_of(name: str, modules: Mapping[str, Path]) -> str | None:
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even by an import inside a function: whoever reads one of them would have to read all."""
    modules = _modules()
    graph = {name: _imported(name, path, modules) for name, path in modules.items()}
    circle = None
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]

    assert 300 < len(modules)
    assert circle is None


def test_a_feature_imports_others_only_if_it_says_so() -> None:
    """`needs` is what it imports, no more and no less; `tenuto.feature` refuses a circle of them."""
    modules = _modules()
    imported: dict[str, set[str]] = {name: set() for name in features()}
    for name, path in modules.items():
        if name.startswith("tenuto.features."):
            owner = name.split(".")[2]
            ours = (one for one in _imported(name, path, modules) if one.startswith("tenuto.features."))
            others = {one.split(".")[2] for one in ours if one.count(".") > 2}
            imported[owner] |= others - {owner}

    assert {name: set(feature.needs) for name, feature in features().items()} == imported


def test_the_core_keeps_to_its_budget() -> None:
    """Lines of all that the service has beside `tenuto/features` and what is written from SQL files."""
    core = {
        n: p
        for n, p in _modules().items()
        if n.startswith("tenuto.") and not n.startswith("tenuto.features.") and not n.endswith("_sql")
    }

    assert sum(len(path.read_text("utf-8").splitlines()) for path in core.values()) <= CORE_LINES


def test_the_budget_of_the_core_has_never_been_raised() -> None:
    """In no commit that the checkout knows: who needs more room builds a feature, or removes something."""
    command = ["git", "log", "--format=", "--patch", "-G^CORE_LINES = ", "--", Path(__file__).name]
    changes = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True).stdout
    budgets = [
        int(budget.replace("_", ""))
        for budget in re.findall(r"^\+CORE_LINES = ([\d_]+)$", changes, re.MULTILINE)
    ]

    assert [CORE_LINES, *budgets] == sorted([CORE_LINES, *budgets])


def test_the_pictured_states_are_those_of_the_code() -> None:
    """docs/architecture.md draws every transition that a job can make, and no other."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    picture = page.split("stateDiagram-v2")[1].split("```")[0]
    drawn = set(re.findall(r"^  (\w+) --> (\w+)$", picture, re.MULTILINE))
    possible = {
        (state, after)
        for state, followers in states.TRANSITIONS.items()
        for after in followers
        if state != states.SUBMITTING
    }

    assert possible == drawn
