"""Measures of the whole code, read from its syntax trees: circles of imports, very long functions, size."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

from tenuto.jobs import states

ROOT = Path(__file__).parents[1]
SOURCES = sorted(ROOT.glob("packages/*/src")) + sorted(ROOT.glob("engines/*/src"))
MOST_LINES = 40
MOST_LONG_FUNCTIONS = 5
MOST_SERVICE_LINES = 50_546
MOST_WITH_ONE_IMPORTER = 0.18
"""Where the service stands, not where it should (decision 0039): lower both when it shrinks."""
UNCLEAR = frozenset({"part", "parts", "line", "lines", "place", "places", "found", "given"})
"""Not as a whole name: they have had several meanings here."""
VAGUE = frozenset(
    {"room", "rooms", "brought", "joint", "joints", "hearing", "heard", "durable", "away", "awaiting"}
    | {"guess", "guesses", "greeting", "greet", "behind", "every", "told", "said", "kept", "shown", "asked"}
    | {"intake", "finals"}
)
"""Not in any name."""
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


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


def test_the_service_grows_no_longer_and_splits_no_further() -> None:
    """Lines of all its files, and the share of modules that serve a single other one."""
    service = {name: path for name, path in _modules().items() if name.startswith("tenuto.")}
    importers = Counter(one for name, path in service.items() for one in _imported(name, path, service))
    files = [name for name, path in service.items() if path.name != "__init__.py"]
    single = [name for name in files if importers[name] == 1]

    assert sum(len(path.read_text("utf-8").splitlines()) for path in service.values()) <= MOST_SERVICE_LINES
    assert len(single) <= MOST_WITH_ONE_IMPORTER * len(files), sorted(single)


def test_few_functions_are_longer_than_a_screen() -> None:
    """At most five have more than forty lines, their text included."""
    long = [
        f"{name}.{node.name}: {length} lines"
        for name, path in _modules().items()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MOST_LINES
    ]

    assert len(long) <= MOST_LONG_FUNCTIONS, long


def test_no_public_name_uses_a_word_with_several_meanings() -> None:
    """Modules, classes and functions of the service say which room, part, line or place is meant."""
    names = [
        f"{name}: {one}"
        for name, path in _modules().items()
        if name.partition(".")[0] == "tenuto"
        for one in (path.stem, *_definitions(ast.parse(path.read_text("utf-8"))))
        if not one.startswith("_")
        and (one.lower() in UNCLEAR or any(word.lower() in VAGUE for word in _WORDS.findall(one)))
    ]

    assert [] == names


def _definitions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


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
