"""Mutants made from the syntax tree: one small change in one function, named by module, function and kind.

A name has no line number and no quoted text, so it outlives what is edited around it. A function that has
moved is looked for in the other modules of its part; where there is none any more, its mutants are gone.
"""

import ast
import copy
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

SOURCES = Path("packages/tenuto/src/tenuto")
SEED = "tenuto 1"

_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_GUARD = re.compile(
    r"\band\s+(?!\w+\s+in\s+\(select)[^()]+?(?:\([^()]*\)[^()]*?)?"
    r"(?=\s+and\b|\s+or\b|\s+(?:order by|group by|limit|returning|for update|union)\b|\s*\)|\s*$)"
)
"""`and …` up to what ends it; at most one pair of brackets in it."""


@dataclass(frozen=True)
class Part:
    """Modules, how many mutants of them are in the sample, and which tests must see these."""

    modules: str
    share: int
    tests: tuple[str, ...]
    wider: tuple[str, ...] = ()
    """What runs when those see nothing."""
    served: tuple[str, ...] = ()
    """What runs then, over HTTP and on PostgreSQL."""


_LEDGER = ("tests/properties", "tests/simulation", "tests/core/worker", "tests/features/webhooks")
_JOBS = (
    *(f"tests/core/job/test_{name}.py" for name in ("fate", "lifecycle", "submit", "claim", "recover")),
    "tests/core/job",
)


def _contract(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/contract/test_contract_{name}.py" for name in names)


_CHAT, _STUDIO, _S3 = (f"tests/features/{name}" for name in ("chat", "studio", "s3"))
_FILE, _JOB, _MONEY, _WORKER = (f"tests/core/{name}" for name in ("file", "job", "money", "worker"))
_EDGE = (
    "tests/limits/test_admission.py",
    *_contract("submit", "recognition", "isolation", "erasure", "restricted_keys"),
)
PARTS = (
    Part("job", 50, (*_JOBS, _MONEY), (*_LEDGER, _FILE), (*_JOBS[1:4], *_EDGE)),
    Part(
        "money",
        20,
        (_MONEY, _CHAT, *_JOBS),
        (*_LEDGER, _STUDIO),
        _contract("money"),
    ),
    Part(
        "account",
        20,
        ("tests/core/account", _STUDIO, "tests/core/api"),
        (_JOB,),
        _EDGE,
    ),
    Part(
        "api",
        12,
        ("tests/core/api",),
        ("tests/features/telemetry",),
        ("tests/limits", *_contract("uploads", "account")),
    ),
    Part(
        "file",
        18,
        (_FILE, _S3),
        (_WORKER, _JOB, _STUDIO),
        _EDGE,
    ),
)
"""The tests that see most come first."""
_MODULES = {
    "job": {
        "states", "jobs_sql", "attempts_sql", "queue", "queue_sql", "queue_store", "submit", "erasure",
        "fate", "finish", "recover",
    },
    "api": {"call", "limits", "uploads"},
    "file": {"directory", "operations", "store", "erasure"},
}  # fmt: skip
"""Of these packages only so much; of the others all."""


@dataclass(frozen=True, order=True)
class Name:
    """Which change of which function: the `number`-th of its kind there."""

    module: str
    function: str
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.module} {self.function}: {self.kind} {self.number}"

    @property
    def part(self) -> Part:
        """The part that its module is of."""
        return next(each for each in PARTS if each.modules == self.module.partition("/")[0])

    @classmethod
    def of(cls, row: str) -> "Name":
        """As `__str__` has written it."""
        place, _, change = row.partition(": ")
        module, function = place.split(" ")
        kind, _, number = change.rpartition(" ")
        return cls(module, function, kind, int(number))


Change = Callable[[], None]
"""Makes the change in the tree that it was found in."""


def sample(root: Path) -> list[Name]:
    """A fixed part of all mutants: of each part its share, of each kind as many as of another."""
    return [name for part in PARTS for name in _in_turn(_names(root, part))[: part.share]]


