"""The table of the tiers and its page name folders that are there; two targets run every test once."""

import ast
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scripts import contract_table

from tiers import ADVERSITY, ALWAYS, FOLDERS, VARIANT, VARIANTS, is_variant

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PAGE = ROOT / "docs" / "testing.md"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
WHOLE = re.compile(r"pytest\.mark\.variant\('\w+'\)")
"""A mark that is for all parameters of a test."""


def test_the_page_of_the_tiers_names_every_folder_that_has_one() -> None:
    """And each of them exists, in the table as on the page."""
    named = set(re.findall(r"`tests/([\w/]+)`", PAGE.read_text("utf-8")))

    assert not set(FOLDERS) - named
    assert not [folder for folder in {*FOLDERS, *named, *ALWAYS} if not (TESTS / folder).is_dir()]


def test_the_page_explains_every_reason_for_a_variant() -> None:
    """As the table does, in its order."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert list(VARIANTS.items()) == rows


def test_every_test_is_run_by_one_of_two_targets() -> None:
    """`make test` leaves out variants and adversity, `make test-all` runs just these, and both run in CI.

    `make test-core` and `make check`, which come first, run the core's tests and the tidy rules.
    """
    core, first, second = runs("test-core"), runs("test"), runs("test-all")
    chosen = ["-m", f"not {VARIANT} and not {ADVERSITY}"]

    assert [chosen] == core
    assert [[*chosen, "--ignore=tests/test_tidy.py", "--ignore=tests/core"]] == first
    assert [["-m", f"{VARIANT} or {ADVERSITY}"]] == second
    assert re.search(r"^test: .*\bcheck test-core\b", MAKEFILE, re.MULTILINE)
    assert ["tests/test_tidy.py"] == [name for run in runs("check-rest") for name in run if "/" in name]
    assert "mark.variant" not in text(ROOT / "tests" / "test_tidy.py")
    assert {"make test", "make test-all"} <= set(text(ROOT / ".ci" / "run").splitlines())


def test_no_row_of_the_contract_is_left_to_variants() -> None:
    """`make test` proves each at least once."""
    left = {test for path in TESTS.rglob("test_*.py") for test in variants_of(path)}
    alone = {row for row, tests in contract_table.proofs().items() if left.issuperset(tests)}

    assert left
    assert set() == alone


def test_a_mark_makes_a_variant_for_a_reason_where_one_may_be() -> None:
    """Of all parameters, or of the one that it names. A crash test can't be one, and slow is no reason."""
    page, core = "features/studio/browser/test_x.py", "core/job/test_x.py"

    assert is_variant(item(page, [("page", None)], []))
    assert is_variant(item(page, [("language", "zh"), ("language", "ja")], ["ja"]))
    assert not is_variant(item(page, [("language", "zh")], ["en"]))
    assert not is_variant(item("crash/test_x.py", [], ["postgresql"]))
    for file, reason in ((page, "slow"), ("crash/test_x.py", "database"), (core, "depth")):
        with pytest.raises(pytest.UsageError, match=r"not one of the reasons|has no variants"):
            is_variant(item(file, [(reason, None)], []))


def text(path: Path) -> str:
    return path.read_text("utf-8")


def runs(target: str) -> list[list[str]]:
    """How a target calls pytest: its arguments but for the number of processes and what is printed."""
    recipe = MAKEFILE.partition(f"\n{target}:")[2].partition("\n\n")[0]
    calls = re.findall(r"-m (?:pytest|tests\.without_features) (.*)", recipe)
    left_out = re.compile(r"\$\(AGAIN\) -n \$\(WORKERS\) --dist worksteal|--durations\S*")
    return [shlex.split(left_out.sub("", call)) for call in calls]


def variants_of(path: Path) -> list[str]:
    """The tests of a file that are variants with all their parameters, as `file::test`."""
    tree = ast.parse(text(path))
    assigned = [ast.unparse(one.value) for one in tree.body if isinstance(one, ast.Assign)]
    is_whole = any(WHOLE.search(value) for value in assigned if "pytest.mark" in value)
    tests = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
    return [
        f"{path.name}::{one.name}"
        for one in tests
        if is_whole or any(WHOLE.fullmatch(ast.unparse(each)) for each in one.decorator_list)
    ]


def item(file: str, marks: list[tuple[str, str | None]], values: list[str]) -> pytest.Item:
    """A collected test with these marks and parameters."""
    found = [pytest.mark.variant(reason, only=only).mark for reason, only in marks]
    stub = SimpleNamespace(
        path=TESTS / file,
        nodeid=file,
        iter_markers=lambda name: found,
        callspec=SimpleNamespace(params=dict(enumerate(values))),
    )
    return cast(pytest.Item, cast(Any, stub))
