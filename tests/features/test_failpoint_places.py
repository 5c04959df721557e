"""The places of failpoints, in the core and in all features."""

import ast
from pathlib import Path

from tenuto import failpoints

SRC = Path(failpoints.__file__).parent


def test_the_table_names_the_failpoints_of_the_code() -> None:
    """Each is visited somewhere, by its full name, and none is visited that the table does not know."""
    visited = {
        node.args[0].value
        for path in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "failpoints.hit"
        and isinstance(node.args[0], ast.Constant)
    }

    assert set(failpoints.PLACES) == visited
    assert set(failpoints.PLACES) > failpoints.HINDERED
