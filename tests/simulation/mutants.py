"""The service with a fault in it: the code of its functions is exchanged in this process, and put back."""

import importlib
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Mutant:
    """One fault, the promise that it breaks, and within how many worlds it must be found."""

    name: str
    breaks: str
    worlds: int
    often: bool
    """Whether one world in ten or more shows it."""
    edit: tuple[dict[str, str], ...]
    database: str = "sqlite"
    """On which it must be found."""


def mutants() -> list[Mutant]:
    """All of them, in the order of the file."""
    table: dict[str, Any] = tomllib.loads((HERE / "mutants.toml").read_text("utf-8"))
    return [Mutant(**(each | {"edit": tuple(each["edit"])})) for each in table["mutant"]]


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The service with this fault, while the block lasts. ValueError: its text is not there just once."""
    texts: dict[str, str] = {}
    for edit in mutant.edit:
        text = texts.get(edit["file"]) or (ROOT / edit["file"]).read_text("utf-8")
        if text.count(edit["old"]) != 1:
            raise ValueError(
                f"{mutant.name}: its text stands {text.count(edit['old'])} times in {edit['file']}"
            )
        texts[edit["file"]] = text.replace(edit["old"], edit["new"])
    before: list[tuple[FunctionType, CodeType]] = []
    try:
        for file, text in texts.items():
            module = importlib.import_module(file.partition("/src/")[2].removesuffix(".py").replace("/", "."))
            before += _exchange(module, text)
        yield
    finally:
        for function, code in before:
            function.__code__ = code


def _exchange(module: ModuleType, text: str) -> list[tuple[FunctionType, CodeType]]:
    """Give every function of the module the code that it has in this text; what they had."""
    changed = ModuleType(module.__name__)
    changed.__file__ = module.__file__
    # Classes of msgspec and dataclasses look their module up.
    original = sys.modules[module.__name__]
    sys.modules[module.__name__] = changed
    try:
        exec(compile(text, str(module.__file__), "exec"), changed.__dict__)
    finally:
        sys.modules[module.__name__] = original
    new = _functions(changed)
    before = []
    for name, function in _functions(module).items():
        if name in new and new[name].__code__ != function.__code__:
            before.append((function, function.__code__))
            function.__code__ = new[name].__code__
    if not before:
        raise ValueError(f"nothing in the functions of {module.__name__} has changed")
    return before


def _functions(module: ModuleType) -> dict[str, FunctionType]:
    """The module's own functions and methods by their qualified names."""
    known: dict[str, FunctionType] = {}
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for each in (value, *(vars(value).values() if isinstance(value, type) else ())):
            if isinstance(each, FunctionType):
                known[each.__qualname__] = each
    return known
