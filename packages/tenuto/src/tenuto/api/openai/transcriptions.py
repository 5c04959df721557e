"""POST /v1/audio/transcriptions: a recording becomes its transcript, in the form that the program asks for.

The form's file becomes the input of a recognition job; the forms of the answer are made from its verified
result. Of two transcripts the one with speakers is sent. Whatever no engine here measures has a neutral
value, because the types of OpenAI's packages require it.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec

from tenuto.api.answers import Answer, Headers
from tenuto.api.body import ClientGone
from tenuto.api.call import Call
from tenuto.api.errors import error_body, status_of
from tenuto.api.openai.jobs import (
    Submitted,
    ignored_header,
    in_their_words,
    job_headers,
    not_succeeded,
    opened_results,
    wait,
)
from tenuto.api.openai.names import model_for
from tenuto.api.openai.recordings import FILE, receive, scratch_file, submit_recording
from tenuto.bodies.envelope import MAX_MODEL_CHARACTERS
from tenuto.bodies.fields import Field, Text, Texts, by_name, quoted, read_fields
from tenuto.engines.registry import SEGMENT_TEXT
from tenuto.errors import ArtifactUnavailable, CorruptBlob, Fault, InvalidRequest, TenutoError
from tenuto.jobs.read import Operation

HEARTBEAT_S = 15.0
"""Between two comments."""

SendResult = Callable[[list[Operation]], Awaitable[None]]
"""Sends the results of the jobs, which have succeeded, by `send_event`."""
KIND = "recognition"
ROUTE = "audio/transcriptions"
FORMS = ("json", "text", "verbose_json", "diarized_json")
SUBTITLES = ("srt", "vtt")
AUTOMATIC = "auto"
"""The language of a request that names none."""
MAX_TEXT_BYTES = 128 << 10


class _Form:
    """The form of the answer."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if value in SUBTITLES:
            message = (
                f"is {quoted(value)}, which is not made here: `tenuto transcribe FILE -o FILE.{value}` "
                f"writes it, and so does the studio; {', '.join(FORMS)} are made here"
            )
            faults.append(Fault(param, "unsupported_format", message))
        elif value not in FORMS:
            faults.append(
                Fault(param, "not_allowed", f"is {quoted(value)}; one of {', '.join(FORMS)} is expected")
            )
        return value


class _Flag:
    """`true` or `false`, as forms write them."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        flag = {"true": True, "1": True, "false": False, "0": False}.get(value.lower())
        if flag is None:
            faults.append(Fault(param, "wrong_type", f"is {quoted(value)}; true or false is expected"))
        return flag


class _Granularities:
    """Segments alone have times."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        for each in value:
            if each == "word":
                message = "is word; single words have no times here, segments do: send segment"
                faults.append(Fault(param, "not_allowed", message))
            elif each != "segment":
                faults.append(Fault(param, "not_allowed", f"is {quoted(each)}; segment is expected"))
        return value


_FIELDS = by_name(
    (
        Field(
            "model",
            Text(MAX_MODEL_CHARACTERS, "characters"),
            "A model, or OpenAI's name of one.",
            required=True,
        ),
        Field("language", Text(MAX_TEXT_BYTES, "bytes"), "What is spoken; detected if left out."),
        Field("prompt", Text(MAX_TEXT_BYTES, "bytes"), "Kept with the request."),
        Field("keywords", Texts(1000, Text(MAX_TEXT_BYTES, "bytes")), "Kept with the request."),
        Field("response_format", _Form(), "The form of the transcript.", "json"),
        Field("timestamp_granularities", _Granularities(), "What has times: segments."),
        Field("stream", _Flag(), "Events instead of one answer.", False),
    )
)
_LISTS = frozenset(("keywords", "timestamp_granularities"))
_THEIR_NAMES = {
    "context": "prompt",
    "hotwords": "keywords",
    "input_artifact_ids": FILE,
    "body": FILE,
}
"""Our parameters by the fields that they come from, for what a refusal names."""


async def create(call: Call) -> Answer | None:
    """The transcript, once the job behind it has succeeded; 503 `still_running` if it has not by then."""
    caller = await call.authenticate()
    with call.service.uploads.slot(caller.account_id), scratch_file(call) as file:
        recording = await receive(call, file, _FIELDS)
        values = _values(recording.form.fields)
        model = await call.service.database.read_async(
            lambda tx: model_for(tx, call.service, caller, KIND, values["model"])
        )
        try:
            submitted = await submit_recording(call, ROUTE, recording, model, _parameters(values))
        except InvalidRequest as error:
            raise in_their_words(error, _THEIR_NAMES) from error
    headers = ignored_header(recording.form.ignored)
    form = values.get("response_format", "json")
    if values.get("stream"):
        await _send_events(call, submitted, headers, partial(_send_transcript, call, form))
        return None
    operations = await wait(call, submitted, call.service.settings.openai_wait_s)
    if (refusal := not_succeeded(call, operations)) is not None:
        refusal.headers.extend(headers)
        return refusal
    await _send(call, form, operations, submitted, headers)
    return None


