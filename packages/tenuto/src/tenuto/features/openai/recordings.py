"""A recording sent in a form becomes a job's input: received, decoded, stored, and accepted with its job.

A request is identified by the content of the file as it was sent, the model and the parameters, so a retry
finds its job before anything is decoded. The library `multipart` parses the form: the file goes to disk as it
arrives, fields into memory within bounds. An input is never recorded without its job.
"""

import hashlib
import json
import re
import tempfile
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from msgspec import Struct, field
from multipart import (  # type: ignore[import-untyped]
    MultipartError,
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
    parse_options_header,
)

from tenuto import failpoints, strict_json
from tenuto.api.body_bytes import ClientGone, refuse_declared_length
from tenuto.api.call import Call
from tenuto.api.json_body import media_type
from tenuto.api.uploads import check_quota
from tenuto.config import Settings
from tenuto.config.addresses import NONE
from tenuto.db.database import Transaction
from tenuto.errors import (
    Fault,
    InvalidRequest,
    PayloadTooLarge,
    StorageFailed,
    TenutoError,
    Unavailable,
    UnsupportedMediaType,
)
from tenuto.features.decoding.decoder_child import DecoderEnded, DecoderFailed, NotReadable
from tenuto.features.openai.idempotency_keys import find_earlier, has_left, request_key
from tenuto.features.openai.request_jobs import Submitted
from tenuto.features.openai.requests import OpenRequests
from tenuto.features.recognition.sound_files import to_flac
from tenuto.features.renditions import ffmpeg
from tenuto.features.renditions.settings import RenditionSettings
from tenuto.file import inputs
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobRecord, BlobStore
from tenuto.file.inputs import INPUT_MEDIA_TYPE, MAX_INPUT_BYTES
from tenuto.file.uploads import admit_flac
from tenuto.job.submit import Accepted, Request, check_admission, submit_with_input_async
from tenuto.media.flac import READABLE, FlacSummary
from tenuto.rules import short

T = TypeVar("T")
FILE = "file"
"""The field with the recording."""
PIECE_BYTES = 1 << 20
MAX_FIELDS = 256
MAX_FIELD_BYTES = 128 << 10
MAX_FIELDS_BYTES = 1 << 20
"""Of all fields except the file; a body may exceed the file's limit by this much."""
MAX_HEADER_BYTES = 8 << 10
MAX_FILE_NAME_CHARACTERS = 255
_BOUNDARY = re.compile(r"[ -~]{1,200}")


class Form(Struct):
    """A form that was read to its end."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    """The values of each known field, in the order in which they were sent."""
    ignored: list[str] = field(default_factory=list)
    """The names of unknown fields."""
    file_name: str | None = None
    """The name of the caller's file, if it can be shown."""
    size_bytes: int = 0
    sha256: str = ""
    """Of the file; empty if there was none."""


class Recording(Struct, frozen=True):
    """A form that was received, and the open file with its recording."""

    form: Form
    file: BinaryIO


class Unreadable(InvalidRequest):
    """The file cannot be decoded."""


@contextmanager
def scratch_file(call: Call) -> Iterator[BinaryIO]:
    """An empty unnamed file: nothing is left of it, however the process ends.

    In the data folder, which has space for recordings; `/tmp` is often in memory.
    """
    folder = call.service.settings.folder
    with _scratch(folder if folder.is_dir() else None) as file:
        yield file


async def receive(call: Call, file: BinaryIO, known: Collection[str]) -> Recording:
    """Read the form of a request. Raises what reading a body does, and InvalidRequest."""
    boundary = boundary_of(call)
    limit_bytes = MAX_INPUT_BYTES + MAX_FIELDS_BYTES
    refuse_declared_length(call.scope["headers"], limit_bytes)
    reader = FormReader(boundary, file=FILE, sink=file, known=known, limit_bytes=MAX_INPUT_BYTES)
    form = await call.service.uploads.through(call.stream_body(limit_bytes), reader.read)
    if not form.sha256:
        raise InvalidRequest([Fault(FILE, "required", "is missing; it is the recording")])
    if not form.size_bytes:
        raise InvalidRequest([Fault(FILE, "empty", "is empty; it is the recording")])
    return Recording(form, file)


async def submit_recording(
    call: Call,
    route: str,
    recording: Recording,
    fields: Mapping[str, Any],
    resolve: Callable[[Transaction], Mapping[str, Any]],
) -> Submitted:
    """Accept the job of a recording; both are durable when this returns, or neither.

    The fields of the form and the file identify the request; `resolve` gives its model and parameters, and is
    not needed for a retry. Raises what `submit` raises, and InvalidRequest for a file that cannot be read.
    """
    service, caller = call.service, call.caller
    assert caller is not None, "requests are authenticated first"
    sha256 = recording.form.sha256
    sent = {**fields, "sha256": sha256}
    async with request_key(call, route, sent) as key:
        find = partial(find_earlier, call, key, sent)
        if earlier := await find():
            [accepted] = earlier
        else:
            work = await service.database.read_async(resolve)
            body = {**work, "input_artifact_ids": [service.ids.new("artifact")]}
            text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
            digest = strict_json.body_sha256(sent)
            request = Request(caller, key.first, text, digest, body, call.origin(), key.join(0))
            try:
                accepted = await _accept(call, request, recording, has_key=key.is_callers)
            except TenutoError:
                # Another try of this request may have been accepted meanwhile, with the last of the money.
                if not (earlier := await find()):
                    raise
                [accepted] = earlier
    failpoints.hit("openai.accepted")
    call.job_ids = [accepted.job_id]
    return Submitted((accepted.job_id,), accepted.replayed, key.is_callers)


