"""POST /v1/audio/speech: a text becomes audio in the requested form.

The text becomes a speech job, or several if it is too long for one; the audio is made from their verified
artifacts, joined without a gap.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from tenuto.account.caller import Caller
from tenuto.api.answers import REPLAYED, Answer, Headers
from tenuto.api.artifacts import send_content
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call
from tenuto.api.errors import error_body, status_of
from tenuto.api.json_body import read_json
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest, TenutoError, Unavailable
from tenuto.features.openai.names import model_for, voice_named
from tenuto.features.openai.request_jobs import (
    Submitted,
    ignored_header,
    in_their_words,
    job_headers,
    lenient,
    not_succeeded,
    opened_results,
    submit,
    wait,
    wait_end,
    waiting,
)
from tenuto.features.openai.requests import OpenRequests
from tenuto.features.openai.streams import CHECK_S, NothingSent, SoundStream, StreamBroken
from tenuto.features.renditions.renditions import WAV, AudioForm
from tenuto.features.renditions.routes import FORMS, check_form, rendition, send_rendition
from tenuto.features.voices import operations as voices
from tenuto.job.read import Job
from tenuto.kind.envelope import MAX_MODEL_CHARACTERS
from tenuto.kind.kinds import kinds
from tenuto.logs import get_logger
from tenuto.rules import (
    WHITE_SPACE,
    Boolean,
    Choice,
    Field,
    Number,
    Text,
    by_name,
    read_fields,
    wrong_type,
)
from tenuto_client.languages import spoken
from tenuto_client.unspoken import unspoken
from tenuto_engine import cutting

KIND = "speech"
DEFAULT_FORM = "mp3"
MAX_INPUT_BYTES = 256 << 10
"""A text's jobs, at most 32 or so, are accepted in one transaction, for which others wait."""
MAX_BODY_BYTES = 3 * MAX_INPUT_BYTES + (64 << 10)
"""JSON may escape every character beyond ASCII, as many programs do, which up to triples a text's bytes."""
MAX_JOB_BYTES = 8192
"""Of a text spoken by one job (the contract's limit); a longer one becomes several jobs."""
MAX_EMOTION_BYTES = 2048
KEEPALIVE_S = 15.0
"""Between two comments in an event stream that is waiting."""
EVENT_BYTES = 48 << 10
"""Of audio in one event."""
_CUT = "The audio was generated again and differs from what was already sent; send the same request again."
_log = get_logger("tenuto.api")
_EDGES = "".join(WHITE_SPACE)
_KOKORO_LANGUAGES = {"a": "en", "b": "en", "e": "es", "j": "ja", "z": "zh"}


class _Voice:
    """A voice's id or name, or an object with its id."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        said = value.get("id") if type(value) is dict else value
        if type(said) is not str:
            faults.append(wrong_type(param, value, 'a name, an id, or {"id": …}'))
            return ""
        return said


_FIELDS = by_name(
    (
        Field(
            "model",
            Text(MAX_MODEL_CHARACTERS, "characters"),
            "A model, or OpenAI's name of one.",
            required=True,
        ),
        Field("input", Text(MAX_INPUT_BYTES, "bytes", may_be_blank=False), "What is spoken.", required=True),
        Field("voice", _Voice(), "A voice's id or name, or one of OpenAI's names."),
        Field("speed", Number(0.5, 2), "Larger is faster.", 1.0),
        Field("instructions", Text(MAX_INPUT_BYTES, "bytes", may_be_empty=True), "The emotion, in words."),
        Field("response_format", Choice(tuple(FORMS)), "The form of the sound.", DEFAULT_FORM),
        Field("stream_format", Choice(("audio", "sse")), "The sound itself, or events with it.", "audio"),
        Field("stream", Boolean(), "The sound while it is made, in a form that can be sent so.", False),
        Field("lang_code", Text(16, "characters", may_be_empty=True), "Kokoro's name of `lang`."),
    )
)
_THEIR_NAMES = {
    "text": "input",
    "voice_id": "voice",
    "duration_factor": "speed",
    "emo_text": "instructions",
    "lang": "lang_code",
}
"""The field that each of our parameters comes from unless it was sent itself; a refusal names what was."""
_FORM = frozenset(("response_format", "stream_format", "stream"))
"""Fields that only concern the form of the answer."""
_OWN_WAY = frozenset(("text", "stream"))
"""Our parameters that cannot be sent beside OpenAI's fields."""
_STREAMED = frozenset(("mp3", "opus", "pcm"))
"""Forms that do not begin with their length."""


