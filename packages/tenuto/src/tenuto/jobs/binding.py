"""What an accepted job refers to, looked up once and frozen into its parameters: voices, inputs, a seed.

One function a kind in `BINDINGS`; `reference_faults` names what the caller has not, also for a body that is
faulty otherwise. Nothing here checks the parameters themselves.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tenuto.accounts.rules import Caller
from tenuto.artifacts import inputs
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest
from tenuto.kinds import image, recognition, speech
from tenuto.kinds.envelope import Envelope
from tenuto.kinds.image import ImageParameters
from tenuto.kinds.recognition import RecognitionParameters
from tenuto.kinds.speech import SpeechParameters
from tenuto.voices import operations as voices
from tenuto.voices.operations import BoundVoice

Binding = Callable[[Transaction, Caller, Envelope, Any, Mapping[str, Any]], dict[str, Any]]
"""The last argument: what the model chooses where the caller leaves it out."""


def reference_faults(tx: Transaction, caller: Caller, kind: str, envelope: Envelope) -> list[Fault]:
    """The ids of a body that name nothing this caller may use, whatever else is wrong with it."""
    return _REFERENCES[kind](tx, caller, envelope)


def recordings(bound: Mapping[str, Any]) -> list[str]:
    """The blobs of the voices that a job was bound to, which it needs until it is final."""
    voices_bound = [bound[name] for name in _BOUND_VOICES.values() if bound.get(name) is not None]
    return sorted({voice["blob_id"] for voice in voices_bound})


def _speech_references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """Voices that there are not for this account; a request without any asks the database nothing."""
    faults = []
    for name in _BOUND_VOICES:
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


def _bind_speech(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: SpeechParameters,
    defaults: Mapping[str, Any],
) -> dict[str, Any]:
    """The parameters with the defaults of the voice, and of each voice what the job keeps: null for none.

    A saved preference is not looked at: it is the studio's.
    """
    found = {name: _bind_voice(tx, caller, name, parameters) for name in _BOUND_VOICES}
    speaker = found["voice_id"]
    resolved = speech.resolved(parameters, None if speaker is None else speaker.default_parameters)
    for name, bound in found.items():
        resolved[_BOUND_VOICES[name]] = None if bound is None else bound.frozen
    return resolved


def _bind_voice(
    tx: Transaction, caller: Caller, name: str, parameters: SpeechParameters
) -> BoundVoice | None:
    voice_id = getattr(parameters, name)
    if voice_id is None:
        return None
    bound = voices.bind(tx, account_id=caller.account_id, voice_id=voice_id)
    if bound is None:
        # It was deleted since `reference_faults` looked.
        raise InvalidRequest([voices.unknown_voice(f"parameters.{name}")])
    return bound


_BOUND_VOICES: Mapping[str, str] = {"voice_id": "voice", "emotion_voice_id": "emotion_voice"}
"""Parameters that name voices, and under which name the engine gets what is bound for each."""


def _recognition_references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """The input, if just one is named, that is none of this account's; results are no inputs."""
    ids = envelope.input_artifact_ids or ()
    if len(ids) != 1 or inputs.is_usable(
        tx, account_id=caller.account_id, artifact_id=ids[0], media_type=recognition.INPUT_MEDIA_TYPE
    ):
        return []
    return [_UNKNOWN_INPUT]


def _bind_recognition(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: RecognitionParameters,
    defaults: Mapping[str, Any],
) -> dict[str, Any]:
    """What has an effect; the caller's context and hotwords stay in the accepted body."""
    assert envelope.input_artifact_ids is not None, "checked with the parameters"
    bound = inputs.bind_input(
        tx,
        account_id=caller.account_id,
        artifact_id=envelope.input_artifact_ids[0],
        media_type=recognition.INPUT_MEDIA_TYPE,
    )
    if bound is None:
        raise InvalidRequest([_UNKNOWN_INPUT])
    return {
        "language": parameters.language,
        "source_offset_seconds": parameters.source_offset_seconds,
        "input": msgspec.structs.asdict(bound),
    }


_UNKNOWN_INPUT = Fault(
    "input_artifact_ids",
    "unknown_input",
    "names no FLAC that this account has uploaded with POST /v1/input-artifacts",
)


def _no_references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """An image refers to nothing."""
    return []


def _bind_image(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: ImageParameters,
    defaults: Mapping[str, Any],
) -> dict[str, Any]:
    """The caller's choices, the model's for the rest, and a seed that every attempt will use."""
    return image.resolved(parameters, defaults, secrets.randbelow)


_REFERENCES: Mapping[str, Callable[[Transaction, Caller, Envelope], list[Fault]]] = {
    "speech": _speech_references,
    "recognition": _recognition_references,
    "image": _no_references,
}

BINDINGS: Mapping[str, Binding] = {
    "speech": _bind_speech,
    "recognition": _bind_recognition,
    "image": _bind_image,
}
