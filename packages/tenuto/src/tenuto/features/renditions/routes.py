"""Results in another form: audio as MP3, Opus, FLAC or raw PCM, images as JPEG or WebP, made on request."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import BinaryIO, cast

from tenuto import failpoints
from tenuto.account.caller import Caller
from tenuto.api.answers import Answer, Headers
from tenuto.api.artifacts import send_content, send_spans
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call, Routes
from tenuto.api.query import read_query
from tenuto.config import Settings
from tenuto.config.addresses import NONE
from tenuto.db.database import Transaction
from tenuto.errors import ArtifactUnavailable, CorruptBlob, Fault, InvalidRequest, StorageFailed
from tenuto.features.decoding.decoder_child import DecoderEnded, DecoderFailed
from tenuto.features.renditions.ffmpeg import to_aac
from tenuto.features.renditions.renderers import Renderers
from tenuto.features.renditions.renditions import (
    AAC,
    AUDIO_FORMS,
    IMAGE_FORMS,
    PNG,
    WAV,
    AudioForm,
    ImageForm,
    NotRenderable,
    spans_of,
    write_audio,
    write_image,
)
from tenuto.features.renditions.settings import RenditionSettings
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobReader
from tenuto.file.operations import Opened
from tenuto.rules import Choice

PIECE_BYTES = 256 << 10

FORMS = AUDIO_FORMS | {AAC.name: AAC}
"""Of audio."""

_SHOW = {"form": Choice((*FORMS, *IMAGE_FORMS))}
_FORMS: Mapping[str, Mapping[str, AudioForm | ImageForm]] = {
    WAV.media_type: FORMS,
    PNG.media_type: IMAGE_FORMS,
}


async def show(call: Call) -> Answer | None:
    """GET /v1/artifacts/{id}/rendition: 200 with the whole; 400: the artifact has no such form."""
    name = ""

    def find(tx: Transaction, who: Caller) -> Opened:
        nonlocal name
        name = read_query(call, _SHOW).get("form", "mp3")
        artifact_id = call.path_id("artifact_id", "artifact")
        return artifacts.open_artifact(tx, account_id=who.account_id, artifact_id=artifact_id)

    opened = await call.read(find)
    forms = _FORMS.get(opened.media_type, {})
    if (form := forms.get(name)) is None:
        of = ", ".join(forms) or "no other"
        raise InvalidRequest([Fault("form", "not_allowed", f"{opened.media_type} has {of} form")])
    if form in (WAV, PNG):
        return await send_content(call, opened)
    no_sniff = [(b"x-content-type-options", b"nosniff")]
    if isinstance(form, AudioForm):
        check_form(call, form, param="form")
        await send_rendition(call, form, [opened], no_sniff, param="form")
        return None
    source = cast(BinaryIO, BlobReader(call.service.blobs, opened.blob))
    async with scratch_file(call, partial(write_image, form, source)) as image:
        await send_file(call, form.media_type, image, no_sniff)
    return None


def check_form(call: Call, form: AudioForm, *, param: str) -> None:
    """InvalidRequest, naming `param`, if this service does not write audio in this form."""
    if form is AAC and call.service.settings.of(RenditionSettings).ffmpeg == NONE:
        unless = "is made only if the operator has set `ffmpeg` in the settings"
        message = f"is aac, which {unless}; {', '.join(AUDIO_FORMS)} are always made"
        raise InvalidRequest([Fault(param, "not_allowed", message)])


async def send_rendition(
    call: Call, form: AudioForm, opened: Sequence[Opened], headers: Headers, *, param: str
) -> bool:
    """Send audio in another form, made whole first, so that no part is ever taken for the whole.

    If it is stored as it is sent, it is sent from there; a bad block then cuts the connection: returns False.
    """
    sources = [cast(BinaryIO, BlobReader(call.service.blobs, each.blob)) for each in opened]
    with _answered(param):
        spans = await call.beside(call.service.readers, partial(spans_of, form, sources))
    if spans is not None:
        stored = [(each, *span) for each, span in zip(opened, spans.spans, strict=True) if span[0] < span[1]]
        stored = stored or [(opened[0], 0, 0)]
        return await send_spans(call, form.media_type, stored, headers, start=spans.start)
    async with rendition(call, form, opened, param=param) as sound:
        await send_file(call, form.media_type, sound, headers)
    return True


async def send_file(call: Call, media_type: str, file: BinaryIO, headers: Headers) -> None:
    """Send the whole of a file. Raises ClientGone."""
    size_bytes = file.seek(0, 2)
    file.seek(0)
    head = [
        (b"content-type", media_type.encode()),
        (b"content-length", b"%d" % size_bytes),
        (b"x-request-id", call.request_id.encode()),
        *headers,
    ]
    await call.send({"type": "http.response.start", "status": 200, "headers": head})
    while piece := file.read(PIECE_BYTES):
        if call.is_gone():
            raise ClientGone
        await call.send({"type": "http.response.body", "body": piece, "more_body": True})
        failpoints.hit("openai.mid_answer")
    await call.send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def rendition(
    call: Call, form: AudioForm, opened: Sequence[Opened], *, param: str
) -> AsyncIterator[BinaryIO]:
    """The audio of the artifacts, one after another, in a scratch file positioned at its start.

    InvalidRequest, naming `param`, if the audio has no such form; ArtifactUnavailable.
    """
    sources = [cast(BinaryIO, BlobReader(call.service.blobs, each.blob)) for each in opened]
    with _answered(param):
        async with scratch_file(call, partial(_write, call.service.settings, form, sources)) as sound:
            yield sound


@contextmanager
def _answered(param: str) -> Iterator[None]:
    """Turns errors of stored audio into those that a caller sees."""
    try:
        yield
    except CorruptBlob as error:
        raise ArtifactUnavailable from error
    except NotRenderable as error:
        message = f"{error}; the sound is whole as wav"
        raise InvalidRequest([Fault(param, "not_allowed", message)]) from error


def _write(settings: Settings, form: AudioForm, sources: Sequence[BinaryIO], sink: BinaryIO) -> None:
    if form is not AAC:
        write_audio(form, sources, sink)
        return
    folder = settings.folder if settings.folder.is_dir() else None
    with tempfile.TemporaryFile(dir=folder) as wav, tempfile.TemporaryFile(dir=folder) as aac:
        write_audio(WAV, sources, cast(BinaryIO, wav))
        wav.flush()
        try:
            to_aac(settings.of(RenditionSettings).ffmpeg, cast(BinaryIO, wav), cast(BinaryIO, aac))
        except (DecoderFailed, DecoderEnded) as error:
            raise StorageFailed(f"The sound could not be written as AAC: {error}.") from error
        aac.seek(0)
        shutil.copyfileobj(aac, sink)


@asynccontextmanager
async def scratch_file(call: Call, write: Callable[[BinaryIO], None]) -> AsyncIterator[BinaryIO]:
    """A seekable file, filled by `write` in a thread and positioned at its start.

    Raises what `write` raises, ArtifactUnavailable instead of CorruptBlob, and what `Scratch.reserve` raises.
    """
    assert call.caller is not None, "requests are authenticated first"
    with call.service.part(Renderers).scratch.file(call.caller.account_id) as sink:
        try:
            await call.beside(call.service.part(Renderers).threads, partial(write, sink))
        except CorruptBlob as error:
            raise ArtifactUnavailable from error
        sink.seek(0)
        yield sink


def routes(settings: Settings) -> Routes:
    """The route of renditions."""
    return {"/v1/artifacts/{artifact_id}/rendition": {"GET": show}}
