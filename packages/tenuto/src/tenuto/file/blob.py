"""What a blob is, and what every store of blobs does: bytes under an id that is used for one write.

Holds the record of a blob, its checksums and the store's protocol. Knows no storage location, no rows and no
artifacts: the caller keeps the record, without which the bytes cannot be read.
"""

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

# The same CRC-32 as zlib's, ten times as fast.
from isal.isal_zlib import crc32
from msgspec import Struct

from tenuto.errors import CorruptBlob, OperatorError
from tenuto.ids import is_id

BLOCK_BYTES = 1 << 20
_CRC_DIGITS = 8
_SHA256 = re.compile("[0-9a-f]{64}")
_HEX = re.compile("[0-9a-f]*")
IDENTITY = "store.json"
"""The name of the file, or object, that holds the store's own id."""
NEWEST = "database.json"
"""The name of the file, or object, that says which copy of the database is in use."""


class BlobRecord(Struct, frozen=True):
    """What is known about a durably stored blob."""

    blob_id: str
    size_bytes: int
    sha256: str  # 64 hex digits, of the whole
    block_crcs: (
        str  # the CRC-32 of every 1 MiB block in turn, 8 hex digits each; the last block may be shorter
    )


class BlobStore(Protocol):
    """A store of blobs, used from any thread; calls block. `tests/features/s3` tests each store."""

    def write(self, blob_id: str, content: bytes | Iterable[bytes]) -> BlobRecord:
        """Stores the bytes durably, all or none of them. StorageFailed: none, for example if the id is taken.

        StoreUnreachableForWrites: whether they are stored is unknown; the same bytes may be written again.
        An exception from `content` itself propagates, and nothing is stored then either.
        """

    def read(self, record: BlobRecord, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, in chunks of at most 1 MiB, each from one block, verified.

        The first step raises ArtifactUnavailable if the bytes are missing and CorruptBlob if their size is
        wrong; any step raises CorruptBlob before it yields a byte of a block with a wrong checksum, and
        StoreUnreachable if the store cannot say what it has. Only ArtifactUnavailable means missing bytes.
        """

    def read_all(self, record: BlobRecord) -> bytes:
        """The whole blob, verified as by `read`."""

    def delete(self, blob_id: str) -> None:
        """Durably removes the bytes and the remains of interrupted writes; a missing blob is not an error."""

    def ids(self, older_than_ms: int) -> Iterator[str]:
        """Every blob last written before this time, interrupted writes included, in no particular order."""

    def store_id(self) -> str | None:
        """The id that the store was given; None: it has none yet. StoreUnreachable; OperatorError if the file
        is damaged.
        """

    def name_store(self, store_id: str) -> str:
        """Give the store this id, durably, unless it already has one; returns the id that it has."""

    def newest(self) -> bytes | None:
        """What was last written with `record_newest`; None: nothing. StoreUnreachable."""

    def record_newest(self, content: bytes) -> None:
        """Replace that, durably. StorageFailed."""

    def check_location(self) -> None:
        """Raises StoreUnreachableForWrites if its folder is no longer the one that was opened."""


class BlobReader(io.RawIOBase):
    """A stored blob as a file, for libraries that need random access; every block is verified.

    Holds at most one block in memory. Not thread-safe. Reading raises what `BlobStore.read` does.
    """

    def __init__(self, store: BlobStore, record: BlobRecord) -> None:
        super().__init__()
        self._store, self._record = store, record
        self._position = 0
        self._pieces: Iterator[bytes] = iter(())
        self._piece = memoryview(b"")
        """The bytes that follow at `_at`."""
        self._at = -1

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        if not len(target) or self._position >= self._record.size_bytes:
            return 0
        if self._at != self._position:
            self._piece, self._at = memoryview(b""), self._position
            self._pieces = self._store.read(self._record, self._position)
        if not len(self._piece):
            self._piece = memoryview(next(self._pieces))
        size = min(len(target), len(self._piece))
        target[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        self._position += size
        self._at = self._position
        return size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._record.size_bytes}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position


class Checksums:
    """The running checksums of bytes that arrive in chunks of any size."""

    def __init__(self) -> None:
        self._size_bytes = 0
        self._sha256 = hashlib.sha256()
        self._crcs: list[int] = []

    def add(self, chunk: bytes | memoryview) -> None:
        """Adds the next bytes."""
        self._sha256.update(chunk)
        view = memoryview(chunk)
        while view:
            filled = self._size_bytes % BLOCK_BYTES
            if not filled:
                self._crcs.append(0)
            piece = view[: BLOCK_BYTES - filled]
            self._crcs[-1] = crc32(piece, self._crcs[-1])
            self._size_bytes += len(piece)
            view = view[len(piece) :]

    def record(self, blob_id: str) -> BlobRecord:
        """The record of all bytes added so far."""
        crcs = "".join(f"{crc:08x}" for crc in self._crcs)
        return BlobRecord(blob_id, self._size_bytes, self._sha256.hexdigest(), crcs)


def check_block(record: BlobRecord, index: int, *pieces: bytes) -> None:
    """Raises CorruptBlob unless these are block `index` of the blob, whole and unchanged."""
    expected_bytes = min(BLOCK_BYTES, record.size_bytes - index * BLOCK_BYTES)
    expected_crc = record.block_crcs[index * _CRC_DIGITS : (index + 1) * _CRC_DIGITS]
    crc = 0
    for piece in pieces:
        crc = crc32(piece, crc)
    if sum(map(len, pieces)) != expected_bytes or f"{crc:08x}" != expected_crc:
        raise CorruptBlob(f"Block {index} of {record.blob_id} does not match its checksum.")


def is_well_formed(record: BlobRecord) -> bool:
    """Whether it can be a record at all: one that a stranger wrote may hold anything."""
    if not (isinstance(record.blob_id, str) and is_id(record.blob_id, "blob")):
        return False
    blocks = -(-record.size_bytes // BLOCK_BYTES) if isinstance(record.size_bytes, int) else -1
    return (
        blocks >= 0
        and _SHA256.fullmatch(str(record.sha256)) is not None
        and len(str(record.block_crcs)) == _CRC_DIGITS * blocks
        and _HEX.fullmatch(str(record.block_crcs)) is not None
    )


def check_whole(store: BlobStore, record: BlobRecord) -> None:
    """Reads all of a blob. Raises ArtifactUnavailable; CorruptBlob if it is not what was recorded."""
    digest = hashlib.sha256()
    for block in store.read(record):
        digest.update(block)
    if digest.hexdigest() != record.sha256:
        raise CorruptBlob(f"{record.blob_id} does not have the SHA-256 that was recorded.")


def identity(store_id: str) -> bytes:
    """The content of the `IDENTITY` file."""
    return b'{"store_id": "%s"}\n' % store_id.encode("ascii")


def read_identity(content: bytes) -> str:
    """The id in the `IDENTITY` file. OperatorError says what the file should look like."""
    try:
        store_id = json.loads(content)["store_id"]
    except (ValueError, TypeError, KeyError):
        store_id = None
    if not isinstance(store_id, str) or not is_id(store_id, "store"):
        raise OperatorError(f'{IDENTITY} in the store of bytes is not {{"store_id": "store_…"}}; put it back')
    return store_id


def pieces(content: bytes | Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """Content of either form as chunks, without copying; `bytes` are cut into chunks of at most 1 MiB."""
    if isinstance(content, bytes):
        view = memoryview(content)
        yield from (view[at : at + BLOCK_BYTES] for at in range(0, len(view), BLOCK_BYTES))
    else:
        yield from content
