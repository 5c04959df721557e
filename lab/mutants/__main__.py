"""Does a test notice each mutant? `python -m lab.mutants [WORD …]` runs those with a word in their names.

Those that are generated from the syntax tree are tried in forked processes (`forked.py`), and those that
survive there in a copy of the tree, by tests of the service. `outcomes.tsv` has the sample, and the test that
has caught each. Those that somebody wrote, `mutants.toml`, are put into a copy of the tree, too. First the
tests pass without a mutant, or they would prove nothing. Exit code 1: one has survived.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lab.mutants import forked, generated
from lab.mutants.table import ROOT, Mutant, mutants, mutated, replaced

from without_features import copied

OUTCOMES = Path(__file__).parent / "outcomes.tsv"
TIMEOUT_S = 1800
PASSED, FAILED = 0, 1
NOBODY = "NOBODY"
NOT_RUN, SAME = "not run", "same: "
"""Of generated mutants: not tried yet; no test can see it, for the reason that follows."""
UNSEEN = (NOT_RUN, forked.SURVIVED, forked.GONE)


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    mutant: Mutant
    seen_by: str | None
    """The test that failed first; None: it survived."""
    seconds: float


def main() -> int:
    """0 when a test has seen each of the mutants that were asked for."""
    options = argparse.ArgumentParser(prog="python -m lab.mutants")
    options.add_argument("words", nargs="*", metavar="WORD", help="those with such a word in their names")
    options.add_argument("--draw", action="store_true", help="draw the sample of generated mutants anew")
    options.add_argument("--missing", action="store_true", help="only those that no test has caught yet")
    options.add_argument("--near", action="store_true", help="only the tests of a module's own folder")
    options.add_argument("--jobs", type=int, default=2, help="how many generated mutants at once")
    asked = options.parse_args()
    known = recorded()
    if asked.draw:
        write({str(name): known.get(str(name), NOT_RUN) for name in generated.sample(ROOT)})
        return 0
    rows = [
        row
        for row, outcome in known.items()
        if not outcome.startswith(SAME)
        and (outcome in UNSEEN or not asked.missing)
        and is_asked(row, asked.words)
    ]
    by_hand = [mutant for mutant in mutants() if is_asked(mutant.name, asked.words) and not asked.missing]
    survivors = [*try_generated(rows, asked.jobs, is_wide=not asked.near), *try_by_hand(by_hand)]
    print(f"{len(rows) + len(by_hand) - len(survivors)} of {len(rows) + len(by_hand)} mutants were seen")
    for name in survivors:
        print(f"SURVIVED: {name}; a test is missing")
    return 1 if survivors else 0


def is_asked(name: str, words: list[str]) -> bool:
    """Whether it has one of these words, or there are none."""
    return not words or any(word in name for word in words)


def try_generated(rows: list[str], jobs: int, *, is_wide: bool) -> list[str]:
    """Each against the tests of its part; those that no test has caught."""
    names = [generated.Name.of(row) for row in rows]

    def tell(name: generated.Name, outcome: str) -> None:
        print(f"{name!s:80} {outcome}", flush=True)
        write(recorded() | {str(name): outcome})

    for part in generated.PARTS:
        own = [name for name in names if name.part == part]
        if own and not forked.run(part, own, ROOT, jobs=jobs, is_wide=is_wide, tell=tell):
            raise SystemExit(f"the tests of {part.modules} fail without any mutant")
        outcomes = recorded()
        survivors = [name for name in own if outcomes[str(name)] == forked.SURVIVED]
        if survivors and is_wide:
            try_served(part, survivors, tell)
    outcomes = recorded()
    return [row for row in rows if outcomes[row] == forked.SURVIVED]


def try_served(part: generated.Part, names: list[generated.Name], tell: forked.Tell) -> None:
    """Each in a copy of the tree, against the tests of a service of that code, which is another process."""
    tests = ["-m", "not measured", "-k", "not mutant", *part.served]
    with tempfile.TemporaryDirectory(prefix="tenuto-mutants-") as folder:
        tree = copied(Path(folder))
        sound, said = run(tree, tests, stop=True)
        if sound != PASSED:
            raise SystemExit(f"{said}\nthe tests of the service fail without any mutant")
        for name in names:
            made = generated.mutated(name, tree)
            assert made is not None, "it has survived"
            with replaced(dict([made])):
                code, said = run(tree, tests, stop=True)
            tell(name, forked.SURVIVED if code == PASSED else first_failed(said).partition("[")[0])


def try_by_hand(chosen: list[Mutant]) -> list[str]:
    """In a copy of the tree, each against its own tests; those that no test has caught."""
    survivors = []
    with tempfile.TemporaryDirectory(prefix="tenuto-mutants-") as folder:
        tree = copied(Path(folder))
        for mutant in chosen:
            sound, said = run(tree, list(mutant.seen_by), stop=True)
            if sound != PASSED:
                raise SystemExit(f"{said}\nthe tests of {mutant.name} fail without any mutant")
            outcome = show(judge(tree, mutant))
            survivors += [mutant.name] if outcome.seen_by is None else []
    return survivors


def recorded() -> dict[str, str]:
    """The sample of generated mutants, and what became of each."""
    return dict(line.split("\t") for line in OUTCOMES.read_text("utf-8").splitlines())


def write(rows: dict[str, str]) -> None:
    """The whole table."""
    OUTCOMES.write_text("".join(f"{row}\t{outcome}\n" for row, outcome in rows.items()), "utf-8")


def judge(tree: Path, mutant: Mutant) -> Outcome:
    """Put the mutant in and run its tests until one fails."""
    began = time.monotonic()
    with replaced(mutated(mutant, tree)):
        code, said = run(tree, list(mutant.seen_by), stop=True)
    seconds = time.monotonic() - began
    if code not in (PASSED, FAILED):
        raise SystemExit(f"{mutant.name}: pytest ended with {code}, which says nothing of the mutant\n{said}")
    return Outcome(mutant, None if code == PASSED else first_failed(said), seconds)


def run(tree: Path, tests: list[str], *, stop: bool) -> tuple[int, str]:
    """pytest on a tree; its exit code and what it printed."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "--tb=line", *(["-x"] if stop else []), *tests]
    # The tree's own sources come before those that are installed.
    sources = os.pathsep.join(map(str, sorted(tree.glob("*/*/src"))))
    environment = os.environ | {"PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    return done.returncode, done.stdout + done.stderr


def first_failed(said: str) -> str:
    """The test that pytest says has failed first."""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?)(?: - .*)?$", said, re.MULTILINE)
    return failed[1] if failed else "a test"


def show(outcome: Outcome) -> Outcome:
    """One line of the table."""
    seen = outcome.seen_by or NOBODY
    print(f"{outcome.mutant.name:40} {seen:110.110} {outcome.seconds:6.1f} s", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