async def refuse_translation(call: Call) -> Answer:
    """POST /v1/audio/translations: always 400, because programs read 404 as a service without recognition."""
    await call.authenticate()
    message = (
        "Translations are not made here. POST /v1/audio/transcriptions transcribes a recording in the "
        "language that is spoken; POST /v1/chat/completions may translate the text."
    )
    raise InvalidRequest(message=message)


def _values(sent: dict[str, list[str]]) -> dict[str, Any]:
    """The fields of the form by their rules; empty ones count as left out. InvalidRequest: all faults."""
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    for name, texts in sent.items():
        filled = [text for text in texts if text.strip()]
        if name in _LISTS:
            values[name] = filled
        elif filled:
            values[name] = filled[0]
            if len(filled) > 1:
                message = f"is in the form {len(filled)} times; send it once"
                faults.append(Fault(name, "wrong_length", message))
    read = read_fields(_FIELDS, values, "", faults)
    if faults:
        raise InvalidRequest(faults)
    return read


def _parameters(values: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the job, as `POST /v1/jobs` takes them."""
    language = values.get("language", AUTOMATIC).strip().replace("_", "-").partition("-")[0].lower()
    parameters = {"language": language or AUTOMATIC}
    if "prompt" in values:
        parameters["context"] = values["prompt"]
    if values.get("keywords"):
        parameters["hotwords"] = values["keywords"]
    return parameters


async def _send(
    call: Call, form: str, operations: Sequence[Operation], submitted: Submitted, headers: Headers
) -> None:
    transcript = await _transcript(call, operations)
    headers = [*headers, *job_headers(operations, submitted)]
    answer = Answer(200, b"", headers)
    if form == "text":
        answer.media_type = (b"content-type", b"text/plain; charset=utf-8")
        answer.body = f"{transcript.text()}\n".encode()
    else:
        answer.body = msgspec.json.encode(transcript.as_json(form))
    await answer.send(call.send, call.request_id)
    if not call.is_gone():
        call.service.openai.note_answered(submitted.job_ids)


async def _send_transcript(call: Call, form: str, operations: Sequence[Operation]) -> None:
    for event in (await _transcript(call, operations)).events(form):
        await _send_event(call, event)


async def _transcript(call: Call, operations: Sequence[Operation]) -> "Transcript":
    [opened] = await opened_results(call, operations)
    blobs = call.service.blobs
    try:
        return await call.beside(call.service.renderers, lambda: read_transcript(blobs.read_all(opened.blob)))
    except CorruptBlob as error:
        raise ArtifactUnavailable from error


async def _send_events(call: Call, submitted: Submitted, headers: Headers, send_result: SendResult) -> None:
    """The whole answer. Raises ClientGone."""
    head = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-request-id", call.request_id.encode()),
        (b"x-service-job", ", ".join(submitted.job_ids).encode()),
        *headers,
    ]
    await call.send({"type": "http.response.start", "status": 200, "headers": head})
    try:
        operations = await _wait_beating(call, submitted)
        refusal = not_succeeded(call, operations)
        if refusal is None:
            await send_result(operations)
            call.service.openai.note_answered(submitted.job_ids)
        else:
            await _send_piece(call, b"event: error\ndata: " + refusal.body)
    except TenutoError as error:
        body = error_body(error, call.request_id, status_of(error))
        await _send_piece(call, b"event: error\ndata: " + body)
    await call.send({"type": "http.response.body", "body": b""})


async def _send_event(call: Call, event: Any) -> None:
    """One event, as JSON. Raises ClientGone."""
    await _send_piece(call, b"data: " + msgspec.json.encode(event))


async def _wait_beating(call: Call, submitted: Submitted) -> list[Operation]:
    waiting = asyncio.ensure_future(wait(call, submitted, call.service.settings.openai_wait_s))
    try:
        while not (await asyncio.wait([waiting], timeout=HEARTBEAT_S))[0]:
            await _send_piece(call, b": waiting")
        return waiting.result()
    finally:
        waiting.cancel()


async def _send_piece(call: Call, event: bytes) -> None:
    if call.is_gone():
        raise ClientGone
    await call.send({"type": "http.response.body", "body": event + b"\n\n", "more_body": True})


# --- forms of a result ----------------------------------------------------------------------------------

_NOT_MEASURED = {
    "seek": 0,
    "tokens": [],
    "temperature": 0.0,
    "avg_logprob": 0.0,
    "compression_ratio": 1.0,
    "no_speech_prob": 0.0,
}
_WITHOUT_SPACES = ((0x2E80, 0x312F), (0x31A0, 0xA4CF), (0xF900, 0xFAFF), (0xFE30, 0xFFEF), (0x20000, 0x3FFFF))
"""From, to: Chinese and Japanese characters and their punctuation, between which no space is written."""


class _Segment(msgspec.Struct):
    start: float
    end: float
    text: str
    speaker: str | None = None


class _Engine(msgspec.Struct):
    segments: list[_Segment]
    language: str | None = None


class _Audio(msgspec.Struct):
    duration_seconds: float


class _Result(msgspec.Struct):
    """What is read of a result."""

    audio: _Audio
    engines: dict[str, _Engine]


@dataclass(frozen=True, slots=True)
class Transcript:
    """One transcript of a recording."""

    language: str
    """A code; empty if the engine does not know."""
    duration_s: float
    segments: list[_Segment]
    """Those with words."""

    def text(self) -> str:
        """All words."""
        return "".join(self._deltas())

    def as_json(self, form: str) -> dict[str, Any]:
        """The answer in a form of `FORMS`; text is read out of `json`."""
        whole = {"text": self.text(), "usage": self._usage()}
        if form == "verbose_json":
            segments = [self._verbose(number) for number in range(len(self.segments))]
            head = {"task": "transcribe", "language": self.language, "duration": self.duration_s}
            return head | whole | {"segments": segments}
        if form == "diarized_json":
            return (
                {"task": "transcribe", "duration": self.duration_s} | whole | {"segments": self._diarized()}
            )
        return whole

    def events(self, form: str) -> Iterator[dict[str, Any]]:
        """The events of a stream: a delta for each segment, then the whole; speakers in `diarized_json`."""
        diarized = self._diarized() if form == "diarized_json" else []
        for number, delta in enumerate(self._deltas()):
            yield from diarized[number : number + 1]
            yield {"type": "transcript.text.delta", "delta": delta}
        yield {"type": "transcript.text.done", "text": self.text(), "usage": self._usage()}

    def _deltas(self) -> Iterator[str]:
        texts = [" ".join(segment.text.split()) for segment in self.segments]
        for before, text in pairwise(["", *texts]):
            is_apart = before and not (_has_no_spaces(before[-1]) or _has_no_spaces(text[0]))
            yield f" {text}" if is_apart else text

    def _usage(self) -> dict[str, Any]:
        return {"type": "duration", "seconds": math.ceil(self.duration_s)}

    def _verbose(self, number: int) -> dict[str, Any]:
        segment = self.segments[number]
        timed = {"id": number, "start": segment.start, "end": segment.end, "text": segment.text.strip()}
        return timed | _NOT_MEASURED

    def _diarized(self) -> list[dict[str, Any]]:
        speakers = {
            label: _letters(at) for at, label in enumerate(sorted({s.speaker or "" for s in self.segments}))
        }
        return [
            {
                "type": "transcript.text.segment",
                "id": f"seg_{number}",
                "start": segment.start,
                "end": segment.end,
                "text": segment.text.strip(),
                "speaker": speakers[segment.speaker or ""],
            }
            for number, segment in enumerate(self.segments)
        ]


def read_transcript(content: bytes) -> Transcript:
    """The transcript in a result. ArtifactUnavailable: it has none."""
    try:
        result = msgspec.json.decode(content, type=_Result)
        engine = result.engines.get(SEGMENT_TEXT) or next(iter(result.engines.values()))
    except (msgspec.MsgspecError, StopIteration) as error:
        raise ArtifactUnavailable("the job's result holds no transcript") from error
    spoken = [segment for segment in engine.segments if segment.text.strip()]
    return Transcript(engine.language or "", result.audio.duration_seconds, spoken)


def _letters(number: int) -> str:
    """A, B, …, Z, AA, AB, …"""
    letters = ""
    number += 1
    while number:
        number, last = divmod(number - 1, 26)
        letters = chr(ord("A") + last) + letters
    return letters


def _has_no_spaces(mark: str) -> bool:
    return any(first <= ord(mark) <= last for first, last in _WITHOUT_SPACES)
