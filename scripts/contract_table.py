"""Writes docs/contract.md: every row of docs/requirements.md with the tests over HTTP that prove it.

    python scripts/contract_table.py [--check]

A test of tests/contract or tests/client proves the rows that its docstring names (`R19`). A row that
nothing names is an error, unless it stands in LATER, where it says what it waits for.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "docs" / "requirements.md"
TABLE = ROOT / "docs" / "contract.md"
FOLDERS = (ROOT / "tests" / "contract", ROOT / "tests" / "client")

LATER: dict[str, str] = {}
"""Rows that belong to parts that are not there yet."""

HEAD = """# The contract, row by row

Written by `python scripts/contract_table.py` from [requirements.md](requirements.md) and the tests of
`tests/contract`, which run over HTTP against the service as a user starts it, on SQLite and on PostgreSQL;
what holds for clients is proved by `tests/client`, on the SDK.
A row without a test fails `make test`.

| row | rule | proved by | state |
|---|---|---|---|
"""

_ROW = re.compile(r"^\| (R\d+) \| (.+) \|$", re.MULTILINE)
_NAMED = re.compile(r"\bR(\d+)(?:–R(\d+))?")


def rows() -> dict[str, str]:
    """The rules by their rows' names, in order."""
    return dict(_ROW.findall(ROWS.read_text("utf-8")))


def proofs() -> dict[str, list[str]]:
    """The tests that name each row, as `file::test`."""
    found: dict[str, list[str]] = {}
    for path in sorted(path for folder in FOLDERS for path in folder.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for row in _named(ast.get_docstring(node) or ""):
                    found.setdefault(row, []).append(f"{path.name}::{node.name}")
    return found


def table() -> str:
    """The document."""
    tests = proofs()
    return HEAD + "".join(_line(row, rule, tests.get(row, [])) for row, rule in rows().items())


def unproved() -> list[str]:
    """Rows that no test names though nothing is said to be missing for them."""
    tests = proofs()
    return [row for row in rows() if row not in tests and row not in LATER]


def unknown() -> list[str]:
    """Rows that tests name and that do not exist."""
    return sorted(set(proofs()) - set(rows()))


def _named(text: str) -> Iterator[str]:
    seen = set()
    for first, last in _NAMED.findall(text):
        for number in range(int(first), int(last or first) + 1):
            if number not in seen:
                seen.add(number)
                yield f"R{number}"


def _line(row: str, rule: str, tests: list[str]) -> str:
    shown = tests[:3]
    more = f" and {len(tests) - len(shown)} more" if len(tests) > len(shown) else ""
    by = ", ".join(f"`{test}`" for test in shown) + more
    state = "proved" if tests else LATER.get(row, "NOT PROVED")
    return f"| {row} | {rule} | {by} | {state} |\n"


def main() -> int:
    """Write the table, or with `--check` say whether it is what it should be."""
    missing, strange = unproved(), unknown()
    for row in missing:
        sys.stderr.write(f"{row} is named by no test of tests/contract or tests/client\n")
    for row in strange:
        sys.stderr.write(f"{row} is named by a test and does not exist\n")
    if "--check" in sys.argv[1:]:
        stale = not TABLE.exists() or TABLE.read_text("utf-8") != table()
        if stale:
            sys.stderr.write("docs/contract.md is not up to date; run python scripts/contract_table.py\n")
        return 1 if missing or strange or stale else 0
    TABLE.write_text(table(), "utf-8")
    return 1 if missing or strange else 0


if __name__ == "__main__":
    sys.exit(main())
