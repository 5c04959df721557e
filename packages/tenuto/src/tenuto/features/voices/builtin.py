"""The voices that ship with the program: read from `builtin.toml`, installed when the API starts.

An id is derived from a voice's number and the SHA-256 of its recording: another recording is another voice.
The number stands where other ids have their time, so built-in voices are listed first, in the table's order.
Nothing here writes bytes: `installing.py` does, then adds the voices that were missing.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from msgspec import Struct

from tenuto.db.database import Transaction
from tenuto.errors import OperatorError
from tenuto.features.decoding.wav import read_pcm16_wav
from tenuto.features.voices import store
from tenuto.features.voices.store import NewVoice
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobRecord
from tenuto.ids import encode

_OF_A_READER = ("reader", "source", "licence")
"""What the table says of a person's recording."""
_AS_KNOWN = ("gender", "accent")
"""How a voice sounds, where that is known."""


class BuiltIn(Struct, frozen=True):
    """One voice of the table; its recording is read when it is installed."""

    voice_id: str
    kind: str
    name: str
    languages: tuple[str, ...]
    default_parameters: Mapping[str, Any]
    profile: Mapping[str, Any]
    profile_version: str | None
    provenance: Mapping[str, Any]
    recording: Traversable
    sha256: str

    def content(self) -> bytes:
        """The recording. OperatorError when it is not the one that the table names."""
        content = self.recording.read_bytes()
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise OperatorError(
                f"{self.recording.name} of this installation is damaged; install Tenuto again"
            )
        return content


def built_in_voices() -> list[BuiltIn]:
    """The table, in its order."""
    folder = files("tenuto.features.voices")
    table = tomllib.loads((folder / "builtin.toml").read_text("utf-8"))
    return [_voice(line, table["provenance"], folder / "recordings") for line in table["voice"]]


def voice_id(number: int, sha256: str) -> str:
    """The id of a built-in voice."""
    return "voice_" + encode(number << 80 | int(sha256[:20], 16))


def missing(tx: Transaction, voices: list[BuiltIn]) -> list[BuiltIn]:
    """The voices that are not installed yet."""
    there = {stored.id for stored in store.built_ins(tx)}
    return [voice for voice in voices if voice.voice_id not in there]


def install(
    tx: Transaction, voices: list[BuiltIn], recordings: Mapping[str, BlobRecord], *, now_ms: int
) -> None:
    """Add the voices whose recordings are durable now, retire built-in ones that are not in the table.

    May be repeated, and done by several processes at once: the bytes of the later ones are swept.
    """
    for voice in voices:
        if voice.voice_id in recordings:
            _add(tx, voice, recordings[voice.voice_id], now_ms)
    shipped = {voice.voice_id for voice in voices}
    there = store.built_ins(tx)
    gone = [stored.id for stored in there if stored.id not in shipped and stored.retired_at is None]
    back = [stored.id for stored in there if stored.id in shipped and stored.retired_at is not None]
    store.set_retired(tx, gone, now_ms)
    store.set_retired(tx, back, None)


def _add(tx: Transaction, voice: BuiltIn, blob: BlobRecord, now_ms: int) -> None:
    wav = read_pcm16_wav(voice.content())
    new = NewVoice(
        voice_id=voice.voice_id,
        account_id=None,
        kind=voice.kind,
        name=voice.name,
        languages=json.dumps(voice.languages),
        default_parameters=json.dumps(voice.default_parameters),
        profile=json.dumps(voice.profile),
        profile_version=voice.profile_version,
        provenance=json.dumps(voice.provenance, ensure_ascii=False),
        blob_id=blob.blob_id,
        duration_ms=wav.duration_ms,
        sample_rate=wav.sample_rate,
        channels=wav.channels,
        built_in=True,
    )
    artifacts.add_blob(tx, blob, now_ms=now_ms)
    store.add_voice(tx, new, now_ms)


def _voice(line: Mapping[str, Any], synthetic: Mapping[str, Any], recordings: Traversable) -> BuiltIn:
    emotion = {"emotion": line["emotion"]} if "emotion" in line else {}
    spoken = {name: line[name] for name in ("language", "text", *_AS_KNOWN) if name in line}
    if "reader" in line:
        made: dict[str, Any] = {"synthetic": False} | {name: line[name] for name in _OF_A_READER}
        profile = {}
    else:
        made = {**synthetic, "preset": line["style"], **emotion}
        profile = {"style": line["style"], **emotion}
    return BuiltIn(
        voice_id=voice_id(line["number"], line["sha256"]),
        kind=line["kind"],
        name=line["name"],
        languages=tuple(line["languages"]),
        default_parameters=line.get("default_parameters", {}),
        profile=profile,
        profile_version=line.get("profile_version"),
        provenance=made | spoken,
        recording=recordings / line["recording"],
        sha256=line["sha256"],
    )
