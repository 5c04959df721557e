"""One chunk of a recording through one engine: its transcript, checked, and repeated if it is doubtful.

An engine's answer is not trusted: only its known fields are kept. An engine that is known to stop early or to
repeat itself gets more than one try (its entry says so). What is still doubtful in the end becomes a warning
for the caller; only what is not a transcript at all is a failure. A doubt is not a fault: music has no words,
a choir may sing one line ten times.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from tenuto.features.recognition.recording import RATE, Recording
from tenuto.host.host import EngineFailed, HostResult, storable
from tenuto.host.registry import SEGMENT_TEXT, WORD_TIMESTAMPS, EngineEntry
from tenuto.job.rows import ChunkKey
from tenuto.logs import get_logger
from tenuto.worker.engine_calls import EngineCalls, OnProgress, OnSegment, ResultInvalid

if TYPE_CHECKING:
    import numpy as np

Segment = dict[str, Any]

MEDIA_TYPE = "application/json"
MAX_CONTENT_BYTES = 16 << 20
MAX_SEGMENTS = 50_000
MAX_SPEAKERS = 100
MAX_EMBEDDING = 4096
MAX_WARNINGS = 100
MAX_WARNING_CHARACTERS = 500
LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")
"""What an engine may report as the language; anything else counts as unknown."""
BEYOND_S = 0.5
"""How far past its chunk's end a segment may end: an engine's frames are longer than samples."""

FRAME_S = 0.02
AUDIBLE = 104
"""The root mean square of quieter frames is below -50 dB: nobody speaks in them."""
ABOVE_FLOOR = 3.0
"""A frame this many times louder than the quietest tenth is more than background noise."""
MARGIN_S = 0.5
"""How long before its segment a word may begin, and after it end."""
UNCOVERED_S, UNCOVERED_LEAST_S, UNCOVERED_SHARE = 15.0, 2.0, 0.5
"""This much sound without words is a doubt; so is the second amount, if over this share of the sound."""
ENDING_S, ENDING_SHARE = 5.0, 0.25
"""This much sound after the last word is a doubt; so is less, if it is this share of the sound."""
BACKWARDS_S = 1.0
REPETITIONS = 8
"""Nobody says the same few words this many times in a row."""
REPEATED_SEGMENTS, REPEATED_LETTERS = 4, 12
SPARSE_S, SPARSE_RATE = 30.0, 0.5
"""A longer segment with fewer letters per second hides that most of it was not transcribed."""
DENSE_S, DENSE_RATE = 3.0, 45.0
"""Nobody speaks more letters per second than this."""

_REPETITION = re.compile(rf"(.{{1,30}}?)\1{{{REPETITIONS - 1},}}", re.DOTALL)
_LONGEST_SEARCHED = 20_000
"""Letters; ten minutes have half as many."""

_log = get_logger("tenuto.worker")


_Seconds = Annotated[float, msgspec.Meta(ge=0)]
_Sentences = Annotated[list[str], msgspec.Meta(max_length=MAX_WARNINGS)]
_Number = Annotated[float, msgspec.Meta(gt=-1e9, lt=1e9)]
_Embedding = Annotated[list[_Number], msgspec.Meta(max_length=MAX_EMBEDDING)]


class _Segment(msgspec.Struct, kw_only=True):
    start: _Seconds
    end: _Seconds
    text: str


class _SpokenSegment(_Segment, kw_only=True):
    speaker: str | None = None
    type: Literal["speech", "music", "singing", "silence", "noise"]


class _WordTimestamps(msgspec.Struct, kw_only=True):
    """An engine's answer; what is not named here is dropped."""

    language: Any = None
    segments: Annotated[list[_Segment], msgspec.Meta(max_length=MAX_SEGMENTS)]
    warnings: _Sentences = []
    doubts: _Sentences = []


class _SegmentText(_WordTimestamps, kw_only=True):
    segments: Annotated[list[_SpokenSegment], msgspec.Meta(max_length=MAX_SEGMENTS)]  # type: ignore[assignment]
    speakers: Annotated[dict[str, _Embedding], msgspec.Meta(max_length=MAX_SPEAKERS)] = {}


_DECODERS: dict[str, msgspec.json.Decoder[_WordTimestamps]] = {
    SEGMENT_TEXT: msgspec.json.Decoder(_SegmentText),
    WORD_TIMESTAMPS: msgspec.json.Decoder(_WordTimestamps),
}


