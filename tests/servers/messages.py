"""The messages of commands, as their source has them: what a catalogue in another language must have, too."""

import ast
import string
from collections.abc import Iterator
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


def constants_of(file: Path) -> Iterator[str]:
    """Every text that stands in a module: headings, too, which are translated where they are printed."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def names(text: str) -> list[str]:
    """The `{names}` in a text."""
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)
