"""Downloads that yield exactly the announced bytes or nothing: size, SHA-256 and media type are verified.

An interrupted download resumes; a mismatch makes it start over. No job is ever submitted again.
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from tenuto_client import pacing
from tenuto_client.errors import ContentMismatch, InvalidSetting, Refused, ServiceUnreachable, utf8
from tenuto_client.exchange import Link, call
from tenuto_client.records import Artifact
from tenuto_client.steps import Do, Flow, OnBytes, Pause, Request, path_of

PARTIAL = ".part"

RETRIED = frozenset({404, 416})
"""The store lags behind the database, or the range does not exist: a later try may succeed."""

MAX_NAME = 100

BLOCK_BYTES = 1 << 20
"""How many bytes are buffered before they are hashed and written."""
SYNC_BYTES = 8 << 20
"""After this many bytes an early fdatasync starts."""
MAX_WAITING_BLOCKS = 4
"""How many blocks may wait for the writer thread; beyond that, the producer waits until one is done."""


class Target(Protocol):
    """Where a download goes. It is also a `Sink`."""

    size_bytes: int
    """How many bytes the service announced."""
    received: int
    """How many bytes have arrived."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None: ...

    def write(self, block: bytes) -> None: ...

    def fault(self) -> str | None:
        """What does not match, once everything has arrived; None if everything does."""
        ...

    def start_over(self) -> None:
        """Discard what has arrived."""
        ...


class Memory:
    """A download into memory."""

    def __init__(
        self, size_bytes: int, sha256: str, media_type: str, on_bytes: OnBytes | None = None
    ) -> None:
        self.size_bytes = size_bytes
        self.sha256 = sha256
        self.media_type = media_type
        self.content = b""
        self._blocks: list[bytes] = []
        self._hash = hashlib.sha256()
        self._on_bytes = on_bytes
        self._media_type_received = ""
        self.received = 0

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._media_type_received = headers.get("content-type", "").partition(";")[0].strip().lower()
        if status != 206 and self.received:
            self.start_over()

    def write(self, block: bytes) -> None:
        self.received += len(block)
        if self.received > self.size_bytes:
            # Already a mismatch: do not let it fill the disk.
            return
        self._keep(block)
        if self._on_bytes is not None:
            self._on_bytes(self.received, self.size_bytes)

    def fault(self) -> str | None:
        if self._media_type_received != self.media_type:
            return f"it is {self._media_type_received or 'of no media type'}, not {self.media_type}"
        if self.received != self.size_bytes:
            return f"it has {self.received} bytes, not {self.size_bytes}"
        if self._hash.hexdigest() != self.sha256:
            return "its SHA-256 is different"
        self._commit()
        return None

    def start_over(self) -> None:
        self.received = 0
        self._hash = hashlib.sha256()
        self._blocks.clear()

    def _keep(self, block: bytes) -> None:
        self._hash.update(block)
        self._blocks.append(block)

    def _commit(self) -> None:
        self.content = b"".join(self._blocks)
        self._blocks.clear()


