"""Input artifacts over HTTP: a FLAC is hashed, stored and inspected as it arrives, and gets an id."""

from collections.abc import AsyncIterator
from functools import partial
from unicodedata import category

from msgspec import Struct

from tenuto import failpoints
from tenuto.account.caller import Caller
from tenuto.api import json_body
from tenuto.api.answers import REPLAYED, Answer, json_answer
from tenuto.api.body_bytes import refuse_declared_length
from tenuto.api.call import Call
from tenuto.api.uploads import check_quota
from tenuto.db.database import Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import Fault, InvalidRequest, TenutoError, Unavailable, UnsupportedMediaType
from tenuto.file import inputs
from tenuto.file.blob import BlobRecord
from tenuto.file.inputs import INPUT_MEDIA_TYPE, MAX_INPUT_BYTES, Input
from tenuto.file.uploads import admit_flac, bind_upload, find_upload, request_sha256
from tenuto.media.flac import FlacSummary

NAME_HEADER = "X-Service-File-Name"
MAX_NAME_CHARACTERS = 255


class _Upload(Struct, frozen=True):
    """One upload as its head describes it."""

    caller: Caller
    sha256: str
    idempotency_key: str | None
    name: str | None
    """The name of the caller's file; it is not part of what identifies the request."""

    @property
    def request_sha256(self) -> str:
        return request_sha256("/v1/input-artifacts", INPUT_MEDIA_TYPE, self.sha256)


class _First(Exception):
    """Another upload with this key was first; its record stands for both."""

    def __init__(self, artifact_id: str) -> None:
        self.artifact_id = artifact_id
        super().__init__(artifact_id)


async def create(call: Call) -> Answer:
    """POST /v1/input-artifacts: 201 when the bytes are durable. Checks run in the order of these lines."""
    caller = await call.authenticate()
    if json_body.media_type(call) != INPUT_MEDIA_TYPE.encode():
        raise UnsupportedMediaType("input must be audio/flac")
    upload = _head(call, caller)
    refuse_declared_length(call.scope["headers"], MAX_INPUT_BYTES)
    with call.service.uploads.slot(caller.account_id):
        first = await call.service.database.read_async(lambda tx: _find_first(tx, call, upload))
        body = call.stream_body(MAX_INPUT_BYTES)
        if first is not None:
            # A replay: its bytes are read only so that the client can send them, and discarded.
            async for _ in body:
                continue
            return _answer(first, replayed=True)
        blob, summary = await _admit(call, upload, body)
        failpoints.hit("upload.after_bytes")
        return await _record(call, upload, blob, summary)


def _head(call: Call, caller: Caller) -> _Upload:
    faults: list[Fault] = []
    sha256 = json_body.content_sha256(call, faults)
    key = json_body.idempotency_key(call, faults)
    name = _file_name(call, faults)
    if faults:
        raise InvalidRequest(faults)
    return _Upload(caller, sha256, key, name)


def _file_name(call: Call, faults: list[Fault]) -> str | None:
    """The name of the caller's file, if the upload gives one."""
    values = call.header_values(NAME_HEADER.lower().encode())
    if not values:
        return None
    name = json_body.decode_name(values[0]) if len(values) == 1 else None
    if name is not None and not _has_controls(name) and 1 <= len(name) <= MAX_NAME_CHARACTERS:
        return name
    message = (
        f"may be given once: 1 to {MAX_NAME_CHARACTERS} characters, no control characters; percent-encoded"
    )
    faults.append(Fault(NAME_HEADER, "invalid_name", message))
    return None


def _has_controls(name: str) -> bool:
    return any(category(mark) in ("Cc", "Cs") for mark in name)


def _find_first(tx: Transaction, call: Call, upload: _Upload) -> Input | None:
    """The record that this upload made before; if there is none, the quota must allow it. Erased."""
    account_id = upload.caller.account_id
    if upload.idempotency_key is not None:
        artifact_id = find_upload(
            tx,
            key_id=upload.caller.key_id,
            idempotency_key=upload.idempotency_key,
            request_sha256=upload.request_sha256,
        )
        if artifact_id is not None:
            return inputs.uploaded(tx, account_id=account_id, artifact_id=artifact_id)
    length = int(call.header(b"content-length") or 0)
    check_quota(call.service.settings, tx, account_id, length)
    return None


async def _admit(call: Call, upload: _Upload, body: AsyncIterator[bytes]) -> tuple[BlobRecord, FlacSummary]:
    service = call.service
    work = partial(admit_flac, service.blobs, service.ids.new("blob"), expected_sha256=upload.sha256)
    return await service.uploads.through(body, work)


async def _record(call: Call, upload: _Upload, blob: BlobRecord, summary: FlacSummary) -> Answer:
    """Record the upload; if its key was bound meanwhile, answer with the record of the first upload."""
    service, account_id = call.service, upload.caller.account_id
    artifact_id, now_ms = service.ids.new("artifact"), service.clock()
    try:
        record = await write_known_async(
            service.database,
            lambda tx: _add(tx, call, upload, blob, summary, artifact_id=artifact_id, now_ms=now_ms),
            account_id=account_id,
            is_repeatable=upload.idempotency_key is not None,
        )
        failpoints.hit("upload.after_commit")
        return _answer(record)
    except Unavailable:
        # Whether it was recorded is unknown: the sweep finds bytes that were not.
        raise
    except _First as error:
        first = error.artifact_id
        await service.uploads.forget(service.blobs, blob.blob_id)
        record = await service.database.read_async(
            lambda tx: inputs.uploaded(tx, account_id=account_id, artifact_id=first)
        )
        return _answer(record, replayed=True)
    except TenutoError:
        await service.uploads.forget(service.blobs, blob.blob_id)
        raise


def _add(
    tx: Transaction,
    call: Call,
    upload: _Upload,
    blob: BlobRecord,
    summary: FlacSummary,
    *,
    artifact_id: str,
    now_ms: int,
) -> Input:
    """Add the row, and that of the key if there is one, in one transaction, unless an earlier try did."""
    service, account_id = call.service, upload.caller.account_id
    if inputs.is_usable(tx, account_id=account_id, artifact_id=artifact_id, media_type=INPUT_MEDIA_TYPE):
        return inputs.get_input(tx, account_id=account_id, artifact_id=artifact_id)
    check_quota(service.settings, tx, account_id, blob.size_bytes)
    inputs.add_input(
        tx,
        service.ids,
        artifact_id=artifact_id,
        account_id=account_id,
        media_type=INPUT_MEDIA_TYPE,
        blob=blob,
        summary=summary,
        name=upload.name,
        now_ms=now_ms,
    )
    if upload.idempotency_key is not None:
        first = bind_upload(
            tx,
            key_id=upload.caller.key_id,
            idempotency_key=upload.idempotency_key,
            request_sha256=upload.request_sha256,
            record_id=artifact_id,
            now_ms=now_ms,
        )
        if first != artifact_id:
            raise _First(first)
    failpoints.hit("upload.before_commit")
    return inputs.get_input(tx, account_id=account_id, artifact_id=artifact_id)


def _answer(record: Input, *, replayed: bool = False) -> Answer:
    return json_answer(201, {"artifact": record}, *([REPLAYED] if replayed else []))
