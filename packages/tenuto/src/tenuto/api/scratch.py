"""Files for what is made for one request and then sent as fast as its client reads; bounded in bytes.

They lie in the data folder, because `/tmp` is often in memory, and have no name: nothing is left of one,
however the process ends. Recordings on their way in are bounded by the number of uploads instead.
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
"""What a file has up to here is in memory, and counts as nothing: requests are counted."""
STEP_BYTES = 16 << 20
"""Beyond, space is reserved in such steps, which bound the number of files, too."""
SHARES = 4
"""So many accounts may have all that one may have, and no more altogether."""
MIN_FREE_BYTES = 256 << 20
"""Of the disk: jobs and the database come before renditions."""


class Scratch:
    """The files of one process, in `folder` if there is one. From any thread."""

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
        """RateLimited: the account has as much as it may; Unavailable: all have; StorageFailed: no space."""
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
        """The space is free again."""
        with self._lock:
            self._reserved[account_id] -= size_bytes
            if not self._reserved[account_id]:
                del self._reserved[account_id]

    def _parent(self) -> str:
        return str(self._folder) if self._folder.is_dir() else tempfile.gettempdir()


class _Bounded:
    """A file that reserves its space before it takes it.

    It has no `fileno`, by which a library could write past it.
    """

    def __init__(self, scratch: Scratch, file: BinaryIO, account_id: str) -> None:
        self._scratch, self._file, self._account_id = scratch, file, account_id
        self._reserved_bytes = 0
        self._is_released = False
        # A thread may still write when its request has ended.
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
