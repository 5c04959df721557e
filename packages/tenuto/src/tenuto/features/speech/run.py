"""A speech attempt: the engine speaks the whole text in one run, with the recordings of the job's voices.

Its WAV is checked, and long pauses of the shared voice are shortened. If the job streams, each segment of the
preview is saved while the engine speaks, in a thread: bytes first, then the row. The engine waits only when
it is ahead by `MAX_AHEAD` segments. If the thread fails, the error surfaces with the next segment or at the
end; nothing is recorded before every segment is saved. A preview that exceeds its limits ends with a warning;
the job continues.
"""

import queue
import threading
from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.errors import OperatorError, StorageFailed
from tenuto.features.decoding.wav import (
    BYTES_PER_SAMPLE,
    HEADER_BYTES,
    Wav,
    WavInvalid,
    is_quiet,
    pcm16_wav,
    read_pcm16_wav,
)
from tenuto.features.speech.parameters import BOUND_VOICES
from tenuto.features.speech.pauses import shorten_pauses
from tenuto.host.host import HostResult
from tenuto.job import audio_segments
from tenuto.job.audio_segments import MAX_SEGMENT_BYTES, SegmentLimit, SegmentTotals
from tenuto.job.rows import NewSegment
from tenuto.kind.kinds import SuppliedResult
from tenuto.logs import get_logger
from tenuto.worker.engine_calls import EngineCalls, ResultInvalid
from tenuto.worker.storage_retries import PATIENCE_S, read_input, store, unless_stopped, write

MEDIA_TYPE = "audio/wav"
LONGEST_S, LONGEST_PER_CHARACTER_S = 60.0, 5.0
"""No speech is longer than this, at any pace, with any pause: the model ran on after the text."""
MAX_AHEAD = 4
"""Segments that may wait to be saved; a segment has at most 16 MiB."""
PAID_PATIENCE_S = 5.0
"""For how long a preview that cannot be stored delays a paid call, which then continues without it."""

_log = get_logger("tenuto.worker")


def run(calls: EngineCalls) -> HostResult:
    """The finished WAV, its duration measured on its samples. Raises ResultInvalid, and what hosts raise."""
    parameters = calls.claim.parameters
    result = _previewed(calls, parameters, _recordings(calls, parameters))
    wav = checked(result, parameters["text"])
    voice = parameters.get("voice")
    if voice is not None and voice["kind"] == "shared":
        return _with_short_pauses(result, wav, voice["profile_version"])
    return HostResult(result.media_type, result.content, result.metadata, wav.duration_ms)


def checked(result: HostResult, text: str) -> Wav:
    """An engine's WAV for a text, not silent and within the longest plausible duration. ResultInvalid."""
    if result.media_type != MEDIA_TYPE:
        raise ResultInvalid(f"the engine gave {result.media_type[:60]!r} instead of {MEDIA_TYPE}")
    try:
        wav = read_pcm16_wav(result.content)
    except WavInvalid as error:
        raise ResultInvalid(f"the engine's WAV is invalid: {error}") from error
    seconds = wav.frame_count / wav.sample_rate
    if seconds > LONGEST_S + LONGEST_PER_CHARACTER_S * len(text):
        raise ResultInvalid(f"the engine's WAV lasts {seconds:.0f} s, for {len(text)} characters")
    if is_quiet(wav):
        raise ResultInvalid("the engine's WAV is silent")
    return wav


def read_result(content: bytes, parameters: dict[str, Any]) -> SuppliedResult:
    """An operator's file as a result; charged by what was measured. Raises OperatorError."""
    try:
        wav = read_pcm16_wav(content)
    except WavInvalid as error:
        raise OperatorError(f"the file is not a result of a speech job, which is a WAV: {error}") from error
    return SuppliedResult(content, MEDIA_TYPE, {"duration_ms": wav.duration_ms}, wav.duration_ms)


def _recordings(calls: EngineCalls, parameters: dict[str, Any]) -> dict[str, bytes]:
    """Each voice's recording as it was when the job was accepted."""
    voices = {name: parameters.get(name) for name in BOUND_VOICES.values()}
    return {
        name: read_input(calls, voice["blob_id"], f"the recording of {voice['voice_id']}")
        for name, voice in voices.items()
        if voice is not None
    }


def _with_short_pauses(result: HostResult, wav: Wav, profile_version: str) -> HostResult:
    """The shared voice's final file; the segments of a preview keep their pauses."""
    shortened = shorten_pauses(wav)
    content = result.content if shortened is None else shortened.content
    duration_ms = read_pcm16_wav(content).duration_ms
    metadata = {
        **result.metadata,
        "duration_ms": duration_ms,
        "voice_profile_version": profile_version,
        "pause_removed_ms": 0 if shortened is None else shortened.removed_ms,
    }
    return HostResult(result.media_type, content, metadata, duration_ms)


