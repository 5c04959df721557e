"""The checkout that tests run in: which commit a record of them may name."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
TRIED = ("packages", "engines", "tests/servers")
"""What every measured service depends on."""


def commit(*folders: str, but: Path) -> str:
    """The commit that is tried. ValueError if there is none, or if the service, our servers or these folders
    differ from it; the record itself, `but`, may.
    """
    try:
        tried = (*TRIED, *folders, f":!{but.relative_to(ROOT)}")
        if changes := _git("status", "--porcelain", "--", *tried):
            raise ValueError(f"a record names a commit; commit these first:\n{changes}")
        return _git("rev-parse", "--short=10", "HEAD")
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"a record names a commit, and this is not a checkout: {error}") from error


def today() -> str:
    """The date, UTC."""
    return datetime.now(UTC).date().isoformat()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
