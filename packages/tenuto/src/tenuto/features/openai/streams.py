"""Audio that is sent while its job runs, from the segments that the job saves.

One encoder takes the samples of all segments, so the pieces form one recording. What was sent is compared
with the artifact before the end: a stream is complete, or it is cut off without an end.
"""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from msgspec import Struct, field

from tenuto import failpoints
from tenuto.account.caller import Caller
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call
from tenuto.api.jobs import changed
from tenuto.db.database import Transaction
from tenuto.errors import TenutoError
from tenuto.features.openai.idempotency_keys import has_left
from tenuto.features.openai.request_jobs import Submitted, wait_end
from tenuto.features.renditions.renderers import Renderers
from tenuto.features.renditions.renditions import AudioForm, NotRenderable, SoundWriter, read_sound
from tenuto.features.renditions.routes import PIECE_BYTES
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobReader
from tenuto.file.operations import Opened
from tenuto.job import audio_segments, read
from tenuto.job.attempts_sql import Segment
from tenuto.job.read import Job
from tenuto.job.states import SUCCEEDED

if TYPE_CHECKING:
    import numpy as np

CHECK_S = 0.15
"""Between two polls for segments: a new one wakes no waiter."""


class StreamBroken(Exception):
    """What was sent is no longer the beginning of the result, or nothing more will come."""


class NothingSent(Exception):
    """There was nothing to send before the job was final or the time was over."""


class _Sent(Struct):
    """What the encoder has been given of one job's audio."""

    segments: list[str] = field(default_factory=list)
    """Their SHA-256."""
    size_bytes: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    """Of their samples."""


