"""Paths as users write them."""

from __future__ import annotations

from pathlib import Path


def expanded(path: str | Path) -> Path:
    """The path with `~` as a home folder. `~name` stays as it is if no user has that name, as in a shell."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
