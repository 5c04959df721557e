"""Writes docs/contract.md: each sentence of the contract with its evidence, each row with its tests.

    python scripts/contract_table.py [--check]

A test in tests/contract or tests/client tests the rows that its docstring names (`R19`). A row without a
test is an error. A row is proved if one of its tests failed when the service broke that row:
`python -m lab.lies` tries this and writes tests/contract/proved.toml.
tests/contract/sentences.tsv is an acceptance test that was made by hand, from the contract only.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "docs" / "requirements.md"
TABLE = ROOT / "docs" / "contract.md"
FOLDERS = (ROOT / "tests" / "contract", ROOT / "tests" / "client")
PROVED = ROOT / "tests" / "contract" / "proved.toml"
SENTENCES = ROOT / "tests" / "contract" / "sentences.tsv"

HEAD = """# The contract

Written by `python scripts/contract_table.py`.

## Sentence by sentence

An acceptance test of 2026-11-22: a tester with the contract and the documentation, but without looking at the
code, tried each sentence over HTTP and on the command line. `in one reading` means that the sentence is
ambiguous, or that it holds literally but may disappoint; the evidence says how.

"""

ROWS_HEAD = """
## Row by row

The rows are those of [requirements.md](requirements.md). The tests are those of `tests/contract`, which run
over HTTP against the service as a user starts it, on SQLite and on PostgreSQL; rules for clients are
tested by `tests/client`. A row without a test fails `make test`.

`proved` means that one of the tests failed when the service broke that row: `python -m lab.lies`
falsifies the service's answers, one at a time, and records which test fails. `tested` means that no answer
over HTTP can break the row: it is about storage, calls of an engine, a document, or clients.

| row | rule | tests | state |
|---|---|---|---|
"""

_ROW = re.compile(r"^\| (R\d+) \| (.+) \|$", re.MULTILINE)
_NAMED = re.compile(r"\bR(\d+)(?:–R(\d+))?")


def rows() -> dict[str, str]:
    """The rules by their rows' names, in order."""
    return dict(_ROW.findall(ROWS.read_text("utf-8")))


def proofs() -> dict[str, list[str]]:
    """The tests that name each row, as `file::test`."""
    tests: dict[str, list[str]] = {}
    for path in sorted(path for folder in FOLDERS for path in folder.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for row in _named(ast.get_docstring(node) or ""):
                    tests.setdefault(row, []).append(f"{path.name}::{node.name}")
    return tests


def proved() -> dict[str, str]:
    """By row, the test that failed when the service broke it."""
    if not PROVED.exists():
        return {}
    return {row: proof["noticed_by"] for row, proof in tomllib.loads(PROVED.read_text("utf-8")).items()}


def stale_proofs() -> list[str]:
    """Rows whose proof names a test that no longer tests them."""
    tests = proofs()
    return [row for row, test in proved().items() if test not in tests.get(row, [])]


def table() -> str:
    """The document."""
    tests, seen = proofs(), proved()
    lines = [_line(row, rule, tests.get(row, []), seen.get(row)) for row, rule in rows().items()]
    return HEAD + _sentences() + ROWS_HEAD + "".join(lines)


def untested() -> list[str]:
    """Rows that no test names."""
    tests = proofs()
    return [row for row in rows() if row not in tests]


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


def _sentences() -> str:
    with SENTENCES.open(encoding="utf-8", newline="") as file:
        tried = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    counts = Counter(line["verdict"] for line in tried).most_common()
    lines = [f"{len(tried)} sentences: {', '.join(f'{verdict} {count}' for verdict, count in counts)}.\n\n"]
    lines.append("| # | sentence | | evidence |\n|---|---|---|---|\n")
    section = ""
    for line in tried:
        if line["section"] != section:
            section = line["section"]
            lines.append(f"| | **{section}** | | |\n")
        lines.append(f"| {line['number']} | {line['sentence']} | {line['verdict']} | {line['evidence']} |\n")
    return "".join(lines)


def _line(row: str, rule: str, tests: list[str], proof: str | None) -> str:
    first = sorted(tests, key=lambda test: test != proof)[:3]
    more = f" and {len(tests) - len(first)} more" if len(tests) > len(first) else ""
    by = ", ".join(f"`{test}`" for test in first) + more
    state = "proved" if proof in tests else "tested" if tests else "NOT TESTED"
    return f"| {row} | {rule} | {by} | {state} |\n"


def main() -> int:
    """Write the table, or check it with `--check`."""
    missing, strange, outdated = untested(), unknown(), stale_proofs()
    for row in missing:
        sys.stderr.write(f"{row} has no test in tests/contract or tests/client\n")
    for row in strange:
        sys.stderr.write(f"{row} is named by a test and does not exist\n")
    for row in outdated:
        sys.stderr.write(f"{row}: its proof names a test that is gone; run python -m lab.lies\n")
    if "--check" in sys.argv[1:]:
        stale = not TABLE.exists() or TABLE.read_text("utf-8") != table()
        if stale:
            sys.stderr.write("docs/contract.md is not up to date; run python scripts/contract_table.py\n")
        return 1 if missing or strange or outdated or stale else 0
    TABLE.write_text(table(), "utf-8")
    return 1 if missing or strange else 0


if __name__ == "__main__":
    sys.exit(main())
