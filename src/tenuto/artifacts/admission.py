"""Admission of an upload: its bytes stored and judged in one pass, nothing kept of what is refused.

Runs in a thread of the upload's own. Knows neither HTTP nor rows.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from tenuto.blobs.blob import BlobRecord, BlobStore
from tenuto.errors import ChecksumMismatch, Fault, InvalidRequest, StorageFailed
from tenuto.media.decoding import Decoded, DecoderFailed, Decoding
from tenuto.media.flac import FlacInvalid

LIVE_DECODERS = 2
"""Children that decode along with an upload, for as long as it takes: slow clients may hold them all."""
LATER_DECODERS = 2
"""Children that decode what was stored already, as fast as it goes: nobody waits long for one of these."""


class Decoders:
    """How many children decode at once in this process."""

    def __init__(self) -> None:
        self._live = threading.BoundedSemaphore(LIVE_DECODERS)
        self._later = threading.BoundedSemaphore(LATER_DECODERS)

    @contextmanager
    def live(self) -> Iterator[bool]:
        """Whether there is a place for one that decodes along; taken while the block lasts."""
        taken = self._live.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._live.release()

    @contextmanager
    def later(self) -> Iterator[None]:
        """Waits for a place for one that decodes what was stored."""
        with self._later:
            yield


def admit_flac(
    blobs: BlobStore,
    blob_id: str,
    blocks: Iterable[bytes],
    *,
    expected_sha256: str,
    decoders: Decoders,
    on_decoding: Callable[[Decoding], None],
) -> tuple[BlobRecord, Decoded]:
    """Store the bytes and decode them; what `blocks` raises goes through, and nothing is stored then.

    `on_decoding` is told of the child, so that another thread can end it. Raises ChecksumMismatch,
    InvalidRequest (what is wrong with the FLAC), StorageFailed.
    """
    with decoders.live() as is_live:
        if is_live:
            with _decoding(on_decoding) as decoding:
                record = blobs.write(blob_id, _feeding(blocks, decoding))
                return record, _judged(blobs, record, expected_sha256, decoding)
        record = blobs.write(blob_id, blocks)
    with decoders.later(), _decoding(on_decoding) as decoding:
        with _nothing_kept(blobs, blob_id):
            _check(record, expected_sha256)
            decoding.feed_all(blobs.read(record))
        return record, _judged(blobs, record, expected_sha256, decoding)


@contextmanager
def _decoding(on_decoding: Callable[[Decoding], None]) -> Iterator[Decoding]:
    try:
        decoding = Decoding()
    except DecoderFailed as error:
        raise StorageFailed(f"The upload could not be judged: {error}.") from error
    try:
        on_decoding(decoding)
        yield decoding
    finally:
        decoding.close()


def _feeding(blocks: Iterable[bytes], decoding: Decoding) -> Iterator[bytes]:
    for block in blocks:
        decoding.feed(block)
        yield block


def _judged(blobs: BlobStore, record: BlobRecord, expected_sha256: str, decoding: Decoding) -> Decoded:
    with _nothing_kept(blobs, record.blob_id):
        _check(record, expected_sha256)
        try:
            return decoding.finish()
        except FlacInvalid as error:
            message = f"the file is not a FLAC that is accepted: {error}"
            raise InvalidRequest([Fault("body", "invalid_recording", message)]) from error
        except DecoderFailed as error:
            raise StorageFailed(f"The upload could not be judged: {error}.") from error


def _check(record: BlobRecord, expected_sha256: str) -> None:
    if record.sha256 != expected_sha256:
        raise ChecksumMismatch


@contextmanager
def _nothing_kept(blobs: BlobStore, blob_id: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # What cannot be removed now has no row, and is found by the sweep.
        with suppress(StorageFailed):
            blobs.delete(blob_id)
        raise
