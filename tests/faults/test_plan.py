"""What the campaign draws, and that every promise has tests that name it."""

import re

import pytest

from faults import plan, promises
from faults.inject import _KINDS
from faults.plan import Dialect
from faults.promises import TESTS
from faults.report import PAGE
from tenuto import failpoints

DRAWN = 4000


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_fault_is_drawn_from_seed_and_number_alone(dialect: Dialect) -> None:
    """The same again is the same; another number, or another seed, is another fault."""
    once, again, other = ([plan.draw(seed, n, dialect) for n in range(50)] for seed in (1, 1, 2))

    assert once == again
    assert [] == [fault for fault, unlike in zip(once, other, strict=True) if fault == unlike]
    assert len(once) == len({fault.dice for fault in once})


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_every_kind_and_every_place_is_drawn(dialect: Dialect) -> None:
    """Nothing is left out by its weight; the other database's faults are not drawn."""
    drawn = [plan.draw(1, number, dialect) for number in range(DRAWN)]
    others = {plan.LOCK_FILE} if dialect == "postgresql" else set(_KINDS) & plan.OF_POSTGRESQL

    assert set(_KINDS) - others == {fault.kind for fault in drawn}
    assert plan.SERVED == {fault.place for fault in drawn if fault.kind == plan.PLACE_KILL}
    assert failpoints.HINDERED == {fault.place for fault in drawn if fault.kind == plan.PLACE_ERROR}


def test_every_promise_is_named_by_a_test() -> None:
    """docs/reliability.md lists who tries to break what; a promise that nobody tries is a wish."""
    assert [] == [promise for promise, files in promises.tests().items() if not files]


def test_every_named_test_is_there() -> None:
    """The page's table of faults names tests; a name that was changed is changed there, too."""
    named = re.findall(r"`(\w+/\w+\.py)::(\w+)`", PAGE.read_text("utf-8"))

    assert len(named) > 30
    assert [] == [
        f"{file}::{name}" for file, name in named if f"def {name}(" not in (TESTS / file).read_text("utf-8")
    ]
