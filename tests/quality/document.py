"""docs/quality.md: a part for each measurement, each written anew by the program that measures it."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "quality.md"


def provenance() -> str:
    """When, at which commit and on what it was measured."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    today = datetime.now(UTC).date().isoformat()
    return f"Written by `make quality` on {today} at commit {commit}, on {os.cpu_count()} processor cores."


def write_part(title: str, body: str) -> None:
    """Put a part in the place of the one with this title, or at the end; the others stay as they are."""
    text = DOCUMENT.read_text("utf-8") if DOCUMENT.exists() else ""
    parts = [f"# {part.strip()}\n" for part in f"\n{text}".split("\n# ")[1:]]
    new = f"# {title}\n\n{body.strip()}\n"
    places = [at for at, part in enumerate(parts) if part.startswith(f"# {title}\n")]
    if places:
        parts[places[0]] = new
    else:
        parts.append(new)
    DOCUMENT.write_text("\n".join(parts), "utf-8")