class File(Memory):
    """A download into a temporary file, renamed to its path once it is complete.

    A thread hashes and writes while more arrives; a file of one block is written without a thread.
    """

    def __init__(self, artifact: Artifact, path: Path, job_id: str, on_bytes: OnBytes | None = None) -> None:
        super().__init__(artifact.size_bytes, artifact.sha256, artifact.media_type, on_bytes)
        self._path = path
        check_target(path)
        self._partial = _partial(path, job_id)
        self._file: FileIO | None = FileIO(self._partial, "wb")
        self._writer: BackgroundWriter | None = None
        self._pending_bytes = 0
        self._sync: threading.Thread | None = None
        self._unsynced = 0

    def fault(self) -> str | None:
        self._drain()
        self._store(self._take_pending())
        return super().fault()

    def start_over(self) -> None:
        assert self._file is not None
        self._drain()
        self._take_pending()
        super().start_over()
        self._file.seek(0)
        self._file.truncate()

    def close(self) -> None:
        """Remove an incomplete file. Does nothing after the rename."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._file is not None:
            self._wait_for_sync()
            self._file.close()
            self._file = None
            with suppress(OSError):
                self._partial.unlink()

    def _keep(self, block: bytes) -> None:
        self._blocks.append(block)
        self._pending_bytes += len(block)
        if self._pending_bytes >= BLOCK_BYTES:
            if self._writer is None:
                self._writer = BackgroundWriter(self._store)
            self._writer.put(self._take_pending())

    def _take_pending(self) -> bytes:
        """Take the buffered bytes."""
        blocks, self._blocks, self._pending_bytes = self._blocks, [], 0
        return b"".join(blocks)

    def _drain(self) -> None:
        """Wait until the writer thread has stored everything."""
        if self._writer is not None:
            self._writer.drain()

    def _store(self, block: bytes) -> None:
        """Hash and write. Called by the writer thread, or by the caller while that thread is idle."""
        assert self._file is not None
        self._hash.update(block)
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        self._unsynced += len(block)
        if self._unsynced >= SYNC_BYTES and self._sync is None:
            self._begin_sync(self._file.fileno())

    def _begin_sync(self, descriptor: int) -> None:
        """Start writing to disk while the rest arrives, so that the final fsync is short."""

        def sync() -> None:
            # An error here happens again at the final fsync, which reports it.
            with suppress(OSError):
                # macOS and Windows have only fsync.
                getattr(os, "fdatasync", os.fsync)(descriptor)
            self._sync = None

        self._unsynced = 0
        self._sync = threading.Thread(target=sync, daemon=True)
        self._sync.start()

    def _wait_for_sync(self) -> None:
        if (running := self._sync) is not None:
            running.join()

    def _commit(self) -> None:
        """Fsync, then rename: the final name never exists with incomplete content."""
        assert self._file is not None
        self._wait_for_sync()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        self._partial.replace(self._path)


class BackgroundWriter:
    """One thread that processes blocks in order, so that hashing and writing overlap with receiving.

    Hashing and file writes release the GIL. Call it from one thread at a time."""

    def __init__(self, work: Callable[[bytes], None]) -> None:
        self._work = work
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING_BLOCKS)
        self._error: BaseException | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, block: bytes) -> None:
        """Queue a block; waits while the queue is full. Raises the error of an earlier block."""
        self._raise_error()
        self._waiting.put(block)

    def drain(self) -> None:
        """Wait until all blocks are done. Raises the error of any of them."""
        self._waiting.join()
        self._raise_error()

    def close(self) -> None:
        """Stop the thread; blocks still queued are dropped."""
        self._is_closed = True
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (block := self._waiting.get()) is not None:
            try:
                if not self._is_closed and self._error is None:
                    self._work(block)
            except BaseException as error:
                self._error = error
            finally:
                self._waiting.task_done()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


def file_name(job_id: str) -> str:
    """An id as the beginning of a file name: URL-encoded, or hashed if that is too long."""
    quoted = quote(utf8(job_id), safe="")
    if quoted[:1] in (".", "-", "~"):
        # Neither hidden nor an option of a command.
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    return quoted if len(quoted) <= MAX_NAME else hashlib.sha256(utf8(job_id)).hexdigest()


def check_target(path: Path) -> None:
    """Raises InvalidSetting if a rename to this path would replace a device, a pipe or a folder; OSError."""
    if path.exists() and not path.is_file():
        raise InvalidSetting(f"{path} is not a regular file")


def _stem(path: Path, job_id: str = "") -> str:
    """How temporary files for this path begin: hashed, since its name may be as long as a name can be."""
    return f".{hashlib.sha256(os.fsencode(path.name) + b'/' + utf8(job_id)).hexdigest()[:16]}"


def _partial(path: Path, job_id: str = "") -> Path:
    """A new temporary file for this path: two threads or tasks may save to it at the same time."""
    return path.with_name(f"{_stem(path, job_id)}.{uuid.uuid4().hex}{PARTIAL}")


def remove_partials(path: Path, job_id: str) -> None:
    """Remove temporary files left by killed downloads of this job to this path."""
    for left in path.parent.glob(f"{_stem(path, job_id)}.*{PARTIAL}"):
        with suppress(OSError):
            left.unlink()


def write(path: Path, content: bytes) -> None:
    """Write a file: complete and on disk, or not at all. Raises InvalidSetting, OSError."""
    check_target(path)
    temporary = _partial(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def save(
    link: Link,
    artifact: Artifact,
    path: Path,
    *,
    job_id: str = "",
    source: str | None = None,
    on_bytes: OnBytes | None = None,
) -> Flow[Path]:
    """Download an artifact to a path; an existing file is replaced atomically or not at all.

    `source` is the URL path of the bytes if it is not the artifact's own.
    """
    file: File = yield Do(lambda: File(artifact, path, job_id or artifact.id, on_bytes), File.close)
    try:
        where = source or path_of("artifacts", artifact.id, "content")
        yield from fetch(link, where, file, name=artifact.id)
    finally:
        file.close()
    return path


def load(link: Link, artifact: Artifact) -> Flow[bytes]:
    """Download an artifact into memory."""
    memory = Memory(artifact.size_bytes, artifact.sha256, artifact.media_type)
    yield from fetch(link, path_of("artifacts", artifact.id, "content"), memory, name=artifact.id)
    return memory.content


def fetch(
    link: Link, path: str, target: Target, *, name: str, query: Mapping[str, str] | None = None
) -> Flow[None]:
    """Download until the content matches, retrying at most `max_retries` times.

    Retries after a mismatch of size, hash or media type, a lost connection, 404 and 416; the job is left
    alone. Raises ContentMismatch and what `call` raises.
    """
    fault = ""
    for tried in range(link.max_retries + 1):
        if tried:
            yield Pause(pacing.backoff_s(tried))
        headers = {"Range": f"bytes={target.received}-"} if target.received else {}
        try:
            yield from call(link, Request("GET", path, headers, query=query or {}), sink=target)
        except ServiceUnreachable:
            if target.received < target.size_bytes:
                if tried == link.max_retries:
                    raise
                continue
        except Refused as refused:
            if refused.status not in RETRIED or tried == link.max_retries:
                raise
            yield Do(target.start_over)
            continue
        mismatch: str | None = yield Do(target.fault)
        if mismatch is None:
            return
        fault = mismatch
        yield Do(target.start_over)
    raise ContentMismatch(f"{name} did not match its checksum, {link.max_retries + 1} times: {fault}")
