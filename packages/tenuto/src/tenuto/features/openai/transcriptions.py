"""POST /v1/audio/transcriptions: a recording becomes its transcript, in the requested form.

The uploaded file becomes the input of a recognition job; the answer is made from its verified result, in
every form. If that has two transcripts, the one with speakers is sent. Values that no engine here measures
are neutral, because the types of OpenAI's packages require them.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tenuto import failpoints
from tenuto.account.caller import Caller
from tenuto.api.answers import Answer, Headers
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call
from tenuto.api.errors import error_body, status_of
from tenuto.api.jobs import changed
from tenuto.db.database import Transaction
from tenuto.errors import ArtifactUnavailable, CorruptBlob, Fault, InvalidRequest, Unavailable
from tenuto.features.openai import spoken
from tenuto.features.openai.idempotency_keys import has_left
from tenuto.features.openai.names import model_for
from tenuto.features.openai.recordings import FILE, receive, scratch_file, submit_recording
from tenuto.features.openai.request_jobs import (
    Submitted,
    ignored_header,
    in_their_words,
    job_headers,
    not_succeeded,
    opened_results,
    wait,
    wait_end,
    waiting,
)
from tenuto.features.openai.requests import OpenRequests
from tenuto.features.openai.settings import OpenAISettings
from tenuto.features.recognition import live_text
from tenuto.features.recognition.live_text import LiveText
from tenuto.features.recognition.transcript_merge import joined
from tenuto.features.renditions.renderers import Renderers
from tenuto.host.registry import SEGMENT_TEXT
from tenuto.job import read
from tenuto.job.read import Job
from tenuto.kind.envelope import MAX_MODEL_CHARACTERS
from tenuto.rules import Field, Text, Texts, by_name, quoted, read_fields

KEEPALIVE_S = 15.0
"""Between two comments."""
CHECK_S = 0.3
"""Between two polls for text: new text wakes no waiter."""
_CHANGED = (
    "The recording was transcribed again and its text differs from what was already sent; "
    "send the same request again."
)
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
                f"is {quoted(value)}, which is not available here: `tenuto transcribe FILE -o FILE.{value}` "
                f"writes it, and so does the studio; choose from {', '.join(FORMS)}"
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
    """What gets timestamps: only segments."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        for each in value:
            if each == "word":
                message = "is word; times are given for segments only, not for words: send segment"
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
        Field(spoken.FIELD, spoken.Language(), "What is spoken; detected if left out."),
        Field("prompt", Text(MAX_TEXT_BYTES, "bytes"), "Kept with the request."),
        Field("keywords", Texts(1000, Text(MAX_TEXT_BYTES, "bytes")), "Kept with the request."),
        Field("response_format", _Form(), "The form of the transcript.", "json"),
        Field("timestamp_granularities", _Granularities(), "What has times: segments."),
        Field("stream", _Flag(), "Events instead of one answer.", False),
    )
)
_ANSWERS = frozenset(("response_format", "timestamp_granularities", "stream"))
"""Fields that only concern the form of the answer."""
_LISTS = frozenset(("keywords", "timestamp_granularities"))
_THEIR_NAMES = {
    "context": "prompt",
    "hotwords": "keywords",
    "input_artifact_ids": FILE,
    "body": FILE,
}
"""The field that each of our parameters comes from, which a refusal names."""


async def create(call: Call) -> Answer | None:
    """The transcript, once the job behind it has succeeded; 503 `still_running` if it has not in time."""
    caller = await call.authenticate()
    with call.service.uploads.slot(caller.account_id), scratch_file(call) as file:
        recording = await receive(call, file, _FIELDS)
        values = _values(recording.form.fields)
        sent = {name: value for name, value in values.items() if name not in _ANSWERS}
        try:
            submitted = await submit_recording(
                call, ROUTE, recording, sent, lambda tx: _work(tx, call, caller, values)
            )
        except InvalidRequest as error:
            raise in_their_words(error, _THEIR_NAMES) from error
    ignored = recording.form.ignored
    if values.get("stream"):
        ignored = await _with_language(call, submitted, values, ignored)
        await _send_events(call, values.get("response_format", "json"), submitted, ignored_header(ignored))
        return None
    jobs = await wait(call, submitted, wait_end(call))
    if (refusal := not_succeeded(call, jobs)) is not None:
        refusal.headers.extend(ignored_header(ignored))
        return refusal
    await _send(call, values, jobs, submitted, ignored)
    return None