class SoundStream:
    """The audio of a request's jobs while they run. Used as a context; call `pieces` once."""

    def __init__(self, call: Call, form: AudioForm, submitted: Submitted, end: float) -> None:
        self._call, self._form, self._submitted = call, form, submitted
        self._end = end
        """When it stops waiting for the next samples, in the event loop's time."""
        self._sink = _Sink()
        self._writer: SoundWriter | None = None
        self._sound: tuple[int, int] | None = None

    def __enter__(self) -> "SoundStream":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.__exit__()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Bytes as they come, and empty ones while there are none; after a normal end, they are complete.

        NothingSent: a job ended, or the time was over, before there was anything. StreamBroken: the stream
        cannot be completed. ClientGone.
        """
        for job_id in self._submitted.job_ids:
            async for piece in self._of_job(job_id):
                yield piece
            self._end = wait_end(self._call)
        async for piece in self._encoded(self._finish()):
            yield piece

    async def _of_job(self, job_id: str) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        sent = _Sent()
        while True:
            if has_left(self._call):
                raise ClientGone
            sequence, job, segments = await self._state(job_id)
            if job.state == SUCCEEDED:
                break
            new = _after(sent.segments, segments)
            if job.is_final() or loop.time() > self._end:
                self._end_early()
            for segment in new:
                opened = await self._opened(job_id, segment)
                async for piece in self._encoded(self._add(opened, sent)):
                    yield piece
                sent.segments.append(segment.sha256)
                self._end = wait_end(self._call)
            if not new:
                yield b""
                await self._pause(job, sequence)
        if self._is_unsent():
            raise NothingSent
        artifact = await self._artifact(job)
        async for piece in self._encoded(self._add_rest(artifact, sent)):
            yield piece

    def _is_unsent(self) -> bool:
        return self._writer is None

    def _end_early(self) -> None:
        raise NothingSent if self._is_unsent() else StreamBroken

    async def _state(self, job_id: str) -> tuple[int, Job, list[Segment]]:
        def find(tx: Transaction, who: Caller) -> tuple[int, Job, list[Segment]]:
            sequence, job = read.sequence(tx, job_id), read.for_caller(tx, who, job_id)
            segments = audio_segments.list_segments(
                tx, account_id=who.account_id, job_id=job_id, attempt_id=None
            )
            return sequence, job, segments

        return await self._call.read_again(find)

    async def _pause(self, job: Job, sequence: int) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await changed(self._call, job, sequence, CHECK_S)
        if (left := began + CHECK_S - loop.time()) > 0:
            await self._call.wait(asyncio.Event(), left)

    async def _opened(self, job_id: str, segment: Segment) -> Opened:
        return await self._call.read_again(
            lambda tx, who: audio_segments.open_segment(
                tx, account_id=who.account_id, job_id=job_id, segment_id=segment.segment_id
            )
        )

    async def _artifact(self, job: Job) -> Opened:
        return await self._call.read_again(
            lambda tx, who: artifacts.open_artifact(
                tx, account_id=who.account_id, artifact_id=job.artifacts[0].id
            )
        )

    async def _encoded(self, work: Iterator[None]) -> AsyncIterator[bytes]:
        """What the encoder writes during the work, in pieces; each is made only when it is to be sent."""

        def encode() -> tuple[bytes, bool]:
            for _ in work:
                if self._sink.waiting_bytes >= PIECE_BYTES:
                    return self._sink.take(), False
            return self._sink.take(), True

        is_over = False
        while not is_over:
            try:
                piece, is_over = await self._call.beside(self._call.service.part(Renderers).threads, encode)
            except (TenutoError, NotRenderable, OSError) as error:
                raise StreamBroken from error
            if piece:
                failpoints.hit("openai.mid_answer")
            yield piece

    def _finish(self) -> Iterator[None]:
        if self._writer is not None:
            self._writer.finish()
        yield

    def _add(self, opened: Opened, sent: _Sent) -> Iterator[None]:
        for block in self._blocks(opened):
            content = block.astype("<i2", copy=False).tobytes()
            sent.digest.update(content)
            sent.size_bytes += len(content)
            self._write(block)
            yield

    def _add_rest(self, opened: Opened, sent: _Sent) -> Iterator[None]:
        """Add the artifact's samples after those sent. StreamBroken: it does not begin with what was sent."""
        left, digest = sent.size_bytes, hashlib.sha256()
        for block in self._blocks(opened):
            frame_bytes = 2 * block.shape[1]
            skipped = min(left // frame_bytes, len(block))
            digest.update(block[:skipped].astype("<i2", copy=False).tobytes())
            left -= skipped * frame_bytes
            if left == 0 and digest.digest() != sent.digest.digest():
                raise StreamBroken
            self._write(block[skipped:])
            yield
        if left:
            raise StreamBroken

    def _blocks(self, opened: Opened) -> "Sequence[np.ndarray[Any, Any]] | Any":
        source = cast(BinaryIO, BlobReader(self._call.service.blobs, opened.blob))
        rate, channels, blocks = read_sound(source)
        if self._sound is None:
            self._sound = rate, channels
            self._writer = SoundWriter(self._form, rate, channels, cast(BinaryIO, self._sink))
        if self._sound != (rate, channels):
            raise StreamBroken
        return blocks

    def _write(self, block: "np.ndarray[Any, Any]") -> None:
        assert self._writer is not None
        if len(block):
            self._writer.write(block)


class _Sink:
    """What an encoder has written and nobody has taken yet. Append-only."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self.waiting_bytes = 0
        self._size_bytes = self._position = 0

    def write(self, content: Any) -> int:
        if self._position != self._size_bytes:
            raise io.UnsupportedOperation("what was written may have been sent")
        piece = bytes(content)
        self._waiting.append(piece)
        self.waiting_bytes += len(piece)
        self._size_bytes = self._position = self._size_bytes + len(piece)
        return len(piece)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def take(self) -> bytes:
        taken, self._waiting, self.waiting_bytes = b"".join(self._waiting), [], 0
        return taken


def _after(sent: Sequence[str], segments: Sequence[Segment]) -> list[Segment]:
    """The segments after those that were sent. StreamBroken: a later attempt has made different ones."""
    same = [segment.sha256 for segment in segments[: len(sent)]]
    if same != list(sent[: len(same)]):
        raise StreamBroken
    return list(segments[len(sent) :])
