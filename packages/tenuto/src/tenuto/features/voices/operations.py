"""What can be done with voices: list, read, open, create, rename, delete, prefer, bind to a job.

Everybody's voices have no account; an own voice exists only for its account. Which models a caller may use
is decided at the edge. The bytes of a recording are durable before any function here is called.
"""

import json
from functools import partial
from typing import Any

import msgspec

from tenuto.db.damaged_text import decoded_json, sound_json, text_of
from tenuto.db.database import Transaction
from tenuto.errors import ArtifactUnavailable, Erased, Fault, InvalidRequest, NotFound
from tenuto.features.decoding.wav import Wav
from tenuto.features.voices import store
from tenuto.features.voices.rows import LibraryVoiceRow, VoiceName, VoiceRow
from tenuto.features.voices.store import NewVoice
from tenuto.file import erasure, uploads
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobRecord
from tenuto.file.operations import Opened
from tenuto.ids import is_id
from tenuto.logs import get_logger

MEDIA_TYPE = "audio/wav"
MAX_PREFERENCES = 1000
EVERY_PAGE = 500

_Object = dict[str, Any]
_log = get_logger("tenuto.voices")


class Audio(msgspec.Struct, frozen=True):
    """A voice's recording, as it is downloaded."""

    size_bytes: int
    sha256: str
    duration_ms: int
    sample_rate: int
    channels: int
    media_type: str = MEDIA_TYPE


class Voice(msgspec.Struct, frozen=True):
    """A voice as callers see it."""

    voice_id: str
    name: str
    kind: str
    languages: msgspec.Raw
    default_parameters: msgspec.Raw
    profile_version: str | None
    provenance: msgspec.Raw | None
    audio: Audio
    created_at: int
    object: str = "voice"


class Preference(msgspec.Struct, frozen=True):
    """What an account chose for one of its content accounts; '' is the general default."""

    content_account: str
    voice_id: str
    updated_at: int


class BoundVoice(msgspec.Struct, frozen=True):
    """What a job keeps of a voice: nothing that happens to the voice later changes the job."""

    frozen: dict[str, Any]
    default_parameters: dict[str, Any]


class UploadKey(msgspec.Struct, frozen=True):
    """The idempotency key of an upload and the digest of all that was sent with it."""

    key_id: str
    idempotency_key: str
    request_sha256: str


def list_voices(
    tx: Transaction, *, account_id: str, after: str | None, limit: int
) -> tuple[list[Voice], str | None]:
    """Everybody's voices and the account's own, by their ids, with the cursor of the next page."""
    stored = store.voices(tx, account_id, after or "", limit + 1)
    page = [_voice(voice) for voice in stored[:limit]]
    return page, page[-1].voice_id if len(stored) > limit else None


def get(tx: Transaction, *, account_id: str, voice_id: str) -> Voice:
    """A voice. NotFound for foreign ids exactly as for missing ones."""
    return _voice(_visible(tx, account_id, voice_id))


def names(tx: Transaction, account_id: str) -> list[VoiceName]:
    """The voices that this account may speak with, by their ids: everybody's, then its own."""
    return store.names(tx, account_id)


def open_recording(tx: Transaction, *, account_id: str, voice_id: str) -> Opened:
    """What a download of the recording needs."""
    voice = _visible(tx, account_id, voice_id)
    record = BlobRecord(voice.blob_id, voice.size_bytes, voice.sha256, voice.block_crcs)
    return Opened(voice_id, MEDIA_TYPE, record)


def create(
    tx: Transaction,
    *,
    voice_id: str,
    account_id: str | None,
    kind: str,
    name: str,
    languages: list[str],
    wav: Wav,
    blob: BlobRecord,
    key: UploadKey | None,
    now_ms: int,
) -> str:
    """Create a voice from an uploaded recording; returns its id.

    If the key made a voice before, returns that voice's id and leaves the new bytes to the sweep.
    """
    if key is not None:
        first = uploads.bind_upload(
            tx,
            key_id=key.key_id,
            idempotency_key=key.idempotency_key,
            request_sha256=key.request_sha256,
            record_id=voice_id,
            now_ms=now_ms,
        )
        if first != voice_id:
            return first
    new = NewVoice(
        voice_id=voice_id,
        account_id=account_id,
        kind=kind,
        name=name,
        languages=json.dumps(languages),
        default_parameters="{}",
        profile="{}",
        profile_version=None,
        provenance=None,
        blob_id=blob.blob_id,
        duration_ms=wav.duration_ms,
        sample_rate=wav.sample_rate,
        channels=wav.channels,
    )
    artifacts.add_blob(tx, blob, now_ms=now_ms)
    store.add_voice(tx, new, now_ms)
    return voice_id


def exists(tx: Transaction, *, account_id: str, voice_id: str) -> bool:
    """Whether the account has this voice; "": whether every account has it."""
    return store.voice(tx, voice_id, account_id) is not None


def find_upload(tx: Transaction, *, account_id: str, key: UploadKey) -> Voice | None:
    """The voice that this upload made before. IdempotencyConflict, or Erased if it was deleted."""
    voice_id = uploads.find_upload(
        tx, key_id=key.key_id, idempotency_key=key.idempotency_key, request_sha256=key.request_sha256
    )
    return None if voice_id is None else uploaded(tx, account_id=account_id, voice_id=voice_id)