async def create(call: Call) -> Answer | None:
    """The audio, once the jobs behind it have succeeded; 503 `still_running` if they have not in time."""
    caller = await call.authenticate()
    _, value = await read_json(call, MAX_BODY_BYTES)
    extensions = {field.name for field in kinds()[KIND].fields} - _OWN_WAY
    sent = lenient(value, dict.fromkeys([*_FIELDS, *extensions]))
    own = {name: item for name, item in sent.values.items() if name in extensions}
    faults: list[Fault] = []
    values = read_fields(_FIELDS, {n: v for n, v in sent.values.items() if n in _FIELDS}, "", faults)
    if faults:
        raise InvalidRequest(faults)
    form = FORMS[values.get("response_format", DEFAULT_FORM)]
    check_form(call, form, param="response_format")
    streams = form.name in _STREAMED and (
        values.get("stream") or "stream_format" in values or form.name == "pcm"
    )
    work = {name: value for name, value in values.items() if name not in _FORM}
    try:
        submitted = await submit(
            call,
            "audio/speech",
            own | work,
            lambda tx: _bodies(tx, call, caller, values, own, streams=bool(streams)),
        )
    except InvalidRequest as error:
        names = {
            ours: theirs for ours, theirs in _THEIR_NAMES.items() if theirs in values and ours not in own
        }
        raise in_their_words(error, names) from error
    end, headers = wait_end(call), ignored_header(sent.ignored)
    if values.get("stream_format") == "sse":
        await _send_events(call, form, submitted, end, headers)
        return None
    if streams and await _send_stream(call, form, submitted, end, headers):
        return None
    jobs = await wait(call, submitted, end)
    if (refusal := not_succeeded(call, jobs)) is not None:
        refusal.headers.extend(headers)
        return refusal
    return await _send(call, form, jobs, submitted, headers)


def _bodies(
    tx: Transaction,
    call: Call,
    caller: Caller,
    values: dict[str, Any],
    own: dict[str, Any],
    *,
    streams: bool,
) -> list[dict[str, Any]]:
    """The bodies of the jobs, as `POST /v1/jobs` takes them."""
    text = values["input"].strip(_EDGES)
    language = own.get("lang") or _language(values.get("lang_code")) or spoken(text)
    parameters: dict[str, Any] = {"lang": language}
    names = voices.names(tx, caller.account_id)
    if "voice_id" not in own and "voice" in values:
        voice_id = voice_named(names, values["voice"], language)
        parameters |= {} if voice_id is None else {"voice_id": voice_id}
    if values.get("speed", 1.0) != 1.0 and "duration_factor" not in own:
        parameters["duration_factor"] = round(1 / values["speed"], 4)
    parameters |= _emotion(values.get("instructions", "").strip(_EDGES), own)
    parameters |= own
    # The file of a shared voice has shorter pauses than its segments.
    shared = [voice.id for voice in names if voice.kind == "shared"]
    if streams and parameters.get("voice_id") not in shared:
        parameters["stream"] = True
    model = model_for(tx, call.service, caller, KIND, values["model"])
    pieces = cut_at_sentences(text, MAX_JOB_BYTES)
    bodies = [{"model": model, "parameters": {**parameters, "text": piece}} for piece in pieces]
    if len(bodies) > 1:
        for number, body in enumerate(bodies, 1):
            body["metadata"] = {"piece": f"{number} of {len(bodies)}"}
    return bodies


def _emotion(instructions: str, own: dict[str, Any]) -> dict[str, Any]:
    """The parameters that instructions stand for, unless an emotion is chosen in another way."""
    if instructions in ("", "None") or own.keys() & {"use_emo_text", "emo_vector", "emotion_voice_id"}:
        return {}
    return {"use_emo_text": True, "emo_text": _cut(instructions, MAX_EMOTION_BYTES)}


def cut_at_sentences(text: str, limit_bytes: int) -> list[str]:
    """The text in pieces of at most `limit_bytes` of UTF-8; white space between them is lost.

    A piece ends at the last sentence that fits, else at a clause, at a word, or at any character. One of
    which nothing can be spoken is left out: its job would fail.
    """
    pieces = [piece.strip(_EDGES) for piece in cutting.split(text, limit_bytes, _stripped_bytes)]
    pieces = [piece for piece in pieces if piece]
    return [piece for piece in pieces if _is_spoken(piece)] or pieces[:1]


def _stripped_bytes(piece: str) -> int:
    return len(piece.strip(_EDGES).encode())


def _is_spoken(piece: str) -> bool:
    return any(char.isalnum() for char in piece) or not unspoken(piece).is_silent


def _cut(text: str, limit_bytes: int) -> str:
    return text.encode()[:limit_bytes].decode("utf-8", "ignore")


def _language(code: str | None) -> str | None:
    """The language of Kokoro's letter or of a name such as `en-us`; None: detect it from the text."""
    code = (code or "").strip().lower()
    return _KOKORO_LANGUAGES.get(code) or re.split("[-_]", code)[0] or None


