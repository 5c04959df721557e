"""Blobs as files in a folder: `ROOT/XX/blob_…`, where XX are the last two characters of the id.

An id begins with its time, so blobs of one hour would share a folder; its last characters are random.
Bytes are written to `blob_….tmp` in the same folder and renamed when they are durable. Knows no rows: which
blobs are still wanted is decided elsewhere.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tenuto import failpoints
from tenuto.errors import (
    ArtifactUnavailable,
    CorruptBlob,
    StorageFailed,
    StoreUnreachable,
    StoreUnreachableForWrites,
)
from tenuto.file.blob import (
    BLOCK_BYTES,
    IDENTITY,
    NEWEST,
    BlobRecord,
    Checksums,
    check_block,
    identity,
    pieces,
    read_identity,
)
from tenuto.ids import is_id

PIECE_BYTES = 1 << 18
_UNFINISHED = ".tmp"
_MOVED = "The blob store is no longer where it was opened; the operator must check."
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe in its place must not block us


class DirectoryBlobs:
    """A BlobStore in a folder on this machine, shared by any number of threads and processes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # The names of folders that this process itself made durable; another may have died before doing so.
        self._durable: set[str] = set()
        with _storage("The folder of blobs cannot be made."):
            _make_durable(root)
            self._opened = _which(root)

    def write(self, blob_id: str, content: bytes | Iterable[bytes]) -> BlobRecord:
        place = self._place(blob_id)
        checksums = Checksums()
        self.check_location()
        with _storage("The bytes could not be stored durably."):
            descriptor, unfinished = self._create(place)
        try:
            try:
                for chunk in pieces(content):
                    checksums.add(chunk)
                    with _storage("The bytes could not be written."):
                        failpoints.hit("blob.before_write")
                        _write_all(descriptor, chunk)
                with _storage("The bytes could not be made durable."):
                    failpoints.hit("blob.before_fsync")
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            with _storage("The bytes could not be put in place."):
                self._finish(unfinished, place)
        except BaseException:
            # If the file cannot be removed now either, the sweep finds it.
            with suppress(OSError):
                unfinished.unlink()
            raise
        return checksums.record(blob_id)

    def read(self, record: BlobRecord, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        end = record.size_bytes if end is None else end
        assert 0 <= start <= end <= record.size_bytes
        try:
            failpoints.hit("blob.before_open")
            descriptor = os.open(self._place(record.blob_id), _OPEN)
        except FileNotFoundError as error:
            self._check_readable()
            raise ArtifactUnavailable(f"{record.blob_id} is not there.") from error
        except OSError as error:
            raise StoreUnreachable(f"{record.blob_id} cannot be opened just now.") from error
        try:
            size_bytes = os.fstat(descriptor).st_size
            if size_bytes != record.size_bytes:
                raise CorruptBlob(f"{record.blob_id} has {size_bytes} bytes instead of {record.size_bytes}.")
            if start == end:
                return
            for index in range(start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1):
                pieces = _read_block(descriptor, index, record)
                check_block(record, index, *pieces)
                at = index * BLOCK_BYTES
                while pieces:  # a piece is dropped once it has been yielded
                    piece = pieces.pop(0)
                    # A slice of a whole piece is the piece itself, not a copy.
                    if wanted := piece[max(start - at, 0) : max(end - at, 0)]:
                        yield wanted
                    at += len(piece)
        finally:
            os.close(descriptor)

    def read_all(self, record: BlobRecord) -> bytes:
        return b"".join(self.read(record))

    def delete(self, blob_id: str) -> None:
        place = self._place(blob_id)
        self.check_location()
        with _storage("The bytes could not be removed."):
            failpoints.hit("blob.before_delete")
            for path in (_unfinished(place), place):
                path.unlink(missing_ok=True)
            if place.parent.is_dir():
                sync_folder(place.parent)

    def ids(self, older_than_ms: int) -> Iterator[str]:
        self._check_readable()
        for folder in self._root.iterdir():
            with suppress(NotADirectoryError), os.scandir(folder) as entries:
                # A write that was interrupted leaves one name or two: each id is yielded once.
                old = {
                    entry.name.removesuffix(_UNFINISHED) for entry in entries if _is_old(entry, older_than_ms)
                }
                yield from (name for name in old if is_id(name, "blob"))

    def store_id(self) -> str | None:
        self._check_readable()
        try:
            return read_identity((self._root / IDENTITY).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnreachable("The store's identity cannot be read.") from error

    def name_store(self, store_id: str) -> str:
        self.check_location()
        unfinished = self._root / f"{IDENTITY}.{store_id}"
        with _storage("The store's identity could not be written."):
            _write_new(unfinished, identity(store_id))
            # Unlike a rename, a link does not replace an id that another process has written meanwhile.
            with suppress(FileExistsError):
                (self._root / IDENTITY).hardlink_to(unfinished)
            unfinished.unlink()
            sync_folder(self._root)
        return self.store_id() or store_id

    def newest(self) -> bytes | None:
        self._check_readable()
        try:
            return (self._root / NEWEST).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnreachable("The record of the database cannot be read.") from error

    def record_newest(self, content: bytes) -> None:
        self.check_location()
        unfinished = self._root / f"{NEWEST}.{secrets.token_hex(4)}"
        with _storage("The record of the database could not be written."):
            _write_new(unfinished, content)
            unfinished.rename(self._root / NEWEST)
            sync_folder(self._root)

    def check_location(self) -> None:
        """One `stat` by name. Nothing is created in its place: it would be lost when the folder returns."""
        try:
            is_opened = _which(self._root) == self._opened
        except OSError as error:
            raise StoreUnreachableForWrites(_MOVED) from error
        if not is_opened:
            raise StoreUnreachableForWrites(_MOVED)

    def _check_readable(self) -> None:
        try:
            self.check_location()
        except StoreUnreachableForWrites as error:
            raise StoreUnreachable(_MOVED) from error

    def _place(self, blob_id: str) -> Path:
        if not is_id(blob_id, "blob"):
            raise ValueError(f"{blob_id!r} is not the id of a blob")
        return self._root / blob_id[-2:] / blob_id

    def _create(self, place: Path) -> tuple[int, Path]:
        """Opens the unfinished file, which only one writer of an id can hold."""
        if place.parent.name not in self._durable:
            place.parent.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self._root)
            self._durable.add(place.parent.name)
        unfinished = _unfinished(place)
        return os.open(unfinished, _CREATE, 0o600), unfinished

    def _finish(self, unfinished: Path, place: Path) -> None:
        # No other writer can come in between: to write this id, it must hold the unfinished file.
        if place.exists():
            raise StorageFailed(f"{place.name} was written before; an id is for one write.")
        failpoints.hit("blob.before_rename")
        unfinished.rename(place)
        try:
            failpoints.hit("blob.before_folder_fsync")
            sync_folder(place.parent)
        except OSError:
            # Whether the name would survive a power failure is unknown, so the write has failed.
            with suppress(OSError):
                place.unlink()
            raise


@contextmanager
def _storage(message: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(message) from error


def _which(folder: Path) -> tuple[int, int]:
    """The identity of a folder, whatever its name."""
    stat = folder.stat()
    return stat.st_dev, stat.st_ino


def _unfinished(place: Path) -> Path:
    return place.with_name(place.name + _UNFINISHED)


def _is_old(entry: os.DirEntry[str], older_than_ms: int) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns < older_than_ms * 1_000_000
    except FileNotFoundError:  # removed or renamed since it was listed
        return False


def _write_new(file: Path, content: bytes) -> None:
    """Make a small file, durably but for its name."""
    descriptor = os.open(file, _CREATE, 0o600)
    try:
        _write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, chunk: bytes | memoryview) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_block(descriptor: int, index: int, record: BlobRecord) -> list[bytes]:
    """A block in pieces, so that a slow consumer need not hold the whole block."""
    places = range(index * BLOCK_BYTES, min((index + 1) * BLOCK_BYTES, record.size_bytes), PIECE_BYTES)
    try:
        failpoints.hit("blob.before_read")
        return [os.pread(descriptor, PIECE_BYTES, place) for place in places]
    except OSError as error:
        raise StoreUnreachable(f"{record.blob_id} cannot be read just now.") from error


def _make_durable(folder: Path) -> None:
    """Makes a folder and its missing parents, and makes their names durable."""
    if not folder.parent.is_dir():
        _make_durable(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
