"""Downloads that end with the promised bytes or with none: size, SHA-256 and media type are checked.

An interrupted download resumes, one that differs starts over; no job is ever submitted again.
"""

from __future__ import annotations

import glob
import hashlib
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from tenuto_client import pacing
from tenuto_client.behind import Behind
from tenuto_client.errors import ContentMismatch, Refused, ServiceUnreachable, utf8
from tenuto_client.exchange import Link, call
from tenuto_client.records import Artifact
from tenuto_client.steps import Do, Flow, OnBytes, Pause, Request, path_of

PARTIAL = ".part"

RETRIED = frozenset({404, 416})
"""A store that is behind its records, a range that is not there: the next try may be answered."""

MAX_NAME = 100

BLOCK_BYTES = 1 << 20
"""So much is gathered before it is hashed and written."""
SYNC_BYTES = 8 << 20
"""After so many bytes the disk is asked to begin."""


class Target(Protocol):
    """Where a download goes. It is also a `Sink`."""

    size_bytes: int
    """How many bytes were promised."""
    received: int
    """How many have arrived."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None: ...

    def write(self, block: bytes) -> None: ...

    def fault(self) -> str | None:
        """What differs from the promise, once all has arrived; None when nothing does."""
        ...

    def start_over(self) -> None:
        """Drop what was kept."""
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
        self._told_type = ""
        self.received = 0

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._told_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if status != 206 and self.received:
            self.start_over()

    def write(self, block: bytes) -> None:
        self.received += len(block)
        if self.received > self.size_bytes:
            # More than was promised is wrong already; it need not fill the disk.
            return
        self._keep(block)
        if self._on_bytes is not None:
            self._on_bytes(self.received, self.size_bytes)

    def fault(self) -> str | None:
        if self._told_type != self.media_type:
            return f"it is {self._told_type or 'of no media type'}, not {self.media_type}"
        if self.received != self.size_bytes:
            return f"it has {self.received} bytes, not {self.size_bytes}"
        if self._hash.hexdigest() != self.sha256:
            return "its SHA-256 is another one"
        self._settle()
        return None

    def start_over(self) -> None:
        self.received = 0
        self._hash = hashlib.sha256()
        self._blocks.clear()

    def _keep(self, block: bytes) -> None:
        self._hash.update(block)
        self._blocks.append(block)

    def _settle(self) -> None:
        self.content = b"".join(self._blocks)
        self._blocks.clear()


class File(Memory):
    """A download into a file beside its place, which it takes only once it is whole.

    A thread hashes and writes what came, while more comes; a file of one block needs none.
    """

    def __init__(self, artifact: Artifact, path: Path, job_id: str, on_bytes: OnBytes | None = None) -> None:
        super().__init__(artifact.size_bytes, artifact.sha256, artifact.media_type, on_bytes)
        self._path = path
        self._partial = path.with_name(f".{path.name}.{file_name(job_id)}.{os.getpid()}{PARTIAL}")
        self._file: FileIO | None = FileIO(self._partial, "wb")
        self._behind: Behind | None = None
        self._gathered_bytes = 0
        self._sync: threading.Thread | None = None
        self._unsynced = 0

    def fault(self) -> str | None:
        self._catch_up()
        self._store(self._gathered())
        return super().fault()

    def start_over(self) -> None:
        assert self._file is not None
        self._catch_up()
        self._gathered()
        super().start_over()
        self._file.seek(0)
        self._file.truncate()

    def close(self) -> None:
        """Remove what is not whole; nothing is left to do after the file took its place."""
        if self._behind is not None:
            self._behind.close()
            self._behind = None
        if self._file is not None:
            self._wait_for_sync()
            self._file.close()
            self._file = None
            with suppress(OSError):
                self._partial.unlink()

    def _keep(self, block: bytes) -> None:
        self._blocks.append(block)
        self._gathered_bytes += len(block)
        if self._gathered_bytes >= BLOCK_BYTES:
            if self._behind is None:
                self._behind = Behind(self._store)
            self._behind.put(self._gathered())

    def _gathered(self) -> bytes:
        """What waits to be stored; from now on, nothing does."""
        blocks, self._blocks, self._gathered_bytes = self._blocks, [], 0
        return b"".join(blocks)

    def _catch_up(self) -> None:
        """All that the thread was given is stored."""
        if self._behind is not None:
            self._behind.settle()

    def _store(self, block: bytes) -> None:
        """Hash and write: in the thread that stays behind, or in the caller's while that one has nothing."""
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
        """Let the disk begin while the rest arrives, so that little is left for the fsync at the end."""

        def sync() -> None:
            # What goes wrong here goes wrong again at the end, where it is told.
            with suppress(OSError):
                os.fdatasync(descriptor)
            self._sync = None

        self._unsynced = 0
        self._sync = threading.Thread(target=sync, daemon=True)
        self._sync.start()

    def _wait_for_sync(self) -> None:
        if (running := self._sync) is not None:
            running.join()

    def _settle(self) -> None:
        """Durable, then in place: whoever finds the name finds the whole file."""
        assert self._file is not None
        self._wait_for_sync()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        self._partial.replace(self._path)


def file_name(job_id: str) -> str:
    """Any id as part of a file's name: URL-encoded, or its hash where that is too long."""
    quoted = quote(utf8(job_id), safe="")
    return quoted if len(quoted) <= MAX_NAME else hashlib.sha256(utf8(job_id)).hexdigest()


def remove_partials(path: Path, job_id: str) -> None:
    """Remove what a download of this job to this place left when it was killed."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{file_name(job_id)}.*{PARTIAL}"):
        with suppress(OSError):
            left.unlink()


def save(
    link: Link,
    artifact: Artifact,
    path: Path,
    *,
    job_id: str = "",
    source: str | None = None,
    on_bytes: OnBytes | None = None,
) -> Flow[Path]:
    """Download an artifact to a path; the file there is replaced at once or not at all.

    `source` is where its bytes are, when that is not the artifact's own address.
    """
    file: File = yield Do(lambda: File(artifact, path, job_id or artifact.id, on_bytes))
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


def fetch(link: Link, path: str, target: Target, *, name: str) -> Flow[None]:
    """Download until it is right, at most `max_retries` times again.

    Another size, hash or media type, a lost connection and 404 are downloaded again; the job is left alone.
    Raises ContentMismatch and what `call` does.
    """
    fault = ""
    for tried in range(link.max_retries + 1):
        if tried:
            yield Pause(pacing.backoff_s(tried))
        headers = {"Range": f"bytes={target.received}-"} if target.received else {}
        try:
            yield from call(link, Request("GET", path, headers), sink=target)
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
        found: str | None = yield Do(target.fault)
        if found is None:
            return
        fault = found
        yield Do(target.start_over)
    raise ContentMismatch(f"{name} was not what was promised, {link.max_retries + 1} times: {fault}")
