"""Runs every mutant, or some, against the tests that must see it: `python -m tests.mutants [NAME …]`.

In a copy of the tree, never in the tree itself, a few mutants at a time. First their tests pass without a
mutant, or they would prove nothing; then each mutant is put in, and one of its tests has to fail. Exit code 1
when a mutant survives. With `--record FILE` a run that was stopped continues where it was.
"""

import argparse
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
TIMEOUT_S = 1800
PASSED, FAILED = 0, 1
NOBODY = "NOBODY"
AT_ONCE = 4
"""Mutants whose tests are run together without any."""


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    mutant: Mutant
    seen_by: str | None
    """The test that failed first; None: it survived."""
    seconds: float


def main() -> int:
    """0 when a test has seen each of the mutants that were asked for."""
    options = argparse.ArgumentParser(prog="python -m tests.mutants")
    options.add_argument("names", nargs="*", metavar="NAME", help="these; without any, all")
    options.add_argument(
        "--since", metavar="COMMIT", help="those whose code or tests have changed since then"
    )
    options.add_argument(
        "--record", type=Path, metavar="FILE", help="outcomes, a line each; what it has is not run"
    )
    asked = options.parse_args()
    done = recorded(asked.record)
    chosen = [mutant for mutant in mutants() if not asked.names or mutant.name in asked.names]
    if asked.since is not None:
        changed = changed_since(asked.since)
        chosen = [mutant for mutant in chosen if touches(mutant, changed)]
    if not chosen:
        print("there is no such mutant; tests/mutants/mutants.toml lists them")
        return 2
    chosen = [mutant for mutant in chosen if mutant.name not in done]
    print(f"{len(chosen)} mutants to run, {len(done)} recorded", flush=True)
    survivors = []
    with tempfile.TemporaryDirectory(prefix="tenuto-mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        for first in range(0, len(chosen), AT_ONCE):
            part = chosen[first : first + AT_ONCE]
            tests = sorted({test for mutant in part for test in mutant.seen_by})
            sound, said = run(tree, tests, stop=False)
            if sound != PASSED:
                print(said)
                print("these tests fail without any mutant; what they say of mutants would mean nothing")
                return 1
            for mutant in part:
                outcome = tell(judge(tree, mutant))
                record(asked.record, outcome)
                survivors += [mutant.name] if outcome.seen_by is None else []
    print(f"{len(chosen) + len(done) - len(survivors)} of {len(chosen) + len(done)} mutants were seen")
    for name in survivors:
        print(f"SURVIVED: {name}; a test is missing")
    return 1 if survivors else 0


def recorded(file: Path | None) -> dict[str, str]:
    """Which test caught each mutant of an earlier run; those that none caught are run again."""
    if file is None or not file.exists():
        return {}
    lines = file.read_text("utf-8").splitlines()
    outcomes = {name: seen_by for name, seen_by, _ in (line.split("\t") for line in lines)}
    return {name: seen_by for name, seen_by in outcomes.items() if seen_by != NOBODY}


def record(file: Path | None, outcome: Outcome) -> None:
    """One line more."""
    if file is not None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"{outcome.mutant.name}\t{outcome.seen_by or NOBODY}\t{outcome.seconds:.1f}\n")


def changed_since(commit: str) -> set[str]:
    """The files that differ from a commit."""
    command = ["git", "diff", "--name-only", commit]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(listed.splitlines())


def touches(mutant: Mutant, files: set[str]) -> bool:
    """Whether its text or one of its tests is in these files."""
    own = {edit.file for edit in mutant.edits} | {test.partition("::")[0] for test in mutant.seen_by}
    return bool(own & files)


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
    seen = outcome.seen_by or NOBODY
    print(f"{outcome.mutant.name:40} {seen:110.110} {outcome.seconds:6.1f} s", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