def _previewed(calls: EngineCalls, parameters: dict[str, Any], inputs: dict[str, bytes]) -> HostResult:
    """One run of the job's engine; if the job streams, all its segments are saved before this returns.

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


class _Waiting(Struct, frozen=True):
    sequence: int
    content: bytes
    duration_ms: int


class Preview:
    """The segments of one attempt. Used as a context, which saves all segments before it ends, or raises.

    Raises Stale (the attempt belongs to another), StorageFailed, ResultInvalid (of a paid call, too).
    """

    warnings: list[str]
    """Why the preview ended before the speech did; read after the context."""

    def __init__(self, calls: EngineCalls) -> None:
        self._context = calls.context
        self._claim = calls.claim
        self._watched = calls.watched
        self.warnings = []
        self._totals = SegmentTotals()
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
        """Segments from before a failure are saved too: they stay readable."""
        self._waiting.put(None)
        self._thread.join()
        if error is None and self._failed is not None:
            raise self._failed

    def show(self, content: bytes, metadata: dict[str, Any]) -> None:
        """Take one segment, divided if it is too large; waits while too many are waiting.

        From the first one that exceeds the limits on, segments are dropped."""
        if self._failed is not None:
            raise self._failed
        if self._is_full:
            return
        try:
            wav = read_pcm16_wav(content)
        except WavInvalid as error:
            raise ResultInvalid(f"segment {self._totals.count} is not a WAV: {error}") from error
        for piece, duration_ms in _divided(content, wav):
            sequence = self._totals.count
            try:
                self._totals = self._totals.plus(len(piece))
            except SegmentLimit as error:
                self._fill(error)
                return
            self._waiting.put(_Waiting(sequence, piece, duration_ms))

    def _fill(self, error: SegmentLimit) -> None:
        self._is_full = True
        self.warnings.append(
            f"The preview ends before the speech does: {error}. The result is complete all the same."
        )
        ids = {"job_id": self._claim.job_id, "attempt_id": self._claim.attempt_id}
        _log.info("preview.full", segments=self._totals.count, size_bytes=self._totals.size_bytes, **ids)

    def _run(self) -> None:
        """Save one after the other; after a failure drop the rest, so that the engine never waits for us."""
        while (waiting := self._waiting.get()) is not None:
            if self._failed is not None or self._given_up:
                continue
            try:
                self._save(waiting)
            except Exception as error:
                self._give_up(error)

    def _save(self, waiting: _Waiting) -> None:
        ids, attempt_id = self._context.ids, self._claim.attempt_id
        is_extra = not self._claim.rerunnable
        patience_s = PAID_PATIENCE_S if is_extra else PATIENCE_S
        content, watched = waiting.content, self._watched
        blob = store(self._context, content, watched, patience_s=patience_s, is_extra=is_extra)
        new = NewSegment(ids.new("segment"), waiting.sequence, blob, waiting.duration_ms)
        failpoints.hit("segment.after_bytes")

        def save(tx: Transaction, now_ms: int) -> None:
            audio_segments.save(tx, attempt_id, new, now_ms=now_ms)
            failpoints.hit("segment.before_commit")

        late_s = PAID_PATIENCE_S if is_extra else None
        unless_stopped(watched, partial(write, self._context, save), late_s=late_s, when_late=_too_late)
        failpoints.hit("segment.after_commit")

    def _give_up(self, error: Exception) -> None:
        """A paid call continues without its preview, whatever it met; any other is tried again as a whole."""
        if self._claim.rerunnable:
            self._failed = error
            return
        self._given_up = True
        self.warnings.append(
            "The preview ends before the speech does: a segment could not be stored. The result is complete."
        )
        _log.error("preview.given_up", job_id=self._claim.job_id, attempt_id=self._claim.attempt_id)


def _too_late() -> None:
    raise StorageFailed("The database does not answer.")


def _divided(content: bytes, wav: Wav) -> Iterator[tuple[bytes, int]]:
    """A segment as WAV files of allowed size and about equal length, each with its duration in ms."""
    if len(content) <= MAX_SEGMENT_BYTES:
        yield content, wav.duration_ms
        return
    frame_bytes = wav.channels * BYTES_PER_SAMPLE
    most = (MAX_SEGMENT_BYTES - HEADER_BYTES) // frame_bytes
    count = max(1, -(-wav.frame_count // most))
    step = -(-wav.frame_count // count) * frame_bytes
    for start in range(0, len(wav.frames), max(1, step)):
        piece = pcm16_wav(bytes(wav.frames[start : start + step]), wav.sample_rate, wav.channels)
        yield piece, read_pcm16_wav(piece).duration_ms
