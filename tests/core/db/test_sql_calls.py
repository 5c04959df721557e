"""The typed calls of named statements are those of the SQL files."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_calls_are_those_of_the_statements() -> None:
    """What fails here wants `python scripts/sql_calls.py`."""
    done = subprocess.run(
        [sys.executable, "scripts/sql_calls.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
