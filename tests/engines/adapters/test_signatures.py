"""The stand-ins of the models' packages take what the packages take, by the text of their own code."""

import ast
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FUNCTIONS = tomllib.loads((HERE / "signatures.toml").read_text("utf-8"))["function"]


def arguments(stub: str, name: str) -> ast.arguments:
    """Those of a function, or of a class's method, in a stand-in's text; without types."""
    tree: ast.AST = ast.parse((HERE / "stubs" / stub).read_text("utf-8"))
    for part in name.split("."):
        tree = next(node for node in ast.iter_child_nodes(tree) if getattr(node, "name", None) == part)
    assert isinstance(tree, ast.FunctionDef)
    found = tree.args
    for one in [*found.posonlyargs, *found.args, *found.kwonlyargs, found.vararg, found.kwarg]:
        if one is not None:
            one.annotation = None
    return found


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: f"{one['stub']}:{one['name']}")
def test_a_stand_in_takes_what_the_package_takes(function: dict[str, str]) -> None:
    """Names, order and defaults; a call that the package would refuse is refused by the stand-in, too."""
    real = ast.parse(f"def f({function['takes']}): pass").body[0]

    assert isinstance(real, ast.FunctionDef)
    assert ast.unparse(real.args) == ast.unparse(arguments(function["stub"], function["name"]))
