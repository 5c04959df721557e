"""Passes a large body from the event loop to the thread that stores it, a few blocks ahead at most.

Also limits how many uploads an account and this process have at once; each takes a thread.
"""

import asyncio
import queue
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from tenuto.config import Settings
from tenuto.db.database import Transaction
from tenuto.errors import RateLimited, StorageFailed, Unavailable
from tenuto.file import inputs
from tenuto.file.blob import BlobStore

T = TypeVar("T")

BLOCK_BYTES = 1 << 20
BLOCKS_AHEAD = 4
"""Blocks of an upload that may wait for its thread; this bounds its memory."""
MAX_UPLOADS = 32
"""At once in this process."""
RESERVED_UPLOADS = 8
"""Of these, reserved for accounts without an upload in progress."""
ABANDON_S = 30.0
"""How long to wait for a thread that was asked to stop."""


class Abandoned(Exception):
    """The rest of the body will not come."""


class Uploads:
    """The uploads in progress. Used by the event loop alone."""

    def __init__(self, per_account: int) -> None:
        self._per_account = per_account
        self._in_progress: Counter[str] = Counter()
        self.threads = ThreadPoolExecutor(MAX_UPLOADS, thread_name_prefix="upload")

    @contextmanager
    def slot(self, account_id: str) -> Iterator[None]:
        """A slot for one upload. Raises RateLimited (0 per account: no limit) and Unavailable.

        The last slots are for accounts without an upload: a few accounts with slow uploads shut nobody out.
        """
        if self._per_account and self._in_progress[account_id] >= self._per_account:
            raise RateLimited(
                f"this account already has {self._per_account} uploads in progress, its limit",
                limit="uploads",
            )
        total, is_first = self._in_progress.total(), account_id not in self._in_progress
        if total >= MAX_UPLOADS - (0 if is_first else RESERVED_UPLOADS):
            raise Unavailable(
                "Too many uploads are in progress; nothing was stored, send the same again.",
                limit="process_uploads",
            )
        self._in_progress[account_id] += 1
        try:
            yield
        finally:
            self._in_progress[account_id] -= 1
            if not self._in_progress[account_id]:
                del self._in_progress[account_id]

    async def through(self, pieces: AsyncIterator[bytes], work: Callable[[Iterator[bytes]], T]) -> T:
        """Run `work` in a thread on the body in blocks of 1 MiB, and return its result.

        It may end before the body does; the rest is then not read. If reading the body fails, its error is
        raised, and `work` gets Abandoned from the blocks.
        """
        blocks = _Blocks(asyncio.get_running_loop())
        try:
            task = asyncio.get_running_loop().run_in_executor(self.threads, blocks.carry, work)
        except RuntimeError:
            # No thread can be started, but the pool keeps the work for a later one.
            blocks.abandon()
            raise
        try:
            await blocks.put_all(pieces)
        except BaseException:
            blocks.abandon()
            with suppress(Exception):
                await asyncio.wait([task], timeout=ABANDON_S)
            if task.done():
                task.exception()
            raise
        return await task

    async def forget(self, blobs: BlobStore, blob_id: str) -> None:
        """Remove bytes that got no record; bytes that cannot be removed now are swept later."""
        with suppress(StorageFailed, RuntimeError):  # RuntimeError: no thread can be started.
            await asyncio.get_running_loop().run_in_executor(self.threads, blobs.delete, blob_id)


def check_quota(settings: Settings, tx: Transaction, account_id: str, size_bytes: int) -> None:
    """RateLimited unless the account may store this many bytes more."""
    limit_bytes, limit_files = settings.stored_mib << 20, settings.stored_files
    inputs.check_quota(
        tx, account_id, size_bytes=size_bytes, limit_bytes=limit_bytes, limit_files=limit_files
    )


class _Blocks:
    """A queue of blocks, put by the loop and taken by the thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._free_blocks = asyncio.Semaphore(BLOCKS_AHEAD)
        self._queue: queue.SimpleQueue[bytes | Abandoned | None] = queue.SimpleQueue()
        self._is_over = False

    async def put_all(self, pieces: AsyncIterator[bytes]) -> None:
        gathered: list[bytes] = []
        size_bytes = 0
        async for piece in pieces:
            gathered.append(piece)
            size_bytes += len(piece)
            if size_bytes >= BLOCK_BYTES:
                await self._put(b"".join(gathered))
                gathered, size_bytes = [], 0
            if self._is_over:
                return
        if gathered:
            await self._put(b"".join(gathered))
        self._queue.put(None)

    def abandon(self) -> None:
        self._queue.put(Abandoned())

    def carry(self, work: Callable[[Iterator[bytes]], T]) -> T:
        """Runs in the thread: does the work, then notifies the loop."""
        try:
            return work(self._taken())
        finally:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._finish)

    async def _put(self, block: bytes) -> None:
        await self._free_blocks.acquire()
        self._queue.put(block)

    def _finish(self) -> None:
        self._is_over = True
        self._free_blocks.release()

    def _taken(self) -> Iterator[bytes]:
        while (block := self._queue.get()) is not None:
            if isinstance(block, Abandoned):
                raise block
            yield block
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._free_blocks.release)
