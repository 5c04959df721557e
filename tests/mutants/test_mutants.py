"""The list of mutants fits the tree: each text is there, each test exists. `make mutants` runs them."""

import ast

import pytest

from mutants.table import ROOT, Mutant, mutants, mutated

MUTANTS = mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_applied(mutant: Mutant) -> None:
    """Its text stands in the tree just once, and what it makes of it is still Python."""
    for path, text in mutated(mutant, ROOT).items():
        assert text != path.read_text("utf-8")
        if path.suffix == ".py":
            ast.parse(text)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_see_it_exist(mutant: Mutant) -> None:
    """A test that was renamed would see nothing."""
    for test in mutant.seen_by:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file(), test
        assert not name or f"\ndef {name}(" in (ROOT / path).read_text("utf-8"), test


def test_there_are_enough_of_them() -> None:
    """Each has a name of its own and says which promise it breaks."""
    assert len(MUTANTS) >= 18
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert all(": " in mutant.breaks for mutant in MUTANTS)
