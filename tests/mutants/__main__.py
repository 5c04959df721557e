"""Runs every mutant against the tests that must see it: `python -m tests.mutants [NAME …]`.

In a copy of the tree, never in the tree itself. First the tests pass without a mutant, or they would prove
nothing; then each mutant is put in, and one of its tests has to fail. Exit code 1 when a mutant survives.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.table import ROOT, Mutant, applied, mutants

COPIED = (
    "packages",
    "engines",
    "contrib",
    "tests",
    "docs",
    "examples",
    "pyproject.toml",
    "openapi.yaml",
    "README.md",
    "Makefile",
)
TIMEOUT_S = 600
PASSED, FAILED = 0, 1


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    mutant: Mutant
    seen_by: str | None
    """The test that failed first; None: it survived."""
    seconds: float


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in mutants() if not names or mutant.name in names]
    if not chosen:
        print("there is no such mutant; tests/mutants/mutants.toml lists them")
        return 2
    with tempfile.TemporaryDirectory(prefix="tenuto-mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        sound, said = run(tree, sorted({test for mutant in chosen for test in mutant.seen_by}), stop=False)
        if sound != PASSED:
            print(said)
            print("the tests fail without any mutant; what they say of mutants would mean nothing")
            return 1
        print(f"{len(chosen)} mutants; without one, all their tests pass", flush=True)
        outcomes = [tell(judge(tree, mutant)) for mutant in chosen]
    survivors = [outcome.mutant for outcome in outcomes if outcome.seen_by is None]
    print(f"{len(outcomes) - len(survivors)} of {len(outcomes)} mutants were seen")
    for mutant in survivors:
        print(f"SURVIVED: {mutant.name} ({mutant.breaks}); a test is missing")
    return 1 if survivors else 0


def judge(tree: Path, mutant: Mutant) -> Outcome:
    """Put the mutant in and run its tests until one fails."""
    began = time.monotonic()
    with applied(mutant, tree):
        code, said = run(tree, list(mutant.seen_by), stop=True)
    seconds = time.monotonic() - began
    if code not in (PASSED, FAILED):
        raise SystemExit(f"{mutant.name}: pytest ended with {code}, which says nothing of the mutant\n{said}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?)(?: - .*)?$", said, re.MULTILINE)
    seen_by = None if code == PASSED else failed[1] if failed else "a test"
    return Outcome(mutant, seen_by, seconds)


def run(tree: Path, tests: list[str], *, stop: bool) -> tuple[int, str]:
    """pytest on a tree; its exit code and what it printed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "--durations=0",
        "--tb=line",
    ]
    done = subprocess.run(
        [*command, *(["-x"] if stop else []), *tests],
        cwd=tree,
        # The tree's own sources come before those that are installed.
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(map(str, sorted(tree.glob("*/*/src")))),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return done.returncode, done.stdout + done.stderr


def copy_tree(tree: Path) -> None:
    """All that tests read, without what was built."""
    leave_out = shutil.ignore_patterns("__pycache__", "node_modules", "*.egg-info")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=leave_out, symlinks=True)
        elif source.exists():
            shutil.copy2(source, tree / name)


def tell(outcome: Outcome) -> Outcome:
    """One line of the table."""
    seen = outcome.seen_by or "NOBODY"
    print(f"{outcome.mutant.name:40} {seen:110.110} {outcome.seconds:6.1f} s", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
