"""A recording as a job's engines get it: the input's FLAC decoded to 16 kHz mono PCM16, chunk by chunk.

It is decoded once per attempt, into an unnamed file in the data folder, so nothing is left of it however the
worker ends. The cuts depend on the samples alone, so that every attempt has the same chunks.

A child process decodes (`flac_child`). It handles a caller's bytes, so its answer is read within
limits, and any way in which it can end is accounted for.
"""

import contextlib
import fcntl
import json
import os
import select
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tenuto import failpoints
from tenuto.errors import ArtifactUnavailable, CorruptBlob, StorageFailed, StoreUnreachable
from tenuto.features.decoding.decoder_child import (
    DecoderEnded,
    DecoderFailed,
    read_answer,
    start_child,
    warn_unconfined,
)
from tenuto.file.inputs import Bound
from tenuto.host.host import Cancelled, EngineFailed
from tenuto.media.flac import MAX_CHANNELS, MAX_DURATION_S, FlacInvalid, FlacSummary
from tenuto.worker.engine_calls import EngineCalls
from tenuto.worker.fair_lock import FairLock
from tenuto.worker.storage_retries import input_record, when_back

RATE = 16_000
SAMPLE_BYTES = 2
PIPE_BYTES = 1 << 20
"""The size of the pipe to the child, which decodes while we hash the next block."""
STALL_S = 300.0
"""The child is killed unless it accepts bytes within this time, and answers within it after the last."""

_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which the standard library names only on Linux

_decoding = FairLock()
"""One recording is decoded at a time: eight children at once would take the memory of eight."""


class Decoded(Struct, frozen=True):
    """What was decoded of a FLAC."""

    summary: FlacSummary
    pcm_frames: int
    """Of the 16 kHz mono samples."""
    chunks: tuple[tuple[int, int], ...]
    """The first of those samples in each chunk, and the one after its last."""
    unconfined: tuple[str, ...]
    """Which of the child's protections the kernel refused, and why."""


class Recording(Struct, frozen=True):
    """A decoded recording: its description, and the open file with its samples."""

    decoded: Decoded
    file: int

    @property
    def duration_s(self) -> float:
        """Of the input, by the number of its samples."""
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


@contextlib.contextmanager
def decoded_recording(calls: EngineCalls, bound: Bound) -> Iterator[Recording]:
    """The job's input, decoded, while the block lasts.

    Raises EngineFailed with `input_unreadable`, StorageFailed if there is no disk space for it, Cancelled.
    """
    with _scratch_file(calls) as file:
        decoded = when_back(calls.watched, lambda: _decode_in_turn(calls, bound, file))
        summary = decoded.summary
        if (summary.duration_ms, summary.channels) != (bound.duration_ms, bound.channels):
            raise EngineFailed("input_unreadable", "the recording is not what was uploaded", transient=False)
        failpoints.hit("input.after_read")
        yield Recording(decoded, file)


@contextlib.contextmanager
def _scratch_file(calls: EngineCalls) -> Iterator[int]:
    try:
        failpoints.hit("recording.before_room")
        file = tempfile.TemporaryFile(dir=calls.context.settings.folder)  # noqa: SIM115 (closed below)
    except OSError as error:
        raise StorageFailed("There is no room for the decoded recording.") from error
    with file:
        yield file.fileno()


def _decode_in_turn(calls: EngineCalls, bound: Bound, file: int) -> Decoded:
    """Decode when it is this recording's turn; the turn is released while its bytes cannot be read."""
    watched = calls.watched
    with _decoding.turn(watched.stop, account_id=calls.claim.account_id):
        decoded = _decode(calls, bound, file)
        warn_unconfined(decoded.unconfined)
        return decoded


def _decode(calls: EngineCalls, bound: Bound, file: int) -> Decoded:
    stop = calls.watched.stop
    # The file may have content from an earlier try, cut short when the blob store became unreachable.
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    record = input_record(calls.context, bound.blob_id, "the recording")
    try:
        with (
            contextlib.closing(Decoding(file, bound.duration_ms)) as decoding,
            stop.calling(decoding.abandon),
        ):
            for block in calls.context.blobs.read(record):
                decoding.feed(block)
                if stop.is_set():
                    raise Cancelled(lost=False)
            return decoding.finish()
    except FlacInvalid as error:
        if stop.is_set():
            raise Cancelled(lost=False) from error
        # It passed the check at upload, so its frames are whole, but their content is not valid.
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


class Decoding:
    """One running child. `output`, an open file, gets 16 kHz mono PCM16 of at most `duration_ms`.

    One thread feeds and finishes; any may call `abandon`.
    """

    def __init__(self, output: int, duration_ms: int) -> None:
        theirs, self._input = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._input, _SET_PIPE_SIZE, PIPE_BYTES)
        os.set_blocking(self._input, False)
        self._closing = threading.Lock()
        try:
            self._child = start_child(
                "tenuto.features.recognition.flac_child", str(duration_ms), source=theirs, output=output
            )
        except DecoderFailed:
            self._close_input()
            raise
        finally:
            os.close(theirs)

    @property
    def pid(self) -> int:
        return self._child.pid

    def feed(self, block: bytes) -> None:
        """Pass on the next bytes. A child that has ended takes none: `finish` raises the reason."""
        left = memoryview(block)
        with contextlib.suppress(BrokenPipeError):
            while left and self._input >= 0:
                try:
                    left = left[os.write(self._input, left) :]
                except BlockingIOError:
                    self._wait_until_taken()

    def finish(self) -> Decoded:
        """The result, after the last byte. Raises FlacInvalid, DecoderEnded, DecoderFailed."""
        self._close_input()
        answer = read_answer(self._child, STALL_S)
        self._child.wait()
        if not answer:
            raise DecoderEnded("it takes too much time or memory to decode")
        return _checked(answer)

    def abandon(self) -> None:
        """End it now; its answer is no longer needed."""
        self._child.kill()

    def close(self) -> None:
        """Leave nothing behind, whether it has finished or not."""
        self._close_input()
        self._child.kill()
        self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()

    def _wait_until_taken(self) -> None:
        poll = select.poll()
        poll.register(self._input, select.POLLOUT)
        if not poll.poll(STALL_S * 1000):
            self._child.kill()

    def _close_input(self) -> None:
        with self._closing:
            if self._input >= 0:
                os.close(self._input)
                self._input = -1


def _checked(answer: bytes) -> Decoded:
    """The answer, if it has the right form: the caller's bytes may have compromised the child."""
    try:
        read: dict[str, Any] = json.loads(answer)
        if "refused" in read:
            raise FlacInvalid(str(read["refused"])[:300])
        if "failed" in read:
            raise DecoderFailed(str(read["failed"])[:300])
        summary = FlacSummary(int(read["sample_rate"]), int(read["channels"]), int(read["frames"]))
        spans = tuple((int(start), int(end)) for start, end in read["chunks"])
        unconfined = tuple(str(one)[:300] for one in read["unconfined"])
        decoded = Decoded(summary, int(read["pcm_frames"]), spans, unconfined)
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, FlacInvalid):
            raise
        raise DecoderEnded("its decoder broke down") from error
    is_sound = 1 <= summary.sample_rate < 1 << 20 and 1 <= summary.channels <= MAX_CHANNELS
    if not is_sound or not 0 < summary.frames <= MAX_DURATION_S * summary.sample_rate:
        raise DecoderEnded("its decoder broke down")
    return decoded
