"""Admission of an upload: its bytes stored and inspected in one pass, nothing kept of what is refused.

Runs in a thread of the upload's own. Knows neither HTTP nor rows.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from tenuto.blobs.blob import BlobRecord, BlobStore
from tenuto.errors import ChecksumMismatch, Fault, InvalidRequest, StorageFailed
from tenuto.media.flac import FlacInvalid, FlacSummary, Inspection

PIECE_BYTES = 64 * 1024
"""Inspected at once. A recording takes 0.2 ms of a processor; frames of a few samples each take 20 ms."""
DENSE_S = 0.002
"""A piece that takes longer is dense: few files are, unless they were made to keep us busy."""
REST_FACTOR = 3
"""A dense piece is followed by a rest that is so many times longer than it took."""

_resting = threading.Lock()
"""Held during a rest: dense uploads share a quarter of the interpreter, however many there are."""


def admit_flac(
    blobs: BlobStore, blob_id: str, blocks: Iterable[bytes], *, expected_sha256: str
) -> tuple[BlobRecord, FlacSummary]:
    """Store the bytes and inspect them; what `blocks` raises goes through, and nothing is stored then.

    Raises ChecksumMismatch, InvalidRequest (what is wrong with the FLAC), StorageFailed.
    """
    inspection = Inspection()
    record = blobs.write(blob_id, _inspected(blocks, inspection))
    with _nothing_kept(blobs, blob_id):
        if record.sha256 != expected_sha256:
            raise ChecksumMismatch
        try:
            return record, inspection.finish()
        except FlacInvalid as error:
            message = f"the file is not a FLAC that is accepted: {error}"
            raise InvalidRequest([Fault("body", "invalid_recording", message)]) from error


def _inspected(blocks: Iterable[bytes], inspection: Inspection) -> Iterator[bytes]:
    for block in blocks:
        for at in range(0, len(block), PIECE_BYTES):
            began_s = time.thread_time()
            inspection.add(block[at : at + PIECE_BYTES])
            _rest_after(time.thread_time() - began_s)
        yield block


def _rest_after(took_s: float) -> None:
    """The inspection holds the interpreter, which the other requests of this process need."""
    if took_s > DENSE_S:
        with _resting:
            time.sleep(took_s * REST_FACTOR)


@contextmanager
def _nothing_kept(blobs: BlobStore, blob_id: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # What cannot be removed now has no row, and is found by the sweep.
        with suppress(StorageFailed):
            blobs.delete(blob_id)
        raise
