"""The list of mutants fits the tree: each text is there, each test exists. `make mutants` runs them."""

import ast
from collections.abc import Iterator

from mutants.table import ROOT, Mutant, mutants, mutated

MUTANTS = mutants()


def test_each_mutant_can_be_applied_and_its_tests_exist() -> None:
    """Its text stands in the tree just once, and what it makes of it is still Python; a test that was renamed
    would see nothing.
    """
    assert [] == [f"{mutant.name}: {fault}" for mutant in MUTANTS for fault in faults(mutant)]


def test_there_are_enough_of_them() -> None:
    """Each has a name of its own and says which promise it breaks."""
    assert len(MUTANTS) >= 18
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert all(": " in mutant.breaks for mutant in MUTANTS)


def faults(mutant: Mutant) -> Iterator[str]:
    """What keeps `make mutants` from running it."""
    try:
        for path, text in mutated(mutant, ROOT).items():
            if text == path.read_text("utf-8"):
                yield f"{path.name} stays as it is"
            if path.suffix == ".py":
                ast.parse(text)
    except (AssertionError, OSError, SyntaxError, ValueError) as error:
        yield str(error)
    for test in mutant.seen_by:
        file, _, name = test.partition("::")
        if not (ROOT / file).is_file():
            yield f"{file} is not there"
        elif name and f"\ndef {name}(" not in (ROOT / file).read_text("utf-8"):
            yield f"{test} is not there"
