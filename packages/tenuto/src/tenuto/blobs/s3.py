"""Blobs as objects of an S3-compatible store: `PREFIX/XX/blob_…`, XX as in a folder.

An object is whole or not there, so there is no name to change when it is durable. What is larger than a part
goes up in parts, behind a reservation (`blob_….tmp`) that only one write can make and that the sweep finds
when its writer died. A write is done when the store, asked again, names the bytes that were sent. Knows no
rows.
"""

import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from tenuto import failpoints
from tenuto.blobs.blob import (
    BLOCK_BYTES,
    IDENTITY,
    BlobRecord,
    check_block,
    check_whole,
    identity,
    read_identity,
)
from tenuto.blobs.reasons import reason
from tenuto.blobs.s3_content import PART_BYTES, Content
from tenuto.blobs.s3_location import S3Location, client
from tenuto.blobs.s3_uploads import RequestFailed, Uploads
from tenuto.blobs.s3_windows import Windows
from tenuto.errors import (
    ArtifactUnavailable,
    CorruptBlob,
    StorageFailed,
    StoreUnreachable,
    StoreUnreachableForWrites,
)
from tenuto.ids import is_id

PARTS_AT_ONCE = 2
"""Parts of one write that are under way; with the one that fills they are what a write holds in memory."""
LISTED_AT_ONCE = 1000

_RESERVED = ".tmp"
# What a request raises that failed; for what is not there it is a FileNotFoundError.
_FAILED = (BaseError, OSError, RequestFailed)


