"""The text of a recognition job while it runs: the finished chunks, then what an engine reports of its chunk.

It is the beginning of the result's text, as far as that is certain: where two chunks overlap, text is held
back until both are written, and an engine that may redo its transcript (`tries`) has to finish first. It is
an extra: an unusable report ends it, and the job continues.
"""

import time
from collections.abc import Sequence
from itertools import takewhile
from typing import Annotated, Any

import msgspec

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.features.recognition import live_text
from tenuto.features.recognition.recognise_chunk import Reports
from tenuto.features.recognition.transcript_merge import ChunkTranscript, joined, merge_word_timestamps
from tenuto.host.host import storable
from tenuto.host.registry import SEGMENT_TEXT, EngineEntry
from tenuto.job.rows import ChunkKey
from tenuto.logs import get_logger
from tenuto.worker.engine_calls import EngineCalls, OnProgress
from tenuto.worker.storage_retries import write_if_soon

SAVE_S = 0.5
"""Between two writes while an engine reports."""
BEHIND_S = 5.0
"""A chunk's text is joined to the previous one's once it reaches this far past their overlap."""
MAX_PIECE_BYTES = 16 << 10
"""Of one report of an engine."""

_log = get_logger("tenuto.worker")
_Seconds = Annotated[float, msgspec.Meta(ge=0)]


class _Times(msgspec.Struct):
    """What is read from a piece's metadata."""

    start: _Seconds
    end: _Seconds


def text_engine(engines: Sequence[EngineEntry]) -> EngineEntry:
    """The engine whose transcript is a job's text: the one with speakers, else the first."""
    return next((engine for engine in engines if engine.role == SEGMENT_TEXT), engines[0])


class LiveText:
    """The text of one attempt; `spans` are the chunks of its recording in seconds."""

    def __init__(
        self, calls: EngineCalls, engines: Sequence[EngineEntry], spans: Sequence[tuple[float, float]]
    ) -> None:
        self._calls = calls
        self._engine = text_engine(engines)
        self._spans = spans
        self._written = ChunkTranscript(0.0, 0.0, {"segments": []})
        """The finished chunks, merged into one."""
        self._reported: list[dict[str, Any]] = []
        """The segments of the chunk in progress."""
        self._is_saved = True
        """Whether nothing has been reported since the last write."""
        self._text = ""
        """The text stored so far."""
        self._count = self._size_bytes = 0
        self._saved_at = float("-inf")
        self._is_over = False

    def reports(self, key: ChunkKey, on_progress: OnProgress) -> Reports:
        """The callbacks for an engine's run on this chunk."""
        self._reported, self._is_saved = [], True
        if key.role != self._engine.role or self._engine.tries > 1:
            # What it reports is not the job's text, or not final.
            return Reports(on_progress)

        def progress(progress: dict[str, Any]) -> None:
            on_progress(progress)
            self._save_reported(key)

        def segment(content: bytes, metadata: dict[str, Any]) -> None:
            self._add(_segment(content, metadata, self._length_s(key)))
            self._save_reported(key)

        return Reports(progress, segment)

    def finish(self, key: ChunkKey, transcript: dict[str, Any]) -> None:
        """This chunk is written, by this attempt or an earlier one."""
        if key.role == self._engine.role and not self._is_over:
            self._written = self._with_chunk(key, transcript["segments"])
            self._save(self._written, self._certain_s(key, float("inf")))

    def _add(self, segment: dict[str, Any] | None) -> None:
        """Add a segment that the engine has reported; None: it is not a segment of its chunk."""
        if segment is None or (self._reported and segment["start"] < self._reported[-1]["start"]):
            self._end("invalid")
        elif len(self._reported) == live_text.MAX_PIECES:
            self._end("full")
        elif segment["text"]:
            self._reported.append(segment)
            self._is_saved = False

    def _save_reported(self, key: ChunkKey) -> None:
        is_due = time.monotonic() - self._saved_at >= SAVE_S
        if is_due and not self._is_saved and not self._is_over:
            self._is_saved = True
            reached_s = self._spans[key.number][0] + self._reported[-1]["end"]
            self._save(self._with_chunk(key, self._reported), self._certain_s(key, reached_s))

    def _length_s(self, key: ChunkKey) -> float:
        start_s, end_s = self._spans[key.number]
        return end_s - start_s

    def _with_chunk(self, key: ChunkKey, segments: Sequence[dict[str, Any]]) -> ChunkTranscript:
        """The finished chunks, followed by these segments of this chunk."""
        start_s, end_s = self._spans[key.number]
        chunk = ChunkTranscript(start_s, end_s, {"segments": segments})
        merged = merge_word_timestamps([self._written, chunk] if key.number else [chunk])
        return ChunkTranscript(0.0, end_s, {"segments": merged.segments})

    def _certain_s(self, key: ChunkKey, reached_s: float) -> float:
        """The time up to which the text is certain, if this chunk's is written up to `reached_s`."""
        if key.number and reached_s < self._spans[key.number - 1][1] + BEHIND_S:
            return 0.0
        is_last = key.number + 1 == len(self._spans)
        return float("inf") if is_last else self._spans[key.number + 1][0]

    def _save(self, written: ChunkTranscript, until_s: float) -> None:
        """Store the new part of the text up to `until_s`."""
        certain = takewhile(lambda one: one["end"] <= until_s, _worded(written))
        new, position = [], 0
        for piece in joined(one["text"] for one in certain):
            known = self._text[position : position + len(piece)]
            position += len(piece)
            if not piece.startswith(known):
                self._end("changed")
                return
            new.append(piece[len(known) :])
        new = [piece for piece in new if piece]
        self._saved_at = time.monotonic()
        if not new:
            return
        self._size_bytes += sum(len(piece.encode()) for piece in new)
        if self._size_bytes > live_text.MAX_BYTES or self._count + len(new) > live_text.MAX_PIECES:
            self._end("full")
            return
        attempt_id, first = self._calls.claim.attempt_id, self._count

        def add(tx: Transaction, now_ms: int) -> None:
            live_text.add(tx, attempt_id, first, new, now_ms=now_ms)
            failpoints.hit("live_text.before_commit")

        if not write_if_soon(self._calls, add):
            self._end("late")
            return
        failpoints.hit("live_text.after_commit")
        self._count += len(new)
        self._text += "".join(new)

    def _end(self, reason: str) -> None:
        self._is_over = True
        claim = self._calls.claim
        _log.info("live_text.ended", job_id=claim.job_id, attempt_id=claim.attempt_id, reason=reason)


def _worded(written: ChunkTranscript) -> list[dict[str, Any]]:
    return [one for one in written.value["segments"] if one["text"]]


def _segment(content: bytes, metadata: dict[str, Any], length_s: float) -> dict[str, Any] | None:
    """A piece as a segment of its chunk; None: it is not one."""
    try:
        text = content.decode()
        times = msgspec.convert(metadata, _Times)
    except (UnicodeDecodeError, msgspec.ValidationError):
        return None
    if len(content) > MAX_PIECE_BYTES or not times.start <= times.end:
        return None
    start, end = min(times.start, length_s), min(times.end, length_s)
    return {"start": start, "end": end, "text": storable(text.strip())}