class TranscriptDoubts(msgspec.Struct, frozen=True):
    """Sentences for readers of the transcript; of two transcripts, the one with fewer is better."""

    sentences: list[str] = msgspec.field(default_factory=list)
    uncovered_s: float = 0.0
    """Seconds of sound that no segment covers."""

    @property
    def weight(self) -> tuple[int, float]:
        return len(self.sentences), self.uncovered_s


class Reports(msgspec.Struct, frozen=True):
    """The callbacks for what an engine reports while it runs."""

    on_progress: OnProgress
    on_segment: OnSegment | None = None


class _Try(msgspec.Struct, frozen=True):
    transcript: dict[str, Any]
    doubts: TranscriptDoubts


def recognise(
    calls: EngineCalls, engine: EngineEntry, recording: Recording, key: ChunkKey, reports: Reports
) -> dict[str, Any]:
    """The chunk's transcript; its warnings include its doubts. Raises ResultInvalid, and what hosts raise.

    The caller holds the engine's turn.
    """
    best: _Try | None = None
    for number in range(engine.tries):
        try:
            attempt = _once(calls, engine, recording, key, reports, again=number > 0)
        except (ResultInvalid, EngineFailed) as error:
            hopeless = isinstance(error, EngineFailed) and error.code != "engine_failed"
            if best is None and (hopeless or number + 1 == engine.tries):
                raise
            attempt = None
        if attempt is not None and (best is None or attempt.doubts.weight < best.doubts.weight):
            best = attempt
        if best is not None and not best.doubts.sentences:
            break
        if number + 1 < engine.tries:
            _log.info("chunk.doubtful", job_id=calls.claim.job_id, role=key.role, number=key.number)
    assert best is not None, "the last try raises"
    best.transcript["warnings"] += best.doubts.sentences
    return best.transcript


def _once(
    calls: EngineCalls,
    engine: EngineEntry,
    recording: Recording,
    key: ChunkKey,
    reports: Reports,
    *,
    again: bool,
) -> _Try:
    # The first engine detects the language by itself; neither gets the caller's context or hotwords.
    language = calls.claim.parameters["language"] if engine.role == WORD_TIMESTAMPS else None
    # The samples are not bound to a name, so that they are freed before the next job's turn.
    result = calls.run(
        {"language": language, "again": True} if again else {"language": language},
        {"audio": recording.samples(key.start_frame, key.end_frame)},
        reports.on_segment,
        model=engine.model,
        on_progress=reports.on_progress,
    )
    transcript = checked(result, key.role, (key.end_frame - key.start_frame) / RATE)
    own = transcript.pop("doubts")
    if engine.tries == 1:
        return _Try(transcript, TranscriptDoubts(own))
    doubts = check_transcript(transcript["segments"], recording.samples(key.start_frame, key.end_frame))
    return _Try(transcript, TranscriptDoubts([*own, *doubts.sentences], doubts.uncovered_s))


def checked(result: HostResult, role: str, length_s: float) -> dict[str, Any]:
    """The transcript of a chunk of `length_s` seconds. Raises ResultInvalid."""
    if result.media_type != MEDIA_TYPE or len(result.content) > MAX_CONTENT_BYTES:
        raise ResultInvalid(f"the engine gave {result.media_type[:60]!r} instead of a transcript")
    try:
        read = _DECODERS[role].decode(result.content)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ResultInvalid(f"the engine's transcript is not valid: {error}") from error
    segments = []
    for one in read.segments:
        if not one.start <= one.end <= length_s + BEYOND_S:
            fault = f"has a segment from {one.start} to {one.end} s"
            raise ResultInvalid(f"the engine's transcript {fault}")
        within = {"start": min(one.start, length_s), "end": min(one.end, length_s)}
        segments.append(msgspec.structs.asdict(one) | within | {"text": storable(one.text)})
    return msgspec.structs.asdict(read) | {
        "language": _language_code(read.language),
        "segments": segments,
        "warnings": [sentence[:MAX_WARNING_CHARACTERS] for sentence in read.warnings],
        "doubts": [sentence[:MAX_WARNING_CHARACTERS] for sentence in read.doubts],
    }


