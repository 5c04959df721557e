"""Voices over HTTP: list, upload, read, listen, rename, delete, and the preference of the studio."""

import asyncio
import hashlib
from typing import Any

from msgspec import Struct

from tenuto import failpoints
from tenuto.account.caller import Caller
from tenuto.api import json_body, query
from tenuto.api.answers import REPLAYED, Answer, json_answer, json_list
from tenuto.api.artifacts import commit_erasure, send_content
from tenuto.api.body_bytes import refuse_declared_length
from tenuto.api.call import SMALL_BODY_BYTES, Call, Routes
from tenuto.api.uploads import check_quota
from tenuto.config import Settings
from tenuto.db.database import Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import (
    ChecksumMismatch,
    Fault,
    InvalidRequest,
    ModelNotAllowed,
    TenutoError,
    Unavailable,
    UnsupportedMediaType,
)
from tenuto.features.voices import operations as voices
from tenuto.features.voices import rules
from tenuto.features.voices.operations import UploadKey, Voice
from tenuto.file.operations import Opened
from tenuto.file.uploads import request_sha256
from tenuto.kind.kinds import kinds

DEFAULT_LIMIT = "100"
"""So that one page holds all voices of most accounts."""
NAME_HEADER = "X-Service-Voice-Name"

_LIST: query.Rules = {"after": query.cursor("voice"), "limit": query.LIMIT}


class _Upload(Struct, frozen=True):
    """An upload as its headers describe it."""

    name: str
    sha256: str
    key: UploadKey | None


async def index(call: Call) -> Answer:
    """GET /v1/voices: those for everybody and the account's own, ordered by id."""

    def find(tx: Transaction, who: Caller) -> tuple[list[Voice], str | None]:
        require_synthesis(call, who)
        filters = query.read_query(call, _LIST)
        limit = int(filters.get("limit", DEFAULT_LIMIT))
        return voices.list_voices(tx, account_id=who.account_id, after=filters.get("after"), limit=limit)

    return json_list(*await call.read(find))


async def create(call: Call) -> Answer:
    """POST /v1/voices: 201 when the recording is durable. Checks run in the order of these lines."""
    caller = await call.authenticate()
    require_synthesis(call, caller)
    if json_body.media_type(call) != b"audio/wav":
        raise UnsupportedMediaType("voice must be audio/wav")
    upload = _read_headers(call, caller)
    refuse_declared_length(call.scope["headers"], rules.MAX_RECORDING_BYTES)
    with call.service.uploads.slot(caller.account_id):
        first = await call.service.database.read_async(lambda tx: _find_first(tx, call, caller, upload))
        return await _admit(call, caller, upload, first)


async def show(call: Call) -> Answer:
    """GET /v1/voices/{id}."""

    def find(tx: Transaction, who: Caller) -> Voice:
        require_synthesis(call, who)
        return voices.get(tx, account_id=who.account_id, voice_id=call.path_id("voice_id", "voice"))

    return json_answer(200, await call.read(find))


async def content(call: Call) -> Answer | None:
    """GET /v1/voices/{id}/content: the recording, sent like an artifact."""

    def find(tx: Transaction, who: Caller) -> Opened:
        require_synthesis(call, who)
        voice_id = call.path_id("voice_id", "voice")
        return voices.open_recording(tx, account_id=who.account_id, voice_id=voice_id)

    return await send_content(call, await call.read(find))


async def rename(call: Call) -> Answer:
    """PATCH /v1/voices/{id}, `{"name": …}`: rename one of the account's own voices."""
    caller = await call.authenticate()
    require_synthesis(call, caller)
    # The body first, so that a malformed id is answered exactly like a missing one.
    name = rules.parse_renaming(await _read_json(call))
    voice_id = call.path_id("voice_id", "voice")
    voice = await call.service.database.write_async(
        lambda tx: voices.rename(tx, account_id=caller.account_id, voice_id=voice_id, name=name),
        account_id=caller.account_id,
    )
    return json_answer(200, voice)


async def delete(call: Call) -> Answer:
    """DELETE /v1/voices/{id}: delete an own voice and its recording; accepted jobs keep that."""
    caller = await call.authenticate()
    require_synthesis(call, caller)
    await call.read_body()
    account_id, voice_id = caller.account_id, call.path_id("voice_id", "voice")
    now_ms = call.service.clock()
    await commit_erasure(
        call, caller, lambda tx: voices.delete(tx, account_id=account_id, voice_id=voice_id, now_ms=now_ms)
    )
    return json_answer(200, {"voice_id": voice_id, "object": "voice", "deleted": True})


async def prefer(call: Call) -> Answer:
    """PUT /v1/voice-preference: set a content account's choice, or the default; jobs ignore it."""
    caller = await call.authenticate()
    require_synthesis(call, caller)
    content_account, voice_id = rules.parse_preference(await _read_json(call))
    now_ms = call.service.clock()
    saved = await call.service.database.write_async(
        lambda tx: voices.save_preference(
            tx,
            account_id=caller.account_id,
            content_account=content_account,
            voice_id=voice_id,
            now_ms=now_ms,
        ),
        account_id=caller.account_id,
    )
    return json_answer(200, saved)


