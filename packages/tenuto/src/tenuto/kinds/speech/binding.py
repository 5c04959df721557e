"""The voices that a speech job refers to, looked up once and frozen into its parameters."""

from collections.abc import Mapping
from typing import Any

from tenuto.accounts.rules import Caller
from tenuto.bodies.envelope import Envelope
from tenuto.catalog.kinds import Binding
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest
from tenuto.kinds.speech import parameters as rules
from tenuto.kinds.speech.parameters import SpeechParameters
from tenuto.voices import operations as voices
from tenuto.voices.operations import BoundVoice

BOUND_VOICES: Mapping[str, str] = {"voice_id": "voice", "emotion_voice_id": "emotion_voice"}
"""Parameters that name voices, and under which name the engine gets what is bound for each."""


def references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """Voices that there are not for this account; a request without any asks the database nothing."""
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


def bind(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: SpeechParameters,
    defaults: Mapping[str, Any],
) -> Binding:
    """The parameters with the defaults of the voice, and of each voice what the job keeps: null for none.

    A saved preference is not looked at: it is the studio's.
    """
    found = {name: _bind_voice(tx, caller, name, parameters) for name in BOUND_VOICES}
    speaker = found["voice_id"]
    resolved = rules.resolved(parameters, None if speaker is None else speaker.default_parameters)
    for name, bound in found.items():
        resolved[BOUND_VOICES[name]] = None if bound is None else bound.frozen
    blobs = {bound.frozen["blob_id"] for bound in found.values() if bound is not None}
    return Binding(resolved, tuple(sorted(blobs)), characters=len(parameters.text))


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