async def _with_language(
    call: Call, submitted: Submitted, values: Mapping[str, Any], ignored: list[str]
) -> list[str]:
    """The ignored fields, before the transcript is there, which will tell its language."""
    [job_id] = submitted.job_ids
    job = await call.read_again(lambda tx, who: read.for_caller(tx, who, job_id))
    is_ignored = spoken.is_ignored(values, call.service.models.get(job.model), "")
    return [*ignored, spoken.FIELD] if is_ignored else ignored


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


def _work(tx: Transaction, call: Call, caller: Caller, values: dict[str, Any]) -> dict[str, Any]:
    """The model and the parameters of the job, as `POST /v1/jobs` takes them."""
    language = spoken.code_of(values.get(spoken.FIELD, "")) or AUTOMATIC
    parameters = {"language": language}
    if "prompt" in values:
        parameters["context"] = values["prompt"]
    if values.get("keywords"):
        parameters["hotwords"] = values["keywords"]
    # Who asks for speakers gets the model that tells them apart, even if it detects the language.
    wants_speakers = values.get("response_format") == "diarized_json" or "diarize" in values["model"]
    using = spoken.FIELD if language != AUTOMATIC and not wants_speakers else ""
    model = model_for(tx, call.service, caller, KIND, values["model"], using=using)
    return {"model": model, "parameters": parameters}


async def _send(
    call: Call,
    values: Mapping[str, Any],
    jobs: Sequence[Job],
    submitted: Submitted,
    ignored: list[str],
) -> None:
    transcript = await _transcript(call, jobs)
    form = values.get("response_format", "json")
    if spoken.is_ignored(values, call.service.models.get(jobs[0].model), transcript.language):
        ignored = [*ignored, spoken.FIELD]
    headers = [*ignored_header(ignored), *job_headers(jobs, submitted)]
    answer = Answer(200, b"", headers)
    if form == "text":
        answer.media_type = (b"content-type", b"text/plain; charset=utf-8")
        answer.body = f"{transcript.text()}\n".encode()
    else:
        answer.body = msgspec.json.encode(transcript.as_json(form))
    await answer.send(call.send, call.request_id)
    if not call.is_gone():
        call.service.part(OpenRequests).note_answered(submitted.job_ids)


async def _transcript(call: Call, jobs: Sequence[Job]) -> "Transcript":
    [opened] = await opened_results(call, jobs)
    blobs, threads = call.service.blobs, call.service.part(Renderers).threads
    try:
        return await call.beside(threads, lambda: read_transcript(blobs.read_all(opened.blob)))
    except CorruptBlob as error:
        raise ArtifactUnavailable from error


async def _send_events(call: Call, form: str, submitted: Submitted, headers: Headers) -> None:
    """Send the text while it is written, then the rest from the verified result. ClientGone.

    All deltas together are the result's text, or the stream ends with an error.
    """
    head = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-request-id", call.request_id.encode()),
        (b"x-service-job", ", ".join(submitted.job_ids).encode()),
        *headers,
    ]
    await call.send({"type": "http.response.start", "status": 200, "headers": head})
    sent = _Sent()
    try:
        async with waiting(call, submitted):
            job = await _send_live(call, submitted, sent)
        refusal = not_succeeded(call, [job])
        if refusal is None:
            transcript = await _transcript(call, [job])
            for event in transcript.events(form, sent.text):
                await _send_event(call, event)
            call.service.part(OpenRequests).note_answered(submitted.job_ids)
        else:
            await _send_piece(call, b"event: error\ndata: " + refusal.body)
    except ClientGone:
        raise
    except Exception as error:
        body = error_body(call.stated(error), call.request_id, status_of(error))
        await _send_piece(call, b"event: error\ndata: " + body)
    await call.send({"type": "http.response.body", "body": b""})


