"""The mutants as `mutants.toml` has them, and how one is put into a tree and taken out again."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Edit:
    """One piece of text, and what stands there instead."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """One fault, what it breaks, and the tests that must see it."""

    name: str
    breaks: str
    seen_by: tuple[str, ...]
    edits: tuple[Edit, ...]


def mutants() -> list[Mutant]:
    """All of them, in the order of the file."""
    table: dict[str, Any] = tomllib.loads((HERE / "mutants.toml").read_text("utf-8"))
    return [
        Mutant(
            each["name"],
            each["breaks"],
            tuple(each["seen_by"]),
            tuple(Edit(**edit) for edit in each["edit"]),
        )
        for each in table["mutant"]
    ]


def mutated(mutant: Mutant, root: Path) -> dict[Path, str]:
    """The files of a tree as this mutant has them; ValueError when its text is not there just once."""
    texts: dict[Path, str] = {}
    for edit in mutant.edits:
        path = root / edit.file
        text = texts.get(path) or path.read_text("utf-8")
        if text.count(edit.old) != 1:
            raise ValueError(
                f"{mutant.name}: its text stands {text.count(edit.old)} times in {edit.file}, not once;"
                " bring lab/mutants/mutants.toml up to date"
            )
        texts[path] = text.replace(edit.old, edit.new)
    return texts


@contextmanager
def replaced(texts: dict[Path, str]) -> Iterator[None]:
    """These files with other texts, until the block ends."""
    before = {path: path.read_text("utf-8") for path in texts}
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    try:
        yield
    finally:
        for path, text in before.items():
            path.write_text(text, "utf-8")