def uploaded(tx: Transaction, *, account_id: str, voice_id: str) -> Voice:
    """A voice that an upload made. Erased: it was deleted since."""
    voice = store.voice(tx, voice_id, account_id)
    if voice is None:
        raise Erased("the voice that this Idempotency-Key made was deleted; upload it under a new key")
    return _voice(voice)


def rename(tx: Transaction, *, account_id: str, voice_id: str, name: str) -> Voice:
    """Rename an own voice. NotFound for all others: no caller changes everybody's voices."""
    if store.rename(tx, voice_id, account_id, name) == 0:
        raise NotFound
    return get(tx, account_id=account_id, voice_id=voice_id)


def delete(tx: Transaction, *, account_id: str, voice_id: str, now_ms: int) -> list[str]:
    """Delete an own voice and every preference for it; returns the blobs to remove.

    Accepted jobs keep its recording to their end, which condemns it.
    """
    blob_id = store.lock_own_voice(tx, voice_id, account_id)
    if blob_id is None:
        raise NotFound
    store.remove(tx, voice_id)
    return erasure.condemn_unused(tx, blob_id, now_ms=now_ms)


def save_preference(
    tx: Transaction, *, account_id: str, content_account: str, voice_id: str, now_ms: int
) -> Preference:
    """Save the choice of one content account. InvalidRequest for a voice that can't be chosen."""
    fault = usability_fault(tx, account_id=account_id, voice_id=voice_id, param="voice_id", speaks=True)
    if fault is None and bind(tx, account_id=account_id, voice_id=voice_id) is None:
        fault = unknown_voice("voice_id")
    if fault is not None:
        raise InvalidRequest([fault])
    if store.count_other_preferences(tx, account_id, content_account) >= MAX_PREFERENCES:
        message = f"would exceed the limit of {MAX_PREFERENCES} content accounts"
        raise InvalidRequest([Fault("content_account", "too_many", message)])
    store.save_preference(tx, account_id, content_account, voice_id, now_ms)
    return Preference(content_account, voice_id, now_ms // 1000)


def preferences(tx: Transaction, *, account_id: str) -> tuple[list[Preference], Preference | None]:
    """The choices of all content accounts, by name, and the general default."""
    stored = store.preferences(tx, account_id, MAX_PREFERENCES + 1)
    saved = [Preference(one.content_account, one.voice_id, one.updated_at // 1000) for one in stored]
    default = next((one for one in saved if not one.content_account), None)
    return [one for one in saved if one.content_account], default


def usability_fault(
    tx: Transaction, *, account_id: str, voice_id: str, param: str, speaks: bool
) -> Fault | None:
    """Why an account can't use a voice: it has none with this id, or that is an emotion and not a speaker."""
    voice = store.voice(tx, voice_id, account_id) if is_id(voice_id, "voice") else None
    if voice is None:
        return unknown_voice(param)
    if speaks and voice.kind == "emotion":
        message = "is an emotion reference, not a speaker; send it as emotion_voice_id"
        return Fault(param, "not_allowed", message)
    return None


def unknown_voice(param: str) -> Fault:
    """The fault of an id that names no voice for this account."""
    message = "there is no voice with this id; GET /v1/voices lists those that there are"
    return Fault(param, "unknown_voice", message)


def bind(tx: Transaction, *, account_id: str, voice_id: str) -> BoundVoice | None:
    """A voice, kept until this transaction ends; None: it is gone. ArtifactUnavailable if damaged."""
    voice = store.voice(tx, voice_id, account_id)
    # Everybody's voices stay for ever; a lock would make every submission write to their rows.
    if voice is None or (voice.account_id is not None and not store.hold_voice(tx, voice_id, account_id)):
        return None
    profile = decoded_json(voice.profile, _Object)
    defaults = decoded_json(voice.default_parameters, _Object)
    if profile is None or defaults is None:
        column = "profile" if profile is None else "default_parameters"
        _log.error("record.damaged", id=voice_id, column=column)
        raise ArtifactUnavailable(f"the record of the voice {voice_id} is damaged")
    frozen = {
        "voice_id": voice_id,
        "kind": voice.kind,
        "profile": profile,
        "profile_version": voice.profile_version,
        "blob_id": voice.blob_id,
    }
    return BoundVoice(frozen, defaults)


def all_voices(tx: Transaction, *, after: str) -> list[LibraryVoiceRow]:
    """All voices of all accounts, a page at a time, for the operator."""
    return store.all_voices(tx, after, EVERY_PAGE)


def _visible(tx: Transaction, account_id: str, voice_id: str) -> VoiceRow:
    voice = store.voice(tx, voice_id, account_id)
    if voice is None:
        raise NotFound
    return voice


def _voice(voice: VoiceRow) -> Voice:
    sound = partial(sound_json, of=voice.id)
    return Voice(
        voice_id=voice.id,
        name=text_of(voice.name),
        kind=voice.kind,
        languages=sound(voice.languages, "[]", column="languages"),
        default_parameters=sound(voice.default_parameters, "{}", column="default_parameters"),
        profile_version=voice.profile_version,
        provenance=None if voice.provenance is None else sound(voice.provenance, "null", column="provenance"),
        audio=Audio(voice.size_bytes, voice.sha256, voice.duration_ms, voice.sample_rate, voice.channels),
        created_at=voice.created_at // 1000,
    )
