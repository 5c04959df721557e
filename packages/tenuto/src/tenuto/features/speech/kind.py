"""Speech: a text, and perhaps voices, become a WAV.

The voices that a job refers to are looked up once and frozen into its parameters.
"""

from collections.abc import Mapping
from typing import Any

from tenuto.account.caller import Caller
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest
from tenuto.features.speech import run
from tenuto.features.speech.parameters import (
    BOUND_VOICES,
    FIELDS,
    MAX_TEXT_BYTES,
    SpeechParameters,
    check_job,
    resolved,
)
from tenuto.features.speech.settings import SpeechSettings
from tenuto.features.voices import operations as voices
from tenuto.features.voices.operations import BoundVoice
from tenuto.kind.envelope import Envelope
from tenuto.kind.kinds import Binding, Kind


def _references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """Voices that this account may not use; the database is queried only if the request names any."""
    faults = []
    for name in BOUND_VOICES:
        voice_id = envelope.parameters.get(name)
        if isinstance(voice_id, str) and voice_id:
            fault = voices.usability_fault(
                tx,
                account_id=caller.account_id,
                voice_id=voice_id,
                param=f"parameters.{name}",
                speaks=name == "voice_id",
            )
            faults += [fault] if fault else []
    return faults


def _bind(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: SpeechParameters,
    defaults: Mapping[str, Any],
) -> Binding:
    """The parameters with the defaults of the voice, and what the job keeps of each voice: null for none.

    A saved preference has no effect here: it is the studio's.
    """
    bound = {name: _bind_voice(tx, caller, name, parameters) for name in BOUND_VOICES}
    speaker = bound["voice_id"]
    values = resolved(parameters, None if speaker is None else speaker.default_parameters)
    for name, voice in bound.items():
        values[BOUND_VOICES[name]] = None if voice is None else voice.frozen
    blobs = {voice.frozen["blob_id"] for voice in bound.values() if voice is not None}
    text = parameters.text
    return Binding(
        values, tuple(sorted(blobs)), characters=len(text), text=text, voice_id=parameters.voice_id
    )


def _bind_voice(
    tx: Transaction, caller: Caller, name: str, parameters: SpeechParameters
) -> BoundVoice | None:
    voice_id = getattr(parameters, name)
    if voice_id is None:
        return None
    bound = voices.bind(tx, account_id=caller.account_id, voice_id=voice_id)
    if bound is None:
        # It was deleted since `references` looked.
        raise InvalidRequest([voices.unknown_voice(f"parameters.{name}")])
    return bound


KIND = Kind(
    name="speech",
    place=1,
    media_type=run.MEDIA_TYPE,
    fields=FIELDS,
    check=check_job,
    references=_references,
    bind=_bind,
    run=run.run,
    read_result=run.read_result,
    price=Price(),
    slots=lambda settings: settings.of(SpeechSettings).speech_slots,
    limits={"text_bytes": MAX_TEXT_BYTES},
    has_duration=True,
    takes_voices=True,
)
