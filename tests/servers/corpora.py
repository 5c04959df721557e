"""The corpora of attacks: files, and a table with the fault of each and the required answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "corpora"


@dataclass(frozen=True)
class Attack:
    """One file of a corpus."""

    name: str
    answers: tuple[str, ...]
    """Statuses, any of which is right; `closed`: the connection ends without one. `job`: a recording that is
    admitted, because only decoding it shows that it lies, and whose job fails."""
    what: str
    path: Path

    def content(self) -> bytes:
        return self.path.read_bytes()


def attacks(kind: str) -> list[Attack]:
    """All of a kind, in the order of its table."""
    return list(_attacks(kind))


def _attacks(kind: str) -> Iterator[Attack]:
    lines = (FOLDER / f"{kind}.tsv").read_text().splitlines()
    for line in lines[1:]:
        name, answers, what = line.split("\t")
        yield Attack(name, tuple(answers.split("|")), what, FOLDER / kind / name)
