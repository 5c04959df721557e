"""docs/contract.md is what the tests say, and no row of the contract is without one."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_row_has_a_test_and_the_table_shows_it() -> None:
    """What fails here says which row is proved by nothing, or that the table was not written anew."""
    done = subprocess.run(
        [sys.executable, "scripts/contract_table.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )

    assert (0, "") == (done.returncode, done.stderr)