async def _accept(call: Call, request: Request, recording: Recording, *, has_key: bool) -> Accepted:
    """Decode and store the recording, and accept it with its job."""
    service, blob_id = call.service, call.service.ids.new("blob")
    work = partial(_store, service.blobs, blob_id, recording.file, service.settings)
    blob, summary = await decoded_if_admitted(call, request, work)
    failpoints.hit("upload.after_bytes")
    if not has_key and has_left(call):
        # Its retry may have arrived already, and could not know this job.
        await service.uploads.forget(service.blobs, blob_id)
        raise ClientGone
    return await _record(call, request, blob, summary, recording.form.file_name)


async def decoded_if_admitted(call: Call, request: Request, decoding: Callable[[], T]) -> T:
    """Decode a recording whose job could be accepted now. Raises what `submit` raises, and RateLimited.

    Checked again when it is its turn: another recording of the account may have taken what is left.
    """
    service, account_id = call.service, request.caller.account_id
    check = check_admission(service.submitting, request)

    def admit(tx: Transaction) -> None:
        check_quota(service.settings, tx, account_id, 0)
        check(tx)

    def in_turn() -> T:
        service.database.read(admit)
        return decoding()

    await service.database.read_async(admit)
    return await call.beside(service.part(OpenRequests).decoders, in_turn)


def _store(
    blobs: BlobStore, blob_id: str, file: BinaryIO, settings: Settings
) -> tuple[BlobRecord, FlacSummary]:
    folder = settings.folder if settings.folder.is_dir() else None
    with _scratch(folder) as flac:
        frames = decode(file, flac, settings.of(RenditionSettings).ffmpeg, folder)
        flac.seek(0)
        # The child has handled a caller's bytes: its output is checked like what a caller sends.
        blob, summary = admit_flac(
            blobs, blob_id, iter(partial(flac.read, PIECE_BYTES), b""), expected_sha256=None
        )
    if summary.frames != frames:
        blobs.delete(blob_id)
        raise StorageFailed("The decoded recording is not as long as it was.")
    return blob, summary


def decode(file: BinaryIO, flac: BinaryIO, program: str, folder: Path | None) -> int:
    """Decode to `flac` in a child; returns the frame count. Unreadable, StorageFailed."""
    try:
        return _decode(file, flac, program, folder)
    except (NotReadable, DecoderEnded) as error:
        raise Unreadable([Fault(FILE, "invalid_recording", f"is not read: {error}")]) from error
    except DecoderFailed as error:
        raise StorageFailed(f"The recording could not be decoded: {error}.") from error


def _decode(file: BinaryIO, flac: BinaryIO, program: str, folder: Path | None) -> int:
    """Formats that libsndfile cannot read are left to ffmpeg, if there is one."""
    form = ffmpeg.format_in(file)
    if form is None:
        return to_flac(file, flac)
    if program == NONE:
        unless = "is read only if the operator has set `ffmpeg` in the settings"
        raise NotReadable(f"it is {ffmpeg.FORMATS[form]}, which {unless}; {READABLE} are read always")
    with _scratch(folder) as wav:
        missing = ffmpeg.to_wav(program, form, file, wav)
        frames = to_flac(wav, flac)
    ffmpeg.refuse_incomplete(missing, frames)
    return frames


async def _record(
    call: Call, request: Request, blob: BlobRecord, summary: FlacSummary, name: str | None
) -> Accepted:
    service, account_id = call.service, request.caller.account_id
    [artifact_id] = request.value["input_artifact_ids"]
    now_ms = service.clock()

    def add(tx: Transaction) -> None:
        check_quota(service.settings, tx, account_id, blob.size_bytes)
        inputs.add_input(
            tx,
            service.ids,
            account_id=account_id,
            media_type=INPUT_MEDIA_TYPE,
            blob=blob,
            summary=summary,
            name=name,
            artifact_id=artifact_id,
            now_ms=now_ms,
        )

    try:
        accepted = await submit_with_input_async(service.submitting, request, add)
    except Unavailable:
        # Whether it was recorded is unknown: the sweep finds bytes that were not.
        raise
    except TenutoError:
        await service.uploads.forget(service.blobs, blob.blob_id)
        raise
    if accepted.replayed and not await service.database.read_async(
        lambda tx: artifacts.is_known(tx, blob.blob_id)
    ):
        await service.uploads.forget(service.blobs, blob.blob_id)
    return accepted


