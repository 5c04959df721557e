"""The messages of commands, as their source has them: what a catalogue in another language must have, too."""

import ast
import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


def texts_of(file: Path) -> Iterator[str]:
    """Every text that a module of commands gives to `t` or `add_verb`."""
    place = {"t": 0, "add_verb": 1}
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            text = node.args[place[name]] if name in place and len(node.args) > place[name] else None
            if isinstance(text, ast.Constant):
                yield str(text.value)


def reports_of(file: Path, arguments: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Every text that a module gives to these functions, by their arguments; filled in with a word."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for place in arguments.get(node.func.id, ()):
                if place < len(node.args) and isinstance(node.args[place], ast.Constant | ast.JoinedStr):
                    yield _sample(node.args[place])


def _sample(text: ast.expr) -> str:
    if isinstance(text, ast.Constant):
        return str(text.value)
    parts = text.values if isinstance(text, ast.JoinedStr) else []
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "nomen" for part in parts)


def constants_of(file: Path) -> Iterator[str]:
    """Every text that stands in a module: headings, too, which are translated where they are printed."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def names(text: str) -> list[str]:
    """The `{names}` in a text."""
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)
