"""The mutants fit the tree: each can be made. `make mutants` runs them."""

import ast
from collections.abc import Iterator

from lab.mutants import generated
from lab.mutants.table import ROOT, Mutant, mutants, mutated

MUTANTS = mutants()


def test_each_mutant_can_be_applied_and_its_tests_exist() -> None:
    """Its text stands in the tree just once, and what it makes of it is still Python; a test that was renamed
    would see nothing.
    """
    assert [] == [f"{mutant.name}: {fault}" for mutant in MUTANTS for fault in faults(mutant)]


def test_a_generated_mutant_changes_one_function_and_is_found_again() -> None:
    """By its name alone; one whose function is away is no error, since functions move and go."""
    names = generated.sample(ROOT)
    made = [generated.mutated(name, ROOT) for name in names]

    assert names == [generated.Name.of(str(name)) for name in names]
    assert all(text is not None and ast.parse(text[1]) for text in made)
    assert generated.mutated(generated.Name("job/finish", "nobody", "statement dropped", 1), ROOT) is None


def is_there(test: str) -> bool:
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.is_file() and f"def {name.rpartition('::')[2]}(" in path.read_text("utf-8")


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
        if not (is_there(test) if "::" in test else (ROOT / test).is_file()):
            yield f"{test} is not there"
