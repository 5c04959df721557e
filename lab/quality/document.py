"""lab/records/quality.md: a head about plain speech, then a section for each other measurement. Each is
written anew by the program that measures it, and the others stay as they are.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "lab" / "records" / "quality.md"


def provenance() -> str:
    """A section's first sentence."""
    return f"Written by `make quality` {circumstances()}."


def circumstances() -> str:
    """When, at which commit and on what it was measured."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    today = datetime.now(UTC).date().isoformat()
    return f"on {today} at commit {commit}, on {os.cpu_count()} processor cores"


def write_head(text: str) -> None:
    """Put a text in front of all sections, in the place of what is there."""
    DOCUMENT.write_text("\n".join([text.strip() + "\n", *_sections()]), "utf-8")


def write_section(title: str, lines: Sequence[str]) -> None:
    """Put a section in the place of the one with this title, or at the end."""
    sections = _sections()
    new = "\n".join([f"## {title}", "", *lines]).strip() + "\n"
    places = [at for at, section in enumerate(sections) if section.startswith(f"## {title}\n")]
    if places:
        sections[places[0]] = new
    else:
        sections.append(new)
    DOCUMENT.write_text("\n".join([_head(), *sections]), "utf-8")


def _head() -> str:
    return DOCUMENT.read_text("utf-8").split("\n## ")[0].strip() + "\n"


def _sections() -> list[str]:
    return [f"## {section.strip()}\n" for section in DOCUMENT.read_text("utf-8").split("\n## ")[1:]]
