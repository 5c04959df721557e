"""Saving what an engine shows while it speaks: bytes first, then the row, in a thread beside the synthesis.

The engine waits only when it is ahead by `MAX_AHEAD` segments. When the thread fails, the run hears of it
with its next segment or at its end; nothing is recorded before everything that was shown is saved. What a
preview may not hold any more ends the preview with a warning, never the job.
"""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import structlog

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.errors import StorageFailed, Swept, TenutoError
from tenuto.hosts.host import HostResult
from tenuto.jobs import segments
from tenuto.jobs.segments import MAX_SEGMENT_BYTES, NewSegment, SegmentLimit, SegmentTotals
from tenuto.media.wav import BYTES_PER_SAMPLE, HEADER_BYTES, Wav, WavInvalid, pcm16_wav, read_pcm16_wav
from tenuto.worker.calls import EngineCalls, ResultInvalid
from tenuto.worker.retrying import PATIENCE_S, NotStored, store, write

MAX_AHEAD = 4
"""Segments that may wait to be saved; a segment has at most 16 MiB."""

PAID_PATIENCE_S = 5.0
"""A preview that cannot be stored holds up a call that is paid for so long; then the call goes on without."""

_log = structlog.get_logger("tenuto.worker")


def run(calls: EngineCalls, parameters: dict[str, Any], inputs: dict[str, bytes]) -> HostResult:
    """One run of the job's engine; when the job streams, what it shows is saved before its result is given.

    Raises what `EngineCalls.run` and `Preview` raise.
    """
    if not parameters["stream"]:
        return calls.run(parameters, inputs)
    with Preview(calls) as preview:
        result = calls.run(parameters, inputs, preview.show)
    if not preview.warnings:
        return result
    warnings = [*result.metadata.get("warnings", []), *preview.warnings]
    return replace(result, metadata={**result.metadata, "warnings": warnings})


@dataclass(frozen=True, slots=True)
class _Waiting:
    sequence: int
    content: bytes
    duration_ms: int


class Preview:
    """The segments of one attempt. Use it as a context: at its end all that was shown is saved, or it raises.

    Raises Stale (the attempt is another's), StorageFailed, ResultInvalid.
    """

    warnings: list[str]
    """Why the preview ended before the speech did; set while it runs, read when it has ended."""

    def __init__(self, calls: EngineCalls) -> None:
        self._context = calls.context
        self._claim = calls.claim
        self._watched = calls.watched
        self.warnings = []
        self._shown = SegmentTotals()
        self._is_full = False
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(MAX_AHEAD)
        self._failed: BaseException | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="segments", daemon=True)

    def __enter__(self) -> "Preview":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """What was shown before a failure is saved too: it stays readable."""
        self._waiting.put(None)
        self._thread.join()
        if error is None and self._failed is not None:
            raise self._failed

    def show(self, content: bytes, metadata: dict[str, Any]) -> None:
        """Take one segment, in several parts if it is too large for one; waits while too many are waiting.

        From the first one that is more than may be kept the preview shows nothing."""
        if self._failed is not None:
            raise self._failed
        if self._is_full:
            return
        try:
            wav = read_pcm16_wav(content)
        except WavInvalid as error:
            raise ResultInvalid(f"segment {self._shown.count} is not a WAV: {error}") from error
        for part, duration_ms in _parts(content, wav):
            sequence = self._shown.count
            try:
                self._shown = self._shown.plus(len(part))
            except SegmentLimit as error:
                self._fill(error)
                return
            self._waiting.put(_Waiting(sequence, part, duration_ms))

    def _fill(self, error: SegmentLimit) -> None:
        self._is_full = True
        self.warnings.append(
            f"The preview ends before the speech does: {error}. The result is complete all the same."
        )
        ids = {"job_id": self._claim.job_id, "attempt_id": self._claim.attempt_id}
        _log.info("preview.full", segments=self._shown.count, size_bytes=self._shown.size_bytes, **ids)

    def _run(self) -> None:
        """Save one after the other; after a failure take the rest away, so that nobody waits for us."""
        while (waiting := self._waiting.get()) is not None:
            if self._failed is not None or self._given_up:
                continue
            try:
                self._save(waiting)
            except (StorageFailed, Swept, NotStored) as error:
                self._give_up(error)
            except Exception as error:
                self._failed = error

    def _save(self, waiting: _Waiting) -> None:
        ids, attempt_id = self._context.ids, self._claim.attempt_id
        patience_s = PATIENCE_S if self._claim.rerunnable else PAID_PATIENCE_S
        blob = store(self._context, waiting.content, self._watched, patience_s=patience_s)
        new = NewSegment(ids.new("segment"), waiting.sequence, blob, waiting.duration_ms)
        failpoints.hit("segment.after_bytes")

        def save(tx: Transaction, now_ms: int) -> None:
            segments.save(tx, attempt_id, new, now_ms=now_ms)
            failpoints.hit("segment.before_commit")

        write(self._context, save)
        failpoints.hit("segment.after_commit")

    def _give_up(self, error: TenutoError) -> None:
        """A call that is paid for goes on without its preview; any other is tried again as a whole."""
        if self._claim.rerunnable:
            self._failed = error
            return
        self._given_up = True
        self.warnings.append(
            "The preview ends before the speech does: a segment could not be stored. The result is complete."
        )
        _log.error("preview.given_up", job_id=self._claim.job_id, attempt_id=self._claim.attempt_id)


def _parts(content: bytes, wav: Wav) -> Iterator[tuple[bytes, int]]:
    """A segment as WAV files that may each be kept, of about equal length, and how long each lasts."""
    if len(content) <= MAX_SEGMENT_BYTES:
        yield content, wav.duration_ms
        return
    frame_bytes = wav.channels * BYTES_PER_SAMPLE
    most = (MAX_SEGMENT_BYTES - HEADER_BYTES) // frame_bytes
    count = max(1, -(-wav.frame_count // most))
    step = -(-wav.frame_count // count) * frame_bytes
    for start in range(0, len(wav.frames), max(1, step)):
        part = pcm16_wav(bytes(wav.frames[start : start + step]), wav.sample_rate, wav.channels)
        yield part, read_pcm16_wav(part).duration_ms