def mutated(name: Name, root: Path) -> tuple[Path, str] | None:
    """The file that has the function, and its text with the change; None: there is no such place any more."""
    places = [root / SOURCES / f"{name.module}.py", *_files(root, name.part)]
    for path in places:
        if not path.exists():
            continue
        tree = ast.parse(path.read_text("utf-8"))
        function = dict(_functions(tree)).get(name.function)
        if function is None:
            continue
        changes = [change for kind, change in _changes(function) if kind == name.kind]
        if name.number > len(changes):
            return None
        changes[name.number - 1]()
        return path, ast.unparse(ast.fix_missing_locations(tree))
    return None


def _names(root: Path, part: Part) -> list[Name]:
    """Every mutant of a part, in an order that only the seed and the names decide."""
    names = []
    for path in _files(root, part):
        module = path.relative_to(root / SOURCES).with_suffix("").as_posix()
        for function, node in _functions(ast.parse(path.read_text("utf-8"))):
            counts: dict[str, int] = {}
            for kind, _ in _changes(node):
                counts[kind] = counts.get(kind, 0) + 1
                names.append(Name(module, function, kind, counts[kind]))
    return sorted(names, key=lambda name: hashlib.sha256(f"{SEED} {name}".encode()).digest())


def _in_turn(names: list[Name]) -> list[Name]:
    """One of each kind, then the next of each kind."""
    kinds = sorted({name.kind for name in names})
    piles = [[name for name in names if name.kind == kind] for kind in kinds]
    return [name for row in zip_longest(*piles) for name in row if name is not None]


def _files(root: Path, part: Part) -> list[Path]:
    """The modules of a part."""
    chosen = _MODULES.get(part.modules)
    files = sorted((root / SOURCES / part.modules).rglob("*.py"))
    return [path for path in files if chosen is None or path.stem in chosen]


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module and the methods of its classes, with their qualified names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from (
                (f"{node.name}.{each.name}", each) for each in node.body if isinstance(each, ast.FunctionDef)
            )


def _changes(function: ast.FunctionDef) -> Iterator[tuple[str, Change]]:
    """What can be changed in a function, in the order of its text."""
    for statement in function.body:
        for node in ast.walk(statement):
            yield from _changes_of(node)


def _changes_of(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _FLIPPED:
            yield "comparison flipped", _setting(node, "ops", [_FLIPPED[type(operator)]()])
        case ast.BoolOp(op=ast.And()):
            yield "and made or", _setting(node, "op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield "or made and", _setting(node, "op", ast.And())
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield "constant off by one", _setting(node, "value", value + 1)
        case ast.Constant(value=str() as text) if "where" in text or text.lstrip().startswith("and "):
            for guard in _GUARD.finditer(text):
                without = text[: guard.start()] + text[guard.end() :]
                yield "guard of SQL dropped", _setting(node, "value", without)
        case ast.Call(keywords=[_, *_] as keywords) if not _is_statement_of_sql(node):
            for number in range(len(keywords)):
                yield "argument dropped", _setting(node, "keywords", _without(keywords, number))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if _is_plain(test):
            yield "condition negated", _setting(node, "test", ast.UnaryOp(ast.Not(), test))
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        for number, statement in enumerate(block if isinstance(block, list) else ()):
            if _can_be_dropped(statement):
                yield "statement dropped", _setting(node, field, _without(block, number, ast.Pass()))


def _is_plain(test: ast.expr) -> bool:
    """Comparisons, `and` and `or` have mutants of their own."""
    return not isinstance(test, ast.Compare | ast.BoolOp)


def _without(nodes: Any, number: int, *instead: ast.AST) -> list[Any]:
    return [*nodes[:number], *instead, *nodes[number + 1 :]]


def _setting(node: ast.AST, field: str, value: object) -> Change:
    return lambda: setattr(node, field, copy.deepcopy(value) if isinstance(value, list) else value)


def _is_statement_of_sql(call: ast.Call) -> bool:
    """Its arguments are what the text binds: the driver would refuse it."""
    return re.search(r"\b(?:select|insert|update|delete) ", ast.unparse(ast.Tuple(call.args))) is not None


def _can_be_dropped(statement: ast.stmt) -> bool:
    """A call for its effect, an error that is raised, a sum that is kept."""
    match statement:
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.AugAssign() | ast.Delete():
            return True
    return False