def _language_code(reported: Any) -> str | None:
    is_code = isinstance(reported, str) and LANGUAGE_CODE.fullmatch(reported)
    return reported if is_code else None


def check_transcript(segments: Sequence[Segment], audio: bytes) -> TranscriptDoubts:
    """What is doubtful about a chunk's transcript, whose segments are in the engine's order.

    `audio`: the chunk's sound, PCM16, mono, 16 kHz. Segments without text cover their sound, too.
    """
    uncovered_s, sentences = _coverage(segments, audio)
    return TranscriptDoubts(
        [*sentences, *_order(segments), *_repetitions(segments), *_density(segments)], uncovered_s
    )


def _coverage(segments: Sequence[Segment], audio: bytes) -> tuple[float, list[str]]:
    sounding = _sounding(audio)
    if not sounding.any():
        return 0.0, []
    open_ = sounding.copy()
    for one in segments:
        first, last = (one["start"] - MARGIN_S) / FRAME_S, (one["end"] + MARGIN_S) / FRAME_S
        open_[max(0, int(first)) : max(0, int(last) + 1)] = False
    uncovered_s, sounding_s = float(open_.sum() * FRAME_S), float(sounding.sum() * FRAME_S)
    ends = max((one["end"] for one in segments), default=0.0)
    behind_s = float(open_[int(ends / FRAME_S) :].sum() * FRAME_S)
    if segments and behind_s >= min(ENDING_S, max(UNCOVERED_LEAST_S, ENDING_SHARE * sounding_s)):
        return uncovered_s, [f"Nothing was written after {ends:.0f} s, although there is sound."]
    if uncovered_s >= UNCOVERED_S or (
        uncovered_s >= UNCOVERED_LEAST_S and uncovered_s > UNCOVERED_SHARE * sounding_s
    ):
        return uncovered_s, [f"{uncovered_s:.0f} s of audio have no transcript."]
    return uncovered_s, []


def _sounding(audio: bytes) -> "np.ndarray[Any, Any]":
    """Which of the frames of 20 ms are more than silence and background noise."""
    import numpy as np

    frame = int(RATE * FRAME_S)
    samples = np.frombuffer(audio, "<i2", count=len(audio) // 2 // frame * frame).reshape(-1, frame)
    # Without temporaries: converting all samples to floats at once would take eight bytes for each.
    levels = np.sqrt(np.einsum("ij,ij->i", samples, samples, dtype=np.float64, casting="safe") / frame)
    if not levels.size:
        return np.zeros(0, bool)
    return np.asarray(levels > max(AUDIBLE, ABOVE_FLOOR * float(np.quantile(levels, 0.1))))


def _order(segments: Sequence[Segment]) -> list[str]:
    latest = 0.0
    for one in segments:
        if one["start"] < latest - BACKWARDS_S:
            return [f"The times go backwards at {one['start']:.0f} s."]
        latest = max(latest, one["start"])
    return []


def _repetitions(segments: Sequence[Segment]) -> list[str]:
    """Words, or whole segments, that are repeated again and again."""
    texts = [_letters(one["text"]) for one in segments]
    same = 1
    for number in range(1, len(texts)):
        same = same + 1 if texts[number] == texts[number - 1] else 1
        if same >= REPEATED_SEGMENTS and len(texts[number]) >= REPEATED_LETTERS:
            return [_repeats(segments[number])]
    for text, one in zip(texts, segments, strict=True):
        if _REPETITION.search(text[:_LONGEST_SEARCHED]):
            return [_repeats(one)]
    return ["The text repeats itself."] if _REPETITION.search("".join(texts)[:_LONGEST_SEARCHED]) else []


def _repeats(segment: Segment) -> str:
    return f"The text repeats itself at {segment['start']:.0f} s."


def _density(segments: Sequence[Segment]) -> list[str]:
    for one in segments:
        length_s, letters = one["end"] - one["start"], len(_letters(one["text"]))
        if letters and length_s > SPARSE_S and letters < SPARSE_RATE * length_s:
            return [f"From {one['start']:.0f} to {one['end']:.0f} s there are hardly any words."]
        if letters > DENSE_RATE * max(length_s, DENSE_S):
            return [f"At {one['start']:.0f} s there are more words than could be said."]
    return []


def _letters(text: str) -> str:
    return "".join(sign for sign in text.casefold() if sign.isalnum())
