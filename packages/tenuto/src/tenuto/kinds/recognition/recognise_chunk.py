"""One chunk of a recording through one engine: its transcript, checked, and asked for again where doubtful.

An engine that is known to stop early or to go in circles has more than one try (its entry says so). What is
still doubtful in the end is told to the caller as a warning; only what is no transcript at all is a failure.
"""

from dataclasses import dataclass
from typing import Any

import structlog

from tenuto.engines.registry import WORD_TIMESTAMPS, EngineEntry
from tenuto.hosts.host import EngineFailed
from tenuto.jobs.chunks import ChunkKey
from tenuto.kinds.recognition.recording import RATE, Recording
from tenuto.kinds.recognition.transcripts import checked
from tenuto.media.transcript_checks import TranscriptDoubts, check_transcript
from tenuto.worker.calls import EngineCalls, OnProgress, ResultInvalid

_log = structlog.get_logger("tenuto.worker")


@dataclass(frozen=True, slots=True)
class _Try:
    transcript: dict[str, Any]
    doubts: TranscriptDoubts


def transcript_of(
    calls: EngineCalls, engine: EngineEntry, recording: Recording, key: ChunkKey, on_progress: OnProgress
) -> dict[str, Any]:
    """The chunk's transcript, its warnings with what is doubtful. Raises ResultInvalid, and what hosts raise.

    The engine's turn is held by the caller.
    """
    best: _Try | None = None
    for number in range(engine.tries):
        try:
            found = _once(calls, engine, recording, key, on_progress, again=number > 0)
        except (ResultInvalid, EngineFailed) as error:
            hopeless = isinstance(error, EngineFailed) and error.code != "engine_failed"
            if best is None and (hopeless or number + 1 == engine.tries):
                raise
            found = None
        if found is not None and (best is None or found.doubts.weight < best.doubts.weight):
            best = found
        if best is not None and not best.doubts.sentences:
            break
        if number + 1 < engine.tries:
            _log.info("part.doubtful", job_id=calls.claim.job_id, role=key.role, number=key.number)
    assert best is not None, "the last try raises"
    best.transcript["warnings"] += best.doubts.sentences
    return best.transcript


def _once(
    calls: EngineCalls,
    engine: EngineEntry,
    recording: Recording,
    key: ChunkKey,
    on_progress: OnProgress,
    *,
    again: bool,
) -> _Try:
    # The first engine detects the language by itself; neither gets the caller's context or hotwords.
    language = calls.claim.parameters["language"] if engine.role == WORD_TIMESTAMPS else None
    # The samples have no name here, so that they are gone when the next job has its turn.
    result = calls.run(
        {"language": language, "again": True} if again else {"language": language},
        {"audio": recording.samples(key.start_frame, key.end_frame)},
        model=engine.model,
        on_progress=on_progress,
    )
    transcript = checked(result, key.role, (key.end_frame - key.start_frame) / RATE)
    told = transcript.pop("doubts")
    if engine.tries == 1:
        return _Try(transcript, TranscriptDoubts(told))
    found = check_transcript(transcript["segments"], recording.samples(key.start_frame, key.end_frame))
    return _Try(transcript, TranscriptDoubts([*told, *found.sentences], found.unheard_s))
