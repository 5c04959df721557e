"""A recognition attempt: every chunk of the recording through each of the model's engines, then one result.

A finished chunk is stored before the next one begins, and an attempt begins with what earlier ones stored.
The engines are shared with other jobs: each run waits for its turn, and holds a chunk's samples only then.
"""

import json
import math
from typing import Any

from tenuto import failpoints, strict_json
from tenuto.db.database import Transaction
from tenuto.errors import InvalidRequest, OperatorError
from tenuto.features.recognition.live import LiveText
from tenuto.features.recognition.recognise_chunk import MEDIA_TYPE, Reports, recognise
from tenuto.features.recognition.recording import RATE, Recording, decoded_recording
from tenuto.features.recognition.transcript_merge import (
    ChunkTranscript,
    merge_segment_text,
    merge_word_timestamps,
)
from tenuto.file.inputs import Bound
from tenuto.host.host import EngineFailed, HostResult, OutcomeUnknown
from tenuto.host.registry import SEGMENT_TEXT, WORD_TIMESTAMPS, EngineEntry, engines_of
from tenuto.job import chunks
from tenuto.job.rows import ChunkKey
from tenuto.kind.kinds import SuppliedResult
from tenuto.logs import get_logger
from tenuto.worker.engine_calls import EngineCalls, OnProgress
from tenuto.worker.storage_retries import read, write_if_soon

SCHEMA_VERSION = 1

_MERGES = {SEGMENT_TEXT: merge_segment_text, WORD_TIMESTAMPS: merge_word_timestamps}
_log = get_logger("tenuto.worker")

Transcripts = dict[ChunkKey, dict[str, Any]]


def run(calls: EngineCalls) -> HostResult:
    """The finished JSON, with the duration of the samples. Raises ResultInvalid, and what hosts raise."""
    entry = calls.context.models[calls.claim.model].entry
    bound = Bound(**calls.claim.parameters["input"])
    with decoded_recording(calls, bound) as recording:
        transcripts = _transcribe(calls, engines_of(entry), recording)
    value, warnings = _engines(engines_of(entry), transcripts, recording)
    answer = {
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
    content = json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
    metadata = {"schema_version": SCHEMA_VERSION, "duration_ms": recording.decoded.summary.duration_ms}
    if entry.fake:
        metadata["fake"] = True
    return HostResult(MEDIA_TYPE, content, metadata, recording.decoded.summary.duration_ms)


def read_result(content: bytes, parameters: dict[str, Any]) -> SuppliedResult:
    """An operator's file as a result: JSON about the job's input, whose duration is charged."""
    bound = parameters["input"]
    try:
        value = strict_json.parse(content)
    except InvalidRequest as error:
        raise OperatorError(f"the file is not a result of a recognition job: {error.message}") from error
    expected = {"schema_version": SCHEMA_VERSION, "source_artifact_id": bound["artifact_id"]}
    if type(value) is not dict or any(value.get(name) != right for name, right in expected.items()):
        raise OperatorError(
            f"the file is not a result of this recognition job: a JSON object with {json.dumps(expected)}"
        )
    metadata = {"schema_version": SCHEMA_VERSION, "duration_ms": bound["duration_ms"]}
    return SuppliedResult(content, MEDIA_TYPE, metadata, bound["duration_ms"])


def _transcribe(calls: EngineCalls, engines: tuple[EngineEntry, ...], recording: Recording) -> Transcripts:
    """The transcript of every chunk by every engine, including those of earlier attempts."""
    keys = [
        (engine, ChunkKey(engine.role, number, start, end, engine.model, engine.revision))
        for number, (start, end) in enumerate(recording.decoded.chunks)
        for engine in engines
    ]
    progress = _Progress(calls, recording, [key for _, key in keys])
    live = LiveText(calls, engines, _spans(recording))
    stored = read(calls.context, lambda tx: chunks.finished(tx, calls.claim.job_id))
    transcripts: Transcripts = {}
    for engine, key in keys:
        if key not in stored:
            reports = live.reports(key, progress.within(key))
            try:
                stored[key] = _recognise(calls, engine, recording, key, reports)
            except EngineFailed as error:
                if any(not one.rerunnable and known in stored for one, known in keys):
                    message = f"{error.message}, after other chunks were charged"
                    raise OutcomeUnknown(message, evidence=error.evidence) from error
                raise
        transcripts[key] = stored[key]
        live.finish(key, stored[key])
        progress.finish(key)
    return transcripts


def _recognise(
    calls: EngineCalls, engine: EngineEntry, recording: Recording, key: ChunkKey, reports: Reports
) -> dict[str, Any]:
    """One chunk by one engine, stored before this returns."""
    with calls.engines.turn(engine.model, calls.watched, calls.claim.account_id):
        transcript = recognise(calls, engine, recording, key, reports)
    attempt_id = calls.claim.attempt_id

    def add(tx: Transaction, now_ms: int) -> None:
        chunks.add(tx, attempt_id, key, transcript, now_ms=now_ms)
        failpoints.hit("chunk.before_commit")

    if not write_if_soon(calls, add):
        calls.keep_chunk(key, transcript)
    failpoints.hit("chunk.after_commit")
    _log.info(
        "chunk.recognised",
        job_id=calls.claim.job_id,
        attempt_id=attempt_id,
        role=key.role,
        number=key.number,
    )
    return transcript


def _engines(
    engines: tuple[EngineEntry, ...], transcripts: Transcripts, recording: Recording
) -> tuple[dict[str, Any], list[str]]:
    """Each engine's transcript of the whole recording, and all warnings."""
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
            "language": merged.language,
            "segments": merged.segments,
        }
        warnings += [f"{engine.role}: {warning}" for warning in merged.warnings]
    return value, warnings


def _spans(recording: Recording) -> list[tuple[float, float]]:
    """Start and end of each chunk in seconds; resampling may have added a sample, which does not count."""
    return [(start / RATE, min(end / RATE, recording.duration_s)) for start, end in recording.decoded.chunks]


class _Progress:
    """How many seconds of the recording are finished, averaged over all engines."""

    def __init__(self, calls: EngineCalls, recording: Recording, keys: list[ChunkKey]) -> None:
        self._watched = calls.watched
        self._duration_s = recording.duration_s
        self._frames = sum(key.end_frame - key.start_frame for key in keys)
        self._finished = 0
        self._report(0.0)

    def finish(self, key: ChunkKey) -> None:
        """This chunk is finished."""
        self._finished += key.end_frame - key.start_frame
        self._report(0.0)

    def within(self, key: ChunkKey) -> OnProgress:
        """The callback for the engine that works on this chunk, in whatever unit it counts."""

        def report(progress: dict[str, Any]) -> None:
            share = min(1.0, progress["completed"] / progress["total"]) if progress["total"] else 0.0
            self._report(share * (key.end_frame - key.start_frame))

        return report

    def _report(self, more_frames: float) -> None:
        share = (self._finished + more_frames) / self._frames
        self._watched.hear(
            {
                "stage": "recognising",
                "completed": math.floor(share * self._duration_s),
                "total": math.ceil(self._duration_s),
                "unit": "seconds",
            }
        )