class _Sent(msgspec.Struct):
    """What was sent of a transcript, and what the newest attempt has written of it."""

    text: str = ""
    attempt_id: str | None = None
    written: str = ""
    count: int = 0
    """How many pieces of that attempt were read."""

    def take(self, live: LiveText) -> Iterator[str]:
        """The new text, piece by piece. Unavailable: another attempt wrote something else."""
        if live.attempt_id != self.attempt_id:
            self.attempt_id, self.written, self.count = live.attempt_id, "", 0
        for piece in live.pieces:
            self.written += piece
            self.count += 1
            if not (self.written.startswith(self.text) or self.text.startswith(self.written)):
                raise Unavailable(_CHANGED)
            if new := self.written[len(self.text) :]:
                self.text += new
                yield new


async def _send_live(call: Call, submitted: Submitted, sent: _Sent) -> Job:
    """Send text as it is written, until the job is final or has written nothing for too long. Unavailable."""
    [job_id] = submitted.job_ids
    loop, wait_s = asyncio.get_running_loop(), call.service.settings.of(OpenAISettings).openai_wait_s
    end, sent_at = loop.time() + wait_s, loop.time()

    def find(tx: Transaction, who: Caller) -> tuple[int, Job, LiveText]:
        sequence, job = read.sequence(tx, job_id), read.for_caller(tx, who, job_id)
        live = live_text.of_job(tx, job_id, attempt_id=sent.attempt_id, first=sent.count)
        return sequence, job, live

    while True:
        if has_left(call):
            raise ClientGone
        sequence, job, live = await call.read_again(find)
        if job.is_final() or loop.time() > end:
            return job
        for delta in sent.take(live):
            await _send_event(call, {"type": "transcript.text.delta", "delta": delta})
            failpoints.hit("openai.mid_answer")
            end, sent_at = loop.time() + wait_s, loop.time()
        if loop.time() - sent_at > KEEPALIVE_S:
            await _send_piece(call, b": waiting")
            sent_at = loop.time()
        began = loop.time()
        await changed(call, job, sequence, CHECK_S)
        if (left := began + CHECK_S - loop.time()) > 0:
            await call.wait(asyncio.Event(), left)


async def _send_event(call: Call, event: Any) -> None:
    """One event, as JSON. Raises ClientGone."""
    await _send_piece(call, b"data: " + msgspec.json.encode(event))


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
    """The parts of a result that are read here."""

    audio: _Audio
    engines: dict[str, _Engine]


class Transcript(msgspec.Struct, frozen=True):
    """One transcript of a recording."""

    language: str
    """A code; empty if the engine does not know."""
    duration_s: float
    segments: list[_Segment]
    """Those with words."""

    def text(self) -> str:
        """The whole text."""
        return "".join(self._deltas())

    def as_json(self, form: str) -> dict[str, Any]:
        """The answer in one of the forms in `FORMS` other than `text`."""
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

    def events(self, form: str, sent: str = "") -> Iterator[dict[str, Any]]:
        """The events after the text already sent: a delta for each segment, then the whole text; with
        speakers in `diarized_json`. Unavailable: the text does not begin with what was sent."""
        if not self.text().startswith(sent):
            raise Unavailable(_CHANGED)
        diarized = self._diarized() if form == "diarized_json" else []
        position = 0
        for number, delta in enumerate(self._deltas()):
            yield from diarized[number : number + 1]
            position += len(delta)
            if new := delta[-(position - len(sent)) :] if position > len(sent) else "":
                yield {"type": "transcript.text.delta", "delta": new}
        yield {"type": "transcript.text.done", "text": self.text(), "usage": self._usage()}

    def _deltas(self) -> Iterator[str]:
        return joined(segment.text for segment in self.segments)

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