async def _send(
    call: Call, form: AudioForm, jobs: Sequence[Job], submitted: Submitted, headers: Headers
) -> Answer | None:
    opened = await opened_results(call, jobs)
    headers = [*headers, *job_headers(jobs, submitted)]
    answer, is_whole = None, True
    if form is WAV and len(opened) == 1:
        answer = await send_content(call, opened[0], headers)
    else:
        is_whole = await send_rendition(call, form, opened, headers, param="response_format")
    if is_whole and not call.is_gone():
        call.service.part(OpenRequests).note_answered(submitted.job_ids)
    return answer


async def _send_stream(
    call: Call, form: AudioForm, submitted: Submitted, end: float, headers: Headers
) -> bool:
    """Send the audio while it is made. False: nothing was sent, since there was none before the jobs ended.

    If the audio cannot be completed, the connection is closed in the middle of it.
    """
    head = [(b"content-type", form.media_type.encode()), *_stream_head(call, submitted), *headers]
    has_begun = False
    try:
        async with waiting(call, submitted):
            with SoundStream(call, form, submitted, end) as stream:
                async for piece in stream.pieces():
                    if piece and not has_begun:
                        await call.send({"type": "http.response.start", "status": 200, "headers": head})
                        has_begun = True
                    if piece:
                        await _send_piece(call, piece)
    except (NothingSent, StreamBroken, TenutoError):
        if not has_begun:
            return False
        _log.warning("openai.stream_cut", job_id=", ".join(submitted.job_ids), request_id=call.request_id)
        call.break_off()
        return True
    await call.send({"type": "http.response.body", "body": b""})
    call.service.part(OpenRequests).note_answered(submitted.job_ids)
    return True


def _stream_head(call: Call, submitted: Submitted) -> Headers:
    head = [
        (b"cache-control", b"no-cache"),
        (b"x-request-id", call.request_id.encode()),
        (b"x-service-job", ", ".join(submitted.job_ids).encode()),
    ]
    return [*head, REPLAYED] if submitted.is_replay else head


async def _send_events(
    call: Call, form: AudioForm, submitted: Submitted, end: float, headers: Headers
) -> None:
    """Send the audio in server-sent events, with comments as keepalives while waiting for the jobs.

    An error after the events have begun is an event `error`, with no `speech.audio.done` after it.
    """
    head = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        *_stream_head(call, submitted),
        *headers,
    ]
    await call.send({"type": "http.response.start", "status": 200, "headers": head})
    loop = asyncio.get_running_loop()
    sent_at = loop.time()
    try:
        async with waiting(call, submitted), aclosing(_pieces(call, form, submitted, end)) as pieces:
            async for piece in pieces:
                for start in range(0, len(piece), EVENT_BYTES):
                    audio = b64encode(piece[start : start + EVENT_BYTES]).decode()
                    await _send_event(call, {"type": "speech.audio.delta", "audio": audio})
                    sent_at = loop.time()
                if loop.time() - sent_at > KEEPALIVE_S:
                    await _send_piece(call, b": waiting\n\n")
                    sent_at = loop.time()
    except _Refused as refused:
        await _send_piece(call, b"event: error\ndata: " + refused.body + b"\n\n")
    except ClientGone:
        raise
    except Exception as error:
        body = error_body(call.stated(error), call.request_id, status_of(error))
        await _send_piece(call, b"event: error\ndata: " + body + b"\n\n")
    else:
        usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        await _send_event(call, {"type": "speech.audio.done", "usage": usage})
        call.service.part(OpenRequests).note_answered(submitted.job_ids)
    await call.send({"type": "http.response.body", "body": b""})


class _Refused(Exception):
    """The jobs have no result; carries the body of the answer that says so."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        super().__init__()


async def _pieces(call: Call, form: AudioForm, submitted: Submitted, end: float) -> AsyncGenerator[bytes]:
    """The audio while it is made if possible, else once it is complete; empty pieces meanwhile."""
    if form.name in _STREAMED:
        try:
            with SoundStream(call, form, submitted, end) as stream:
                async for piece in stream.pieces():
                    yield piece
            return
        except NothingSent:
            pass
        except StreamBroken as error:
            raise Unavailable(_CUT) from error
    ending = asyncio.ensure_future(wait(call, submitted, end))
    try:
        while not (await asyncio.wait([ending], timeout=CHECK_S))[0]:
            yield b""
        jobs = ending.result()
    finally:
        ending.cancel()
    if (refusal := not_succeeded(call, jobs)) is not None:
        raise _Refused(refusal.body)
    async with rendition(call, form, await opened_results(call, jobs), param="response_format") as sound:
        while piece := sound.read(EVENT_BYTES):
            yield piece


async def _send_event(call: Call, event: dict[str, Any]) -> None:
    await _send_piece(call, b"data: " + msgspec.json.encode(event) + b"\n\n")


async def _send_piece(call: Call, piece: bytes) -> None:
    if call.is_gone():
        raise ClientGone
    await call.send({"type": "http.response.body", "body": piece, "more_body": True})
