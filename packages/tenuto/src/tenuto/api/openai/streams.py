"""Sound that is sent while its job is made, from the segments that the job saves.

One encoder is given the samples of every segment, so the pieces are one sound. What was sent is compared with
the artifact before the end: a stream is whole, or it is cut without an end.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tenuto import failpoints
from tenuto.accounts.restrictions import Caller
from tenuto.api.body import ClientGone
from tenuto.api.call import Call
from tenuto.api.jobs import changed
from tenuto.api.openai.jobs import Submitted
from tenuto.api.openai.keys import has_left
from tenuto.api.renditions import IN_MEMORY_BYTES
from tenuto.artifacts import operations as artifacts
from tenuto.artifacts.operations import Opened
from tenuto.blobs.blob import BlobReader
from tenuto.db.database import Transaction
from tenuto.errors import TenutoError
from tenuto.jobs import audio_segments, read
from tenuto.jobs.read import Operation
from tenuto.jobs.rows import Segment
from tenuto.jobs.states import SUCCEEDED
from tenuto.media.renditions import AudioForm, NotRenderable, SoundWriter, read_sound

if TYPE_CHECKING:
    import numpy as np

LOOK_S = 0.15
"""Between two looks for segments, which wake nobody."""


class StreamBroken(Exception):
    """What was sent is not the beginning of what there is now, or nothing more will come."""


class NothingSent(Exception):
    """There is nothing to send before all jobs are final, or the time is over."""


@dataclass(slots=True)
class _Sent:
    """What of one job's sound has been given to the encoder."""

    segments: list[str] = field(default_factory=list)
    """Their SHA-256."""
    size_bytes: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    """Of their samples."""


class SoundStream:
    """The sound of a request's jobs, as far as there is any. Used as a context; `pieces` once."""

    def __init__(self, call: Call, form: AudioForm, submitted: Submitted, wait_s: float) -> None:
        self._call, self._form, self._submitted, self._wait_s = call, form, submitted, wait_s
        # Closed by `__exit__`.
        self._sink = cast(BinaryIO, tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES))  # noqa: SIM115
        self._taken_bytes = 0
        self._writer: SoundWriter | None = None
        self._sound: tuple[int, int] | None = None

    def __enter__(self) -> "SoundStream":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.__exit__()
        self._sink.close()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Bytes as they come, and empty ones where there was nothing for a while; at its end it was all.

        NothingSent: a job ended otherwise, or is not ready in time, and nothing was given. StreamBroken: the
        same later. ClientGone.
        """
        for job_id in self._submitted.job_ids:
            async for piece in self._of_job(job_id):
                yield piece
        yield await self._encoded(lambda: self._writer.finish() if self._writer else None)

    async def _of_job(self, job_id: str) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        sent, end = _Sent(), loop.time() + self._wait_s
        while True:
            if has_left(self._call):
                raise ClientGone
            sequence, operation, segments = await self._look(job_id)
            if operation.state == SUCCEEDED:
                break
            new = _after(sent.segments, segments)
            if operation.is_final() or loop.time() > end:
                self._end_early()
            for segment in new:
                opened = await self._opened(job_id, segment)
                yield await self._encoded(lambda opened=opened: self._add(opened, sent))  # type: ignore[misc]
                sent.segments.append(segment.sha256)
                end = loop.time() + self._wait_s
            if not new:
                yield b""
                await self._pause(operation, sequence)
        if self._is_unsent():
            raise NothingSent
        artifact = await self._artifact(operation)
        yield await self._encoded(lambda: self._add_rest(artifact, sent))

    def _is_unsent(self) -> bool:
        return self._writer is None

    def _end_early(self) -> None:
        raise NothingSent if self._is_unsent() else StreamBroken

    async def _look(self, job_id: str) -> tuple[int, Operation, list[Segment]]:
        def look(tx: Transaction, who: Caller) -> tuple[int, Operation, list[Segment]]:
            sequence, operation = read.sequence(tx, job_id), read.for_caller(tx, who, job_id)
            segments = audio_segments.list_segments(
                tx, account_id=who.account_id, job_id=job_id, attempt_id=None
            )
            return sequence, operation, segments

        return await self._call.read_again(look)

    async def _pause(self, operation: Operation, sequence: int) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await changed(self._call, operation, sequence, LOOK_S)
        if (left := began + LOOK_S - loop.time()) > 0:
            await self._call.wait(asyncio.Event(), left)

    async def _opened(self, job_id: str, segment: Segment) -> Opened:
        return await self._call.read_again(
            lambda tx, who: audio_segments.open_segment(
                tx, account_id=who.account_id, job_id=job_id, segment_id=segment.segment_id
            )
        )

    async def _artifact(self, operation: Operation) -> Opened:
        return await self._call.read_again(
            lambda tx, who: artifacts.open_artifact(
                tx, account_id=who.account_id, artifact_id=operation.artifacts[0].id
            )
        )

    async def _encoded(self, work: Callable[[], None]) -> bytes:
        """What the encoder has written since the last time, after the work."""

        def encode() -> bytes:
            self._sink.seek(0, 2)
            work()
            self._sink.seek(self._taken_bytes)
            new = self._sink.read()
            self._taken_bytes += len(new)
            return new

        try:
            piece = await self._call.beside(self._call.service.renderers, encode)
        except (TenutoError, NotRenderable, OSError) as error:
            raise StreamBroken from error
        if piece:
            failpoints.hit("openai.mid_answer")
        return piece

    def _add(self, opened: Opened, sent: _Sent) -> None:
        for block in self._blocks(opened):
            content = block.astype("<i2", copy=False).tobytes()
            sent.digest.update(content)
            sent.size_bytes += len(content)
            self._write(block)

    def _add_rest(self, opened: Opened, sent: _Sent) -> None:
        """The samples of the artifact behind what was sent. StreamBroken: they do not begin with it."""
        left, digest = sent.size_bytes, hashlib.sha256()
        for block in self._blocks(opened):
            frame_bytes = 2 * block.shape[1]
            skipped = min(left // frame_bytes, len(block))
            digest.update(block[:skipped].astype("<i2", copy=False).tobytes())
            left -= skipped * frame_bytes
            if left == 0 and digest.digest() != sent.digest.digest():
                raise StreamBroken
            self._write(block[skipped:])
        if left:
            raise StreamBroken

    def _blocks(self, opened: Opened) -> "Sequence[np.ndarray[Any, Any]] | Any":
        source = cast(BinaryIO, BlobReader(self._call.service.blobs, opened.blob))
        rate, channels, blocks = read_sound(source)
        if self._sound is None:
            self._sound = rate, channels
            self._writer = SoundWriter(self._form, rate, channels, self._sink)
        if self._sound != (rate, channels):
            raise StreamBroken
        return blocks

    def _write(self, block: "np.ndarray[Any, Any]") -> None:
        assert self._writer is not None
        if len(block):
            self._writer.write(block)


def _after(sent: Sequence[str], segments: Sequence[Segment]) -> list[Segment]:
    """The segments behind those that were sent. StreamBroken: a later attempt has made others."""
    same = [segment.sha256 for segment in segments[: len(sent)]]
    if same != list(sent[: len(same)]):
        raise StreamBroken
    return list(segments[len(sent) :])