@contextmanager
def _scratch(folder: Path | None) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        yield cast(BinaryIO, file)


# --- the form -------------------------------------------------------------------------------------------


def boundary_of(call: Call) -> str:
    """The boundary between the fields. UnsupportedMediaType: the body is not a form. InvalidRequest."""
    if media_type(call) != b"multipart/form-data":
        raise UnsupportedMediaType("the body must be multipart/form-data, with the sound in its field `file`")
    [value] = call.header_values(b"content-type")
    boundary: str = parse_options_header(value.decode("latin-1"))[1].get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        message = (
            "names no boundary; send `multipart/form-data; boundary=…` as HTTP libraries do by themselves"
        )
        raise InvalidRequest([Fault("Content-Type", "required", message)])
    return boundary


class FormReader:
    """Reads one form: the content of the field `file` goes to `sink`, the fields in `known` are kept."""

    def __init__(
        self, boundary: str, *, file: str, sink: BinaryIO, known: Collection[str], limit_bytes: int
    ) -> None:
        # Latin-1 decodes any bytes: a file name that is not UTF-8 must not fail the upload.
        self._parser = PushMultipartParser(
            boundary.encode(),
            max_header_size=MAX_HEADER_BYTES,
            max_segment_count=MAX_FIELDS,
            header_charset="latin-1",
        )
        self._file, self._sink, self._known, self._limit_bytes = file, sink, known, limit_bytes
        self._digest = hashlib.sha256()
        self._form = Form()
        self._segment: MultipartSegment | None = None
        self._text = bytearray()
        self._text_bytes = 0
        self._has_file = False

    def read(self, blocks: Iterator[bytes]) -> Form:
        """Read the form to the end of the body. InvalidRequest, PayloadTooLarge, and what `blocks` raises."""
        try:
            with self._parser as parser:
                for block in blocks:
                    for event in parser.parse(block):
                        self._take(event)
        except ParserLimitReached as error:
            limits = f"at most {MAX_FIELDS} fields, and {MAX_HEADER_BYTES >> 10} KiB of headers each"
            raise _malformed(f"{error}; {limits}") from error
        except MultipartError as error:
            raise _malformed(str(error)) from error
        if self._has_file:
            self._form.sha256 = self._digest.hexdigest()
        return self._form

    def _take(self, event: "MultipartSegment | bytes | None") -> None:
        if isinstance(event, MultipartSegment):
            self._segment = event
            if event.name == self._file:
                self._begin_file(event.filename)
        elif event is None:
            self._end_field()
        elif self._is_file():
            self._form.size_bytes += len(event)
            if self._form.size_bytes > self._limit_bytes:
                raise PayloadTooLarge(f"the file may have at most {self._limit_bytes} bytes")
            self._digest.update(event)
            _write(self._sink, event)
        else:
            self._add_text(event)

    def _is_file(self) -> bool:
        return self._segment is not None and self._segment.name == self._file

    def _begin_file(self, name: str | None) -> None:
        if self._has_file:
            message = "is in the form twice; a request takes one file"
            raise InvalidRequest([Fault(self._file, "wrong_length", message)])
        self._has_file = True
        self._form.file_name = _shown(name)

    def _add_text(self, piece: bytes) -> None:
        assert self._segment is not None
        self._text_bytes += len(piece)
        if len(self._text) + len(piece) > MAX_FIELD_BYTES or self._text_bytes > MAX_FIELDS_BYTES:
            limits = f"{MAX_FIELD_BYTES >> 10} KiB, all fields together {MAX_FIELDS_BYTES >> 10} KiB"
            message = f"is too long: a field may have {limits}"
            raise InvalidRequest([Fault(short(self._segment.name or "body"), "too_long", message)])
        self._text += piece

    def _end_field(self) -> None:
        assert self._segment is not None
        name = self._segment.name or ""
        if name != self._file:
            plain = name.removesuffix("[]")
            if plain in self._known:
                self._form.fields.setdefault(plain, []).append(self._decoded(name))
            else:
                self._form.ignored.append(name)
        self._segment = None
        self._text.clear()

    def _decoded(self, name: str) -> str:
        try:
            text = self._text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequest([Fault(name, "invalid_utf8", "is not UTF-8")]) from error
        if "\0" in text:
            raise InvalidRequest([Fault(name, "invalid_utf8", "contains U+0000, which is not text")])
        return text


def _write(file: BinaryIO, content: bytes) -> None:
    """Write all of it: without a buffer, one call may write less, as on a disk that is nearly full."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def _malformed(why: str) -> InvalidRequest:
    message = f"the body is not a complete multipart/form-data: {why[:200]}"
    return InvalidRequest([Fault("body", "invalid_form", message)])


def _shown(name: str | None) -> str | None:
    """The name of a file without its folders, if it can be shown. Its characters are the bytes sent."""
    try:
        name = (name or "").encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return None
    name = name.replace("\\", "/").rpartition("/")[2].strip()
    if any(unicodedata.category(mark) in ("Cc", "Cs") for mark in name):
        return None
    return name[:MAX_FILE_NAME_CHARACTERS] or None
