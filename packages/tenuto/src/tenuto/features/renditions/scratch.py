"""Temporary files, made for one request and sent as fast as its client reads; bounded in bytes.

They are in the data folder, because `/tmp` is often in memory, and unnamed, so that nothing is left of them
however the process ends. Incoming recordings are bounded by the number of uploads instead.
"""

import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from tenuto.errors import RateLimited, StorageFailed, Unavailable

IN_MEMORY_BYTES = 512 << 10
"""Up to this size a file is in memory and reserves nothing: the number of requests is limited."""
STEP_BYTES = 16 << 20
"""Beyond that, space is reserved in steps of this size, which bounds the number of files, too."""
SHARES = 4
"""All accounts together may use this many times the limit of one account."""
MIN_FREE_BYTES = 256 << 20
"""Kept free on the disk: jobs and the database take precedence over renditions."""


class Scratch:
    """The files of one process, in `folder` if it exists. Thread-safe."""

    def __init__(self, folder: Path, account_bytes: int) -> None:
        self._folder = folder
        self._account_bytes = account_bytes
        self.step_bytes = min(STEP_BYTES, account_bytes)
        self._reserved: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def file(self, account_id: str) -> Iterator[BinaryIO]:
        """An empty seekable file. Writing to it raises what `reserve` does."""
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=self._parent()) as file:
            bounded = _Bounded(self, cast(BinaryIO, file), account_id)
            try:
                yield cast(BinaryIO, bounded)
            finally:
                bounded.release()

    def reserve(self, account_id: str, size_bytes: int) -> None:
        """Reserve space. RateLimited: account limit; Unavailable: total limit; StorageFailed: disk full."""
        with self._lock:
            if self._reserved[account_id] + size_bytes > self._account_bytes:
                raise RateLimited(
                    f"this account has {self._account_bytes >> 20} MiB of renditions that were not read yet, "
                    "which is its limit; read them to their end first",
                    limit="scratch",
                )
            if self._reserved.total() + size_bytes > SHARES * self._account_bytes:
                raise Unavailable(
                    "Too many renditions are being downloaded just now; send the same request again.",
                    limit="process_scratch",
                )
            if shutil.disk_usage(self._parent()).free - size_bytes < MIN_FREE_BYTES:
                raise StorageFailed(f"Less than {MIN_FREE_BYTES >> 20} MiB of the disk would be free.")
            self._reserved[account_id] += size_bytes

    def release(self, account_id: str, size_bytes: int) -> None:
        """Free the space again."""
        with self._lock:
            self._reserved[account_id] -= size_bytes
            if not self._reserved[account_id]:
                del self._reserved[account_id]

    def _parent(self) -> str:
        return str(self._folder) if self._folder.is_dir() else tempfile.gettempdir()


class _Bounded:
    """A file that reserves space before it uses it.

    It has no `fileno`, with which a library could bypass it.
    """

    def __init__(self, scratch: Scratch, file: BinaryIO, account_id: str) -> None:
        self._scratch, self._file, self._account_id = scratch, file, account_id
        self._reserved_bytes = 0
        self._is_released = False
        # A thread may still be writing after its request has ended.
        self._lock = threading.Lock()
        self.read, self.seek, self.tell, self.flush = file.read, file.seek, file.tell, file.flush

    def write(self, content: Any) -> int:
        with self._lock:
            if self._is_released:
                raise ValueError("the file is closed")
            lacking = self._file.tell() + len(content) - self._reserved_bytes
            if lacking > (0 if self._reserved_bytes else IN_MEMORY_BYTES):
                step = -(-lacking // self._scratch.step_bytes) * self._scratch.step_bytes
                self._scratch.reserve(self._account_id, step)
                self._reserved_bytes += step
            return self._file.write(content)

    def release(self) -> None:
        with self._lock:
            self._is_released = True
            self._scratch.release(self._account_id, self._reserved_bytes)
