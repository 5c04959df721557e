"""What an accepted job refers to, looked up once and frozen into its parameters: voices, inputs, a seed.

One function a kind in `BINDINGS`; `reference_faults` names what the caller has not, also for a body that is
faulty otherwise. Nothing here checks the parameters themselves.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tenuto.accounts.rules import Caller
from tenuto.db.database import Transaction
from tenuto.errors import Fault
from tenuto.kinds import speech
from tenuto.kinds.envelope import Envelope
from tenuto.kinds.speech import SpeechParameters

Binding = Callable[[Transaction, Caller, Envelope, Any], dict[str, Any]]


def reference_faults(tx: Transaction, caller: Caller, kind: str, envelope: Envelope) -> list[Fault]:
    """The ids of a body that name nothing this caller may use, whatever else is wrong with it."""
    return _REFERENCES[kind](tx, caller, envelope)


def _speech_references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """No voice but the original one is there yet, and it has no id: every id is unknown."""
    return [
        Fault(
            f"parameters.{name}",
            "unknown_voice",
            "there is no voice with this id; leave it out for the original voice",
        )
        for name in ("voice_id", "emotion_voice_id")
        if isinstance(envelope.parameters.get(name), str) and envelope.parameters[name]
    ]


def _bind_speech(
    tx: Transaction, caller: Caller, envelope: Envelope, parameters: SpeechParameters
) -> dict[str, Any]:
    return speech.resolved(parameters, None)


_REFERENCES: Mapping[str, Callable[[Transaction, Caller, Envelope], list[Fault]]] = {
    "speech": _speech_references,
}

BINDINGS: Mapping[str, Binding] = {
    "speech": _bind_speech,
}
