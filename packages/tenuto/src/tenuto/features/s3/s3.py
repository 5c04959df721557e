"""Blobs as objects of an S3-compatible store: `PREFIX/XX/blob_…`, XX as in a folder.

An object is complete or absent, so nothing is renamed when it is durable. Content larger than one part is
uploaded in parts, under a reservation (`blob_….tmp`) that only one write can make and that the sweep finds
if its writer died. A write is done when the store, in a second request, confirms the bytes that were sent.
Knows no rows.
"""

import hashlib
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from threading import BoundedSemaphore

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from tenuto import failpoints
from tenuto.errors import (
    ArtifactUnavailable,
    BucketMissing,
    CorruptBlob,
    StorageFailed,
    StoreUnreachable,
    StoreUnreachableForWrites,
)
from tenuto.features.s3.s3_client import RequestFailed, S3Location, Uploads, client
from tenuto.file.blob import (
    BLOCK_BYTES,
    IDENTITY,
    NEWEST,
    BlobRecord,
    Checksums,
    check_block,
    check_whole,
    identity,
    pieces,
    read_identity,
)
from tenuto.file.reasons import reason
from tenuto.ids import is_id

PARTS_AT_ONCE = 2
"""Parts of one write in flight; with the part being filled, they are what a write holds in memory."""
LISTED_AT_ONCE = 1000

PART_BYTES = 8 << 20
"""The size of each part but the last; smaller content is sent in one request. S3 allows 10,000 parts."""
WINDOW_BLOCKS = 4
WINDOWS_AHEAD = 16
THREADS = 8
_RESERVED = ".tmp"
# What a failed request raises; for a missing object it is a FileNotFoundError.
_FAILED = (BaseError, OSError, RequestFailed)

Fetch = Callable[[int, int], memoryview]
"""Returns that many blocks from an index on (the last may be shorter); its errors reach the reader."""


class Content:
    """Chunks on their way to the store; at the end it knows their checksums and their expected entity tag.

    Most stores use the MD5 of an object's bytes as its entity tag, or a hash of the MD5s of its parts:
    https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html. Stores that encrypt with their own keys
    do not: a different tag proves nothing, the same tag proves that the bytes arrived.
    """

    def __init__(self, content: bytes | Iterable[bytes]) -> None:
        self._pieces = pieces(content)
        self._checksums = Checksums()
        self._size_bytes = 0
        self._parts: list[hashlib._Hash] = []
        self.is_over = False
        self.error: BaseException | None = None
        """What the source of the chunks raised."""

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return self

    def __next__(self) -> bytes | memoryview:
        try:
            chunk = next(self._pieces)
        except StopIteration:
            self.is_over = True
            raise
        except BaseException as error:
            self.error = error
            raise
        self._checksums.add(chunk)
        self._add(chunk)
        return chunk

    def record(self, blob_id: str) -> BlobRecord:
        """The record of all chunks."""
        assert self.is_over
        return self._checksums.record(blob_id)

    def has_tag(self, tag: str | None) -> bool:
        """Whether the store's tag is that of these bytes."""
        digests = [part.digest() for part in self._parts]
        if len(digests) > 1:
            whole = hashlib.md5(b"".join(digests), usedforsecurity=False)
            return tag == f'"{whole.hexdigest()}-{len(digests)}"'
        alone = digests[0] if digests else hashlib.md5(usedforsecurity=False).digest()
        return tag == f'"{alone.hex()}"'

    def _add(self, chunk: bytes | memoryview) -> None:
        view = memoryview(chunk)
        while view:
            filled = self._size_bytes % PART_BYTES
            if not filled:
                self._parts.append(hashlib.md5(usedforsecurity=False))
            piece = view[: PART_BYTES - filled]
            self._parts[-1].update(piece)
            self._size_bytes += len(piece)
            view = view[len(piece) :]


class Windows:
    """Threads that prefetch the next few blocks of a blob while earlier ones are sent; shared by readers.

    All readers of a process together hold at most `WINDOWS_AHEAD` windows, which slow readers may occupy; a
    reader that gets none continues block by block.
    """

    def __init__(self) -> None:
        self._free = BoundedSemaphore(WINDOWS_AHEAD)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="s3-ahead")

    def read(self, fetch: Fetch, first: int, end: int) -> Iterator[tuple[int, memoryview]]:
        """Blocks from `first` up to `end` in order, each window with the index of its first block.

        The first window is one block, so that it arrives soon; the others end at boundaries of parts, or of
        equal shares of them: stores keep parts together.
        """
        at, size = first, 1
        current: Future[memoryview] | None = None
        coming: Future[memoryview] | None = None
        try:
            while at < end:
                # A window that no thread has begun to fetch is fetched here, as all threads may be stuck.
                is_here = current is not None and not current.cancel()
                window = current.result() if is_here and current is not None else fetch(at, size)
                next_size = min(WINDOW_BLOCKS - (at + size) % WINDOW_BLOCKS, end - at - size)
                if next_size > 0 and self._free.acquire(blocking=False):
                    try:
                        coming = self._threads.submit(fetch, at + size, next_size)
                    except RuntimeError:  # The machine has no thread left.
                        self._free.release()
                yield at, window
                self._leave(current)
                at, size = at + size, next_size if coming is not None else 1
                current, coming = coming, None
        finally:
            self._leave(current)
            self._leave(coming)

    def _leave(self, window: "Future[memoryview] | None") -> None:
        """Free its place, now or once it is fetched: a call that has begun can't be cancelled."""
        if window is not None:
            window.cancel()
            window.add_done_callback(lambda _: self._free.release())


