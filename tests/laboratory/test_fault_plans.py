"""What the campaign draws, and that every promise has tests that name it."""

import re

import pytest
from lab.faults import plan, promises
from lab.faults.inject import _KINDS
from lab.faults.plan import Shape
from lab.faults.report import PAGE
from lab.shared import ROOT, TESTS

from tenuto import failpoints

DRAWN = 4000


@pytest.mark.parametrize("shape", plan.SHAPES)
def test_every_kind_and_every_place_is_drawn(shape: Shape) -> None:
    """Nothing is left out by its weight; another shape's faults are not drawn."""
    drawn = [plan.draw(1, number, shape) for number in range(DRAWN)]
    passed = {kind: {fault.place for fault in drawn if fault.kind == kind} for kind in plan.kinds(shape)}

    assert set(_KINDS) == {kind for each in plan.SHAPES for kind in plan.kinds(each)}
    assert set(passed) == {fault.kind for fault in drawn}
    assert plan.places(shape) == passed[plan.PLACE_KILL]
    assert plan.places(shape, hindered=True) == passed[plan.PLACE_ERROR]
    assert (failpoints.HINDERED <= passed[plan.PLACE_KILL]) == (shape != "s3")


def test_every_promise_is_named_by_a_test() -> None:
    """lab/records/reliability.md lists who tries to break what; a promise that nobody tries is a wish."""
    assert [] == [promise for promise, files in promises.tests().items() if not files]


def test_every_named_test_is_there() -> None:
    """The page's table of faults names tests; a name that was changed is changed there, too."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text("utf-8"))
    folders = {file: ROOT if file.startswith("lab/") else TESTS for file, _ in named}

    assert len(named) > 30
    assert [] == [
        f"{file}::{name}"
        for file, name in named
        if f"def {name}(" not in (folders[file] / file).read_text("utf-8")
    ]
