"""What a runtime compiled, kept in a folder, so that the next load need not compile it.

The name of a file is a hash of everything that its content depends on; after the content comes a hash of
both. So a file that is damaged, cut short or of another machine is never given to a runtime: it is made
again. Processes may write the same file at once: each writes its own, which takes the name when it is whole.
Knows no runtime and no model.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import mmap
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

SUFFIX, PARTIAL = ".compiled", ".partial"
MOST_FILES = 6
"""Those used last stay: machines of different kinds may share a folder, and versions follow each other."""
ABANDONED_S = 3600
"""A file that is not whole after an hour belongs to a process that died."""
HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes for a runtime, which does not copy them: they must live as long as what it makes of them."""

    array: npt.NDArray[np.uint8]
    file: mmap.mmap | None = None

    def release(self) -> None:
        """Give back the memory of what was read; the runtime reads it from the file if it needs it again."""
        if self.file is not None:
            self.file.madvise(mmap.MADV_DONTNEED)


class Kept:
    """The place of one content. `depends_on`: every text that decides what it is."""

    def __init__(self, folder: Path, depends_on: Sequence[str]) -> None:
        self._folder = folder
        self._key = hashlib.sha256("\0".join(depends_on).encode()).digest()
        self.path = folder / f"{self._key.hex()[:32]}{SUFFIX}"

    def read(self) -> Content | None:
        """The content, mapped; None if there is none that is whole."""
        try:
            with self.path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # ValueError: an empty file
            return None
        size = len(mapped) - HASH_BYTES
        with memoryview(mapped) as whole:
            if size < 0 or whole[size:] != self._hash(whole[:size]):
                return None
        with contextlib.suppress(OSError):
            os.utime(self.path)
        return Content(_writable(mapped, size), mapped)

    def written(self, content: Content) -> tuple[Content, str]:
        """The content as it is kept from now on, and why it cannot be, or ""."""
        try:
            self.write(content)
        except OSError as error:
            return content, f"compiled at each load, for {self._folder} cannot be written: {error.strerror}"
        return self.read() or content, ""

    def write(self, content: Content) -> None:
        """Keep it. Raises OSError if the folder cannot be written or is full; then nothing is left in it."""
        self._folder.mkdir(exist_ok=True)
        partial = self.path.with_suffix(f".{secrets.token_hex(8)}{PARTIAL}")
        try:
            with partial.open("xb") as file:
                file.write(content.array.data)
                file.write(self._hash(content.array.data))
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


def _writable(mapped: mmap.mmap, size: int) -> npt.NDArray[np.uint8]:
    """An array that looks as if it could be written, as runtimes want it. A process that wrote to it would be
    killed: the pages are read-only."""
    address = np.frombuffer(mapped, np.uint8).ctypes.data
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