class S3Blobs:
    """A BlobStore in a bucket, or a prefix of one, shared by any number of machines."""

    def __init__(self, place: S3Location) -> None:
        self.place = place
        self._store = client(place)
        self._uploads = Uploads(place)
        self._windows = Windows()
        # The content of our reservations: a retried write recognises the one that it made itself.
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
                # The reservation is removed last: while it exists, its uploads can be listed again.
                self._uploads.end(key)
                obstore.delete(self._store, key + _RESERVED)

    def ids(self, older_than_ms: int) -> Iterator[str]:
        last = None
        with _looking("The bucket"):
            for page in obstore.list(self._store, chunk_size=LISTED_AT_ONCE):
                for listed in page:
                    # A blob and its reservation are listed one after the other, and an id is yielded once.
                    name = listed["path"].rpartition("/")[2].removesuffix(_RESERVED)
                    is_old = listed["last_modified"].timestamp() * 1000 < older_than_ms
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
                # Another process was first, or it was written and the response was lost.
                if not self._has(IDENTITY):
                    raise
        return self.store_id() or store_id

    def newest(self) -> bytes | None:
        with _looking("The record of the database"):
            try:
                return bytes(obstore.get(self._store, NEWEST).bytes())
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None

    def record_newest(self, content: bytes) -> None:
        with _storing():
            obstore.put(self._store, NEWEST, content, use_multipart=False)

    def check_location(self) -> None:
        """Nothing to check: a bucket does not move, and only a request shows whether it answers."""

    def unfinished(self) -> int:
        """How many uploads under the prefix were begun and not completed. Raises StoreUnreachable."""
        with _looking("The list of uploads"):
            return len(self._uploads.begun(""))

    def _put_parts(self, blob_id: str, chunks: Iterator[bytes | memoryview], passing: Content) -> BlobRecord:
        """Upload in parts; completed after the last chunk, when our checksums are known, or else aborted."""
        key = _key(blob_id)
        if self._has(key):
            # Most likely an earlier try of this write whose response was lost: read it instead of sending it.
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
        """Admit one writer of an id across all machines; uploads that it leaves unfinished are aborted."""
        key, reservation = _key(blob_id), _key(blob_id) + _RESERVED
        with self._lock:
            if blob_id in self._writing:
                raise _taken(blob_id)
            self._writing.add(blob_id)
        try:
            try:
                obstore.put(self._store, reservation, self._name, mode="create", use_multipart=False)
            except _FAILED as error:
                # The response may have been lost, or the reservation is from an earlier try of this write.
                if not self._holds(reservation):
                    raise _taken(blob_id) if isinstance(error, AlreadyExistsError) else error from None
            try:
                yield
            except BaseException:
                with suppress(*_FAILED):
                    self._uploads.end(key)
                    obstore.delete(self._store, reservation)
                raise
            # A reservation that stays behind is small, and is removed with its blob.
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
        """Check that the store reports these bytes, or else read them back."""
        head = obstore.head(self._store, _key(record.blob_id))
        is_ours = head["size"] == record.size_bytes and head["e_tag"] == tag
        if not (is_ours and passing.has_tag(tag)):
            try:
                check_whole(self, record)
            except (ArtifactUnavailable, CorruptBlob) as error:
                raise StorageFailed("The store does not give back what was sent to it.") from error

    def _settle(self, record: BlobRecord, error: Exception) -> None:
        """After a failed write or a lost response: the write counts as done if the store has these bytes.

        Raises StorageFailed if the id is taken by other bytes, and otherwise the write's own error.
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
                answer = obstore.get(self._store, key, options={"range": (start, end)})
            except BaseError as error:
                # A range outside the object is refused without stating its size.
                if "416" in str(error):
                    _check_size(record, obstore.head(self._store, key)["size"])
                raise
            _check_size(record, answer.meta["size"])
            return memoryview(answer.bytes())


@contextmanager
def _storing(passing: Content | None = None) -> Iterator[None]:
    """Turn a request's errors into ours; errors from the source of the bytes propagate unchanged."""
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
        # If the bucket is missing, nothing is known about any single object.
        if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
            raise ArtifactUnavailable(f"{what} is not there.") from error
        kind = BucketMissing if "NoSuchBucket" in str(error) else StoreUnreachable
        raise kind(f"{what} cannot be read: the store {reason(error)}.") from error


def _key(blob_id: str) -> str:
    if not is_id(blob_id, "blob"):
        raise ValueError(f"{blob_id!r} is not the id of a blob")
    return f"{blob_id[-2:]}/{blob_id}"


def _taken(blob_id: str) -> StorageFailed:
    return StorageFailed(f"{blob_id} was written before; an id is for one write.")


def _check_size(record: BlobRecord, size_bytes: int) -> None:
    if size_bytes != record.size_bytes:
        raise CorruptBlob(f"{record.blob_id} has {size_bytes} bytes instead of {record.size_bytes}.")