async def preferences(call: Call) -> Answer:
    """GET /v1/voice-preference: the choices of all content accounts, and the default."""

    def find(tx: Transaction, who: Caller) -> Any:
        require_synthesis(call, who)
        return voices.preferences(tx, account_id=who.account_id)

    saved, default = await call.read(find)
    return json_list(saved, default=default)


def require_synthesis(call: Call, caller: Caller) -> None:
    """ModelNotAllowed unless the caller may use a model that takes voices."""
    models = [model for model in call.service.models.values() if model.interface == "jobs"]
    if not any(kinds()[model.kind].takes_voices and caller.may_use(model.name) for model in models):
        raise ModelNotAllowed(
            "voices need a speech model, and this API key may use none; GET /v1/models lists what it may use"
        )


def _read_headers(call: Call, caller: Caller) -> _Upload:
    faults: list[Fault] = []
    name = _name(call, faults)
    sha256 = json_body.content_sha256(call, faults)
    key = json_body.idempotency_key(call, faults)
    if faults:
        raise InvalidRequest(faults)
    digest = request_sha256("voice", name, sha256)
    return _Upload(name, sha256, None if key is None else UploadKey(caller.key_id, key, digest))


def _name(call: Call, faults: list[Fault]) -> str:
    values = call.header_values(NAME_HEADER.lower().encode())
    if len(values) != 1:
        message = f"the header is required once: 1 to {rules.MAX_NAME_CHARACTERS} characters, percent-encoded"
        faults.append(Fault(NAME_HEADER, "invalid_name" if values else "required", message))
        return ""
    name = json_body.decode_name(values[0])
    if name is None:
        faults.append(Fault(NAME_HEADER, "invalid_name", "is not UTF-8; percent-encode it as UTF-8"))
        return ""
    fault = rules.name_fault(NAME_HEADER, name)
    faults += [fault] if fault else []
    return name


async def _read_json(call: Call) -> Any:
    return (await json_body.read_json(call, SMALL_BODY_BYTES))[1]


async def _beside(call: Call, work: Any) -> Any:
    """Work on many bytes in a thread, so that other requests are answered meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(call.service.uploads.threads, work)


def _find_first(tx: Transaction, call: Call, caller: Caller, upload: _Upload) -> Voice | None:
    """The voice that this upload made before; if there is none, the quota must allow it."""
    if upload.key is not None:
        first = voices.find_upload(tx, account_id=caller.account_id, key=upload.key)
        if first is not None:
            return first
    check_quota(call.service.settings, tx, caller.account_id, int(call.header(b"content-length") or 0))
    return None


async def _admit(call: Call, caller: Caller, upload: _Upload, first: Voice | None) -> Answer:
    content = await call.read_body(rules.MAX_RECORDING_BYTES)
    if await _beside(call, lambda: hashlib.sha256(content).hexdigest()) != upload.sha256:
        raise ChecksumMismatch
    if first is not None:
        return _created(first, replayed=True)
    return await _store(call, caller, upload, content)


async def _store(call: Call, caller: Caller, upload: _Upload, content: bytes) -> Answer:
    service, account_id = call.service, caller.account_id
    voice_id, blob_id, now_ms = service.ids.new("voice"), service.ids.new("blob"), service.clock()
    wav, blob = await _beside(
        call, lambda: (rules.check_recording(content), service.blobs.write(blob_id, content))
    )
    failpoints.hit("voice.after_bytes")

    def add(tx: Transaction) -> Voice:
        if voices.exists(tx, account_id=account_id, voice_id=voice_id):  # made by a try whose answer was lost
            return voices.get(tx, account_id=account_id, voice_id=voice_id)
        check_quota(service.settings, tx, account_id, blob.size_bytes)
        made = voices.create(
            tx,
            voice_id=voice_id,
            account_id=account_id,
            kind="own",
            name=upload.name,
            languages=[],
            wav=wav,
            blob=blob,
            key=upload.key,
            now_ms=now_ms,
        )
        failpoints.hit("voice.before_commit")
        return voices.uploaded(tx, account_id=account_id, voice_id=made)

    try:
        voice = await write_known_async(
            service.database, add, account_id=account_id, is_repeatable=upload.key is not None
        )
        failpoints.hit("voice.after_commit")
    except Unavailable:
        raise  # Whether it was stored is unknown: the sweep finds bytes without a row.
    except TenutoError:
        await service.uploads.forget(service.blobs, blob_id)
        raise
    if voice.voice_id != voice_id:
        await service.uploads.forget(service.blobs, blob_id)
    return _created(voice, replayed=voice.voice_id != voice_id)


def _created(voice: Voice, *, replayed: bool) -> Answer:
    location = (b"location", f"/v1/voices/{voice.voice_id}".encode())
    return json_answer(201, voice, location, *([REPLAYED] if replayed else []))


def routes(settings: Settings) -> Routes:
    """The routes of voices."""
    return {
        "/v1/voices": {"GET": index, "POST": create},
        "/v1/voices/{voice_id}": {"GET": show, "PATCH": rename, "DELETE": delete},
        "/v1/voices/{voice_id}/content": {"GET": content},
        "/v1/voice-preference": {"GET": preferences, "PUT": prefer},
    }
