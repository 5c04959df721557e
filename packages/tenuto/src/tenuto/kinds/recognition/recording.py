"""A recording as a job's engines get it: the input's FLAC decoded to 16 kHz mono PCM16, part by part.

It is decoded once an attempt, into a file without a name in the data folder: whatever ends the worker,
nothing is left of it. The cuts depend on the samples alone, so that every attempt has the same parts.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache

import structlog

from tenuto import failpoints
from tenuto.artifacts.inputs import Bound
from tenuto.errors import ArtifactUnavailable, CorruptBlob, StorageFailed, StoreUnreachable
from tenuto.hosts.host import Cancelled, EngineFailed
from tenuto.media.decoding import Decoded, DecoderEnded, DecoderFailed, Decoding
from tenuto.media.flac import FlacInvalid
from tenuto.worker.calls import EngineCalls
from tenuto.worker.fair_lock import FairLock
from tenuto.worker.inputs import input_record, when_back

RATE = 16_000
SAMPLE_BYTES = 2

_decoding = FairLock()
"""One recording is decoded at a time: eight children at once would take the memory of eight."""
_log = structlog.get_logger("tenuto.worker")


@dataclass(frozen=True, slots=True)
class Recording:
    """What was decoded: what is known of it, and the open file with its samples."""

    decoded: Decoded
    file: int

    @property
    def duration_s(self) -> float:
        """Of the input, counted on its samples."""
        summary = self.decoded.summary
        return summary.frames / summary.sample_rate

    def samples(self, start: int, end: int) -> bytes:
        """PCM16 from one sample up to another."""
        at, stop = start * SAMPLE_BYTES, end * SAMPLE_BYTES
        pieces = []
        while at < stop:
            piece = os.pread(self.file, stop - at, at)
            if not piece:
                raise StorageFailed("The decoded recording is shorter than it was.")
            pieces.append(piece)
            at += len(piece)
        return b"".join(pieces)


@contextmanager
def recorded(calls: EngineCalls, bound: Bound) -> Iterator[Recording]:
    """The job's input, decoded, while the block lasts.

    Raises EngineFailed with `input_unreadable`, StorageFailed when there is no room for it, Cancelled.
    """
    with _room(calls) as file:
        decoded = when_back(calls.watched, lambda: _decode_in_turn(calls, bound, file))
        summary = decoded.summary
        if (summary.duration_ms, summary.channels) != (bound.duration_ms, bound.channels):
            raise EngineFailed("input_unreadable", "the recording is not what was uploaded", transient=False)
        failpoints.hit("input.after_read")
        yield Recording(decoded, file)


@contextmanager
def _room(calls: EngineCalls) -> Iterator[int]:
    try:
        failpoints.hit("recording.before_room")
        file = tempfile.TemporaryFile(dir=calls.context.settings.folder)  # noqa: SIM115 (closed below)
    except OSError as error:
        raise StorageFailed("There is no room for the decoded recording.") from error
    with file:
        yield file.fileno()


def _decode_in_turn(calls: EngineCalls, bound: Bound, file: int) -> Decoded:
    """A recording that cannot be read just now gives its turn back while it waits."""
    watched = calls.watched
    with _decoding.turn(watched.stop, account_id=calls.claim.account_id):
        decoded = _decode(calls, bound, file)
        _warn_once(decoded.unconfined)
        return decoded


@cache
def _warn_once(unconfined: tuple[str, ...]) -> None:
    if unconfined:
        _log.warning("decoder.not_confined", reasons=list(unconfined))


def _decode(calls: EngineCalls, bound: Bound, file: int) -> Decoded:
    stop = calls.watched.stop
    # What is there is of a read that broke off, because the store of bytes went away.
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    record = input_record(calls.context, bound.blob_id, "the recording")
    try:
        with closing(Decoding(file, bound.duration_ms)) as decoding, stop.calling(decoding.abandon):
            for block in calls.context.blobs.read(record):
                decoding.feed(block)
                if stop.is_set():
                    raise Cancelled(lost=False)
            return decoding.finish()
    except FlacInvalid as error:
        if stop.is_set():
            raise Cancelled(lost=False) from error
        # Its frames are whole, or it would not have been admitted; what they hold is not what they promise.
        fault = f"the recording: {error}"
        raise EngineFailed("input_unreadable", fault, transient=False, public=True) from error
    except DecoderEnded as error:
        if stop.is_set():
            raise Cancelled(lost=False) from error
        raise EngineFailed("input_unreadable", f"the recording: {error}", transient=True) from error
    except DecoderFailed as error:
        raise StorageFailed(f"The recording could not be decoded: {error}.") from error
    except StoreUnreachable:
        raise
    except CorruptBlob as error:
        raise EngineFailed("input_unreadable", "the recording is damaged", transient=False) from error
    except ArtifactUnavailable as error:
        raise EngineFailed("input_unreadable", "the recording cannot be read", transient=True) from error
