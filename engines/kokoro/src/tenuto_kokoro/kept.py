"""Bytes that are slow to compute, stored in a folder for the next load.

The name of a file is a hash of everything that its content depends on; after the content comes a hash of
both. So a file that is damaged, truncated or from another machine is never used, but computed again.
Processes may write the same file at once: each writes its own, and renames it when it is complete. Knows no
model.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

SUFFIX, PARTIAL = ".compiled", ".partial"
MOST_FILES = 6
"""Those used last stay: machines of different kinds may share a folder, and versions follow each other."""
ABANDONED_S = 3600
"""A file that is not whole after an hour belongs to a process that died."""
HASH_BYTES = 32


class Kept:
    """The place of one content. `depends_on`: every text that decides what it is."""

    def __init__(self, folder: Path, depends_on: Sequence[str]) -> None:
        self._folder = folder
        self._key = hashlib.sha256("\0".join(depends_on).encode()).digest()
        self.path = folder / f"{self._key.hex()[:32]}{SUFFIX}"

    def read(self) -> memoryview | None:
        """The content, mapped; None if there is none that is whole."""
        try:
            with self.path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # ValueError: an empty file
            return None
        whole = memoryview(mapped)
        size = len(whole) - HASH_BYTES
        if size < 0 or whole[size:] != self._hash(whole[:size]):
            return None
        with contextlib.suppress(OSError):
            os.utime(self.path)
        return whole[:size]

    def written(self, content: memoryview) -> tuple[memoryview, str]:
        """The content as it is kept from now on, and why it cannot be, or ""."""
        try:
            self.write(content)
        except OSError as error:
            return content, f"optimised at each load, for {self._folder} cannot be written: {error.strerror}"
        return self.read() or content, ""

    def write(self, content: memoryview) -> None:
        """Keep it. Raises OSError if the folder cannot be written or is full; then nothing is left in it."""
        self._folder.mkdir(exist_ok=True)
        partial = self.path.with_suffix(f".{secrets.token_hex(8)}{PARTIAL}")
        try:
            with partial.open("xb") as file:
                file.write(content)
                file.write(self._hash(content))
            partial.replace(self.path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        self._prune()

    def _hash(self, content: memoryview) -> bytes:
        return hashlib.sha256(self._key + hashlib.sha256(content).digest()).digest()

    def _prune(self) -> None:
        """Another process may do the same: a file that is already gone is not an error."""
        with contextlib.suppress(OSError):
            used = {path: path.stat().st_mtime for path in self._folder.iterdir()}
            now = used[self.path]
            whole = sorted((path for path in used if path.suffix == SUFFIX), key=lambda path: -used[path])
            dead = [path for path in used if path.suffix == PARTIAL and used[path] < now - ABANDONED_S]
            for path in (*whole[MOST_FILES:], *dead):
                path.unlink(missing_ok=True)