class S3Blobs:
    """A BlobStore in a bucket, or a prefix of one, shared by any number of machines."""

    def __init__(self, place: S3Location) -> None:
        self.place = place
        self._store = client(place)
        self._uploads = Uploads(place)
        self._windows = Windows()
        # It stands in our reservations: a write that is tried again knows the one that it made itself.
        self._name = secrets.token_hex(16).encode()
        self._writing: set[str] = set()
        self._lock = threading.Lock()

    def write(self, blob_id: str, content: bytes | Iterable[bytes]) -> BlobRecord:
        key, passing = _key(blob_id), Content(content)
        first: list[bytes | memoryview] = []
        first_bytes = 0
        for chunk in passing:
            first.append(chunk)
            first_bytes += len(chunk)
            if first_bytes > PART_BYTES:
                with _storing(passing), self._reserved(blob_id):
                    return self._put_parts(blob_id, chain(first, passing), passing)
        record = passing.record(blob_id)
        with _storing(passing):
            failpoints.hit("blob.before_write")
            try:
                stored = obstore.put(self._store, key, b"".join(first), mode="create", use_multipart=False)
            except _FAILED as error:
                self._settle(record, error)
            else:
                self._confirm(record, passing, stored["e_tag"])
        return record

    def read(self, record: BlobRecord, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        end = record.size_bytes if end is None else end
        assert 0 <= start <= end <= record.size_bytes
        key = _key(record.blob_id)
        if start == end:
            with _looking(record.blob_id):
                _check_size(record, obstore.head(self._store, key)["size"])
            return

        def fetch(first: int, blocks: int) -> memoryview:
            return self._fetch(record, first, blocks)

        for first, window in self._windows.read(fetch, start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1):
            for at in range(0, len(window), BLOCK_BYTES):
                block = bytes(window[at : at + BLOCK_BYTES])
                check_block(record, first + at // BLOCK_BYTES, block)
                begin = first * BLOCK_BYTES + at
                yield block[max(start - begin, 0) : min(end - begin, len(block))]

    def read_all(self, record: BlobRecord) -> bytes:
        return b"".join(self.read(record))

    def delete(self, blob_id: str) -> None:
        key = _key(blob_id)
        with _storing():
            failpoints.hit("blob.before_delete")
            obstore.delete(self._store, key)
            if self._has(key + _RESERVED):
                # The reservation goes last: as long as it is there, the uploads behind it are found again.
                self._uploads.end(key)
                obstore.delete(self._store, key + _RESERVED)

    def ids(self, older_than_ms: int) -> Iterator[str]:
        last = None
        with _looking("The bucket"):
            for page in obstore.list(self._store, chunk_size=LISTED_AT_ONCE):
                for found in page:
                    # A blob and its reservation follow each other, and an id comes once.
                    name = found["path"].rpartition("/")[2].removesuffix(_RESERVED)
                    is_old = found["last_modified"].timestamp() * 1000 < older_than_ms
                    if is_old and name != last and is_id(name, "blob"):
                        last = name
                        yield name

    def store_id(self) -> str | None:
        with _looking("The store's identity"):
            try:
                return read_identity(bytes(obstore.get(self._store, IDENTITY).bytes()))
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None

    def name_store(self, store_id: str) -> str:
        with _storing():
            try:
                obstore.put(self._store, IDENTITY, identity(store_id), mode="create", use_multipart=False)
            except _FAILED:
                # Somebody was first, or it is there and the answer was lost.
                if not self._has(IDENTITY):
                    raise
        return self.store_id() or store_id

    def check_location(self) -> None:
        """A bucket does not move; whether it answers is found out by asking for something."""

    def unfinished(self) -> int:
        """How many uploads below the prefix were begun and are not complete. Raises StoreUnreachable."""
        with _looking("The list of uploads"):
            return len(self._uploads.begun(""))

    def _put_parts(self, blob_id: str, chunks: Iterator[bytes | memoryview], passing: Content) -> BlobRecord:
        """The upload is completed after the last chunk, when our checksums are known; or it is ended."""
        key = _key(blob_id)
        if self._has(key):
            # An earlier try of this write whose answer was lost, most likely: it is read rather than sent.
            for _ in chunks:
                pass
            record = passing.record(blob_id)
            self._settle(record, AlreadyExistsError())
            return record
        failpoints.hit("blob.before_write")
        try:
            stored = obstore.put(
                self._store,
                key,
                chunks,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )
        except _FAILED as error:
            if not passing.is_over:
                raise
            record = passing.record(blob_id)
            self._settle(record, error)
            return record
        record = passing.record(blob_id)
        self._confirm(record, passing, stored["e_tag"])
        return record

    @contextmanager
    def _reserved(self, blob_id: str) -> Iterator[None]:
        """Only one writer of an id comes in here, on all machines; what it leaves unfinished is ended."""
        key, reservation = _key(blob_id), _key(blob_id) + _RESERVED
        with self._lock:
            if blob_id in self._writing:
                raise _taken(blob_id)
            self._writing.add(blob_id)
        try:
            try:
                obstore.put(self._store, reservation, self._name, mode="create", use_multipart=False)
            except _FAILED as error:
                # Its answer may have been lost, or it is from an earlier try of this write.
                if not self._holds(reservation):
                    raise _taken(blob_id) if isinstance(error, AlreadyExistsError) else error from None
            try:
                yield
            except BaseException:
                with suppress(*_FAILED):
                    self._uploads.end(key)
                    obstore.delete(self._store, reservation)
                raise
            # A reservation that stays is small, and goes with its blob.
            with suppress(*_FAILED):
                obstore.delete(self._store, reservation)
        finally:
            with self._lock:
                self._writing.discard(blob_id)

    def _holds(self, reservation: str) -> bool:
        try:
            return bytes(obstore.get(self._store, reservation).bytes()) == self._name
        except FileNotFoundError:
            return False

    def _has(self, key: str) -> bool:
        try:
            obstore.head(self._store, key)
        except FileNotFoundError:
            return False
        return True

    def _confirm(self, record: BlobRecord, passing: Content, tag: str | None) -> None:
        """The store says that it holds these bytes, or they are read again."""
        found = obstore.head(self._store, _key(record.blob_id))
        is_ours = found["size"] == record.size_bytes and found["e_tag"] == tag
        if not (is_ours and passing.has_tag(tag)):
            try:
                check_whole(self, record)
            except (ArtifactUnavailable, CorruptBlob) as error:
                raise StorageFailed("The store does not give back what was sent to it.") from error

    def _settle(self, record: BlobRecord, error: Exception) -> None:
        """A write that failed, or whose answer was lost: it is done all the same where these bytes are there.

        Raises StorageFailed where others are, and what was raised where none are.
        """
        try:
            check_whole(self, record)
        except StoreUnreachable:
            raise StoreUnreachableForWrites from error
        except (ArtifactUnavailable, CorruptBlob):
            if isinstance(error, AlreadyExistsError):
                raise _taken(record.blob_id) from error
            raise error from None

    def _fetch(self, record: BlobRecord, first: int, blocks: int) -> memoryview:
        start = first * BLOCK_BYTES
        end = min(start + blocks * BLOCK_BYTES, record.size_bytes)
        key = _key(record.blob_id)
        with _looking(record.blob_id):
            failpoints.hit("blob.before_read")
            try:
                found = obstore.get(self._store, key, options={"range": (start, end)})
            except BaseError as error:
                # A range outside of what is there is refused without its size.
                if "416" in str(error):
                    _check_size(record, obstore.head(self._store, key)["size"])
                raise
            _check_size(record, found.meta["size"])
            return memoryview(found.bytes())


@contextmanager
def _storing(passing: Content | None = None) -> Iterator[None]:
    """What a request raises becomes an error of ours; what the giver of the bytes raises stays as it is."""
    try:
        yield
    except _FAILED as error:
        if passing is not None and error is passing.error:
            raise
        raise StoreUnreachableForWrites from error


@contextmanager
def _looking(what: str) -> Iterator[None]:
    try:
        yield
    except _FAILED as error:
        # Without its bucket the store knows nothing of what is there and what is not.
        if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
            raise ArtifactUnavailable(f"{what} is not there.") from error
        raise StoreUnreachable(f"{what} cannot be read: the store {reason(error)}.") from error


def _key(blob_id: str) -> str:
    if not is_id(blob_id, "blob"):
        raise ValueError(f"{blob_id!r} is no id of a blob")
    return f"{blob_id[-2:]}/{blob_id}"


def _taken(blob_id: str) -> StorageFailed:
    return StorageFailed(f"{blob_id} was written before; an id is for one write.")


def _check_size(record: BlobRecord, size_bytes: int) -> None:
    if size_bytes != record.size_bytes:
        raise CorruptBlob(f"{record.blob_id} has {size_bytes} bytes instead of {record.size_bytes}.")
