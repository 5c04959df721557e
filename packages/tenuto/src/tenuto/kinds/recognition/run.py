"""A recognition attempt: every chunk of the recording through each of the model's engines, then one result.

A finished chunk is stored before the next one begins, and an attempt begins with what earlier ones stored.
The engines are shared with other jobs: each run waits for its turn, and holds a chunk's samples only then.
"""

import json
import math
from typing import Any

import structlog

from tenuto import failpoints
from tenuto.artifacts.inputs import Bound
from tenuto.db.database import Transaction
from tenuto.engines.registry import SEGMENT_TEXT, WORD_TIMESTAMPS, EngineEntry, engines_of
from tenuto.hosts.host import HostResult
from tenuto.jobs import chunks
from tenuto.jobs.chunks import ChunkKey
from tenuto.kinds.recognition.recognise_chunk import transcript_of
from tenuto.kinds.recognition.recording import RATE, Recording, recorded
from tenuto.kinds.recognition.result import MEDIA_TYPE, SCHEMA_VERSION
from tenuto.media import chunks as merging
from tenuto.media.chunks import ChunkTranscript
from tenuto.worker.calls import EngineCalls, OnProgress
from tenuto.worker.retrying import read, write

_MERGES = {SEGMENT_TEXT: merging.merge_segment_text, WORD_TIMESTAMPS: merging.merge_word_timestamps}
_log = structlog.get_logger("tenuto.worker")

Transcripts = dict[ChunkKey, dict[str, Any]]


def run(calls: EngineCalls) -> HostResult:
    """The finished JSON, its duration that of the samples. Raises ResultInvalid, and what hosts raise."""
    entry = calls.context.models[calls.claim.model].entry
    bound = Bound(**calls.claim.parameters["input"])
    with recorded(calls, bound) as recording:
        transcripts = _transcribe(calls, engines_of(entry), recording)
    value, warnings = _engines(engines_of(entry), transcripts, recording)
    shown = {
        "schema_version": SCHEMA_VERSION,
        "source_artifact_id": bound.artifact_id,
        "timeline": {"source_offset_seconds": calls.claim.parameters["source_offset_seconds"]},
        "audio": {
            "duration_seconds": round(recording.duration_s, 3),
            "sample_rate": recording.decoded.summary.sample_rate,
            "channels": recording.decoded.summary.channels,
        },
        "parts": [
            {"index": index, "start": round(start, 3), "end": round(end, 3)}
            for index, (start, end) in enumerate(_spans(recording))
        ],
        "warnings": warnings,
        "engines": value,
    }
    content = json.dumps(shown, ensure_ascii=False, allow_nan=False).encode()
    metadata = {"schema_version": SCHEMA_VERSION, "duration_ms": recording.decoded.summary.duration_ms}
    if entry.fake:
        metadata["fake"] = True
    return HostResult(MEDIA_TYPE, content, metadata, recording.decoded.summary.duration_ms)


def _transcribe(calls: EngineCalls, engines: tuple[EngineEntry, ...], recording: Recording) -> Transcripts:
    """The transcript of every chunk by every engine, those of earlier attempts among them."""
    keys = [
        (engine, ChunkKey(engine.role, number, start, end, engine.model, engine.revision))
        for number, (start, end) in enumerate(recording.decoded.parts)
        for engine in engines
    ]
    progress = _Progress(calls, recording, [key for _, key in keys])
    stored = read(calls.context, lambda tx: chunks.finished(tx, calls.claim.job_id))
    transcripts: Transcripts = {}
    for engine, key in keys:
        if key not in stored:
            stored[key] = _recognise(calls, engine, recording, key, progress.within(key))
        transcripts[key] = stored[key]
        progress.finish(key)
    return transcripts


def _recognise(
    calls: EngineCalls, engine: EngineEntry, recording: Recording, key: ChunkKey, on_progress: OnProgress
) -> dict[str, Any]:
    """One chunk by one engine, stored when it is there."""
    with calls.engines.turn(engine.model, calls.watched, calls.claim.account_id):
        transcript = transcript_of(calls, engine, recording, key, on_progress)
    attempt_id = calls.claim.attempt_id

    def add(tx: Transaction, now_ms: int) -> None:
        chunks.add(tx, attempt_id, key, transcript, now_ms=now_ms)
        failpoints.hit("part.before_commit")

    write(calls.context, add)
    failpoints.hit("part.after_commit")
    _log.info(
        "part.recognised",
        job_id=calls.claim.job_id,
        attempt_id=attempt_id,
        role=key.role,
        number=key.number,
    )
    return transcript


def _engines(
    engines: tuple[EngineEntry, ...], transcripts: Transcripts, recording: Recording
) -> tuple[dict[str, Any], list[str]]:
    """What each engine wrote about the whole, and all warnings."""
    spans = _spans(recording)
    value, warnings = {}, []
    for engine in engines:
        own = [
            ChunkTranscript(*spans[key.number], transcript)
            for key, transcript in transcripts.items()
            if key.role == engine.role
        ]
        merged = _MERGES[engine.role](own)
        value[engine.role] = {
            "model_id": engine.model,
            "model_revision": engine.revision,
            "segments": merged.segments,
        }
        warnings += [f"{engine.role}: {warning}" for warning in merged.warnings]
    return value, warnings


def _spans(recording: Recording) -> list[tuple[float, float]]:
    """Start and end of each chunk in seconds; resampling may have added a sample, which is no time."""
    return [(start / RATE, min(end / RATE, recording.duration_s)) for start, end in recording.decoded.parts]


class _Progress:
    """How many seconds of the recording are done, by all engines on average."""

    def __init__(self, calls: EngineCalls, recording: Recording, keys: list[ChunkKey]) -> None:
        self._watched = calls.watched
        self._duration_s = recording.duration_s
        self._frames = sum(key.end_frame - key.start_frame for key in keys)
        self._finished = 0
        self._tell(0.0)

    def finish(self, key: ChunkKey) -> None:
        """This part is done."""
        self._finished += key.end_frame - key.start_frame
        self._tell(0.0)

    def within(self, key: ChunkKey) -> OnProgress:
        """For the engine that is at this part, in whatever it counts."""

        def hear(made: dict[str, Any]) -> None:
            share = min(1.0, made["completed"] / made["total"]) if made["total"] else 0.0
            self._tell(share * (key.end_frame - key.start_frame))

        return hear

    def _tell(self, more_frames: float) -> None:
        share = (self._finished + more_frames) / self._frames
        self._watched.hear(
            {
                "stage": "recognising",
                "completed": math.floor(share * self._duration_s),
                "total": math.ceil(self._duration_s),
                "unit": "seconds",
            }
        )
