"""Files get their names without replacing anybody else's. It knows paths, not jobs.

A complete file is linked to its name, which fails if something has that name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from pathlib import Path

from tenuto_client.errors import InvalidSetting, utf8

MOST_NAMES = 1000
"""How many numbered names are tried."""


def scratch(target: Path, job_id: str) -> Path:
    """A hidden file beside the target, for what has no name yet."""
    return target.with_name(f".{hashlib.sha256(utf8(job_id)).hexdigest()[:16]}.tenuto{target.suffix}")


def place(complete: Path, target: Path, *, own: Collection[str] = ()) -> Path:
    """Give a complete file its name, or a numbered one if another file has it. InvalidSetting, OSError.

    A file of that name with the same content is taken for this one: an earlier run placed it. One whose
    SHA-256 is in `own` is replaced.
    """
    for path in (target, *(numbered(target, number) for number in range(2, MOST_NAMES))):
        try:
            _link(complete, path)
        except FileExistsError:
            existing = _sha256(path)
            if existing is not None and existing == _sha256(complete):
                complete.unlink(missing_ok=True)
            elif path == target and existing in own:
                complete.replace(path)
            else:
                continue
        return path
    complete.unlink(missing_ok=True)
    raise InvalidSetting(f"too many files are named {target.name}, {numbered(target, 2).name} and so on")


def numbered(path: Path, number: int) -> Path:
    """A name like this one."""
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def sha256_of(path: Path, first: bytes) -> list[str]:
    """The SHA-256 of a file whose first line is this; empty if it is another one, or none."""
    try:
        with path.open("rb") as file:
            is_it = file.readline(len(first) + 2).rstrip() == first
    except OSError:
        return []
    sha256 = _sha256(path)
    return [sha256] if is_it and sha256 is not None else []


def _link(complete: Path, path: Path) -> None:
    """Raises FileExistsError if there is something of that name."""
    try:
        os.link(complete, path)
    except FileExistsError:
        raise
    except OSError:
        # Each system without hard links refuses one in its own way: an empty file takes the name.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            complete.replace(path)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return
    complete.unlink()


def _sha256(path: Path) -> str | None:
    """None for what is not a readable file."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
