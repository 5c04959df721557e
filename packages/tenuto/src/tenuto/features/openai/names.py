"""Names of models and voices that programs written for OpenAI use, and what they stand for here.

OpenAI's names are fixed in many programs, so each stands for something of ours. The API's lists leave them
out: a job keeps the full name, and the contract's own routes know no others.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from tenuto.account.caller import Caller
from tenuto.api.models import reasons
from tenuto.api.service import Service
from tenuto.db.damaged_text import decoded_json
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest
from tenuto.features.voices.rows import VoiceName
from tenuto.host.registry import engines_of
from tenuto.kind.model import Model
from tenuto.rules import short

_MODELS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"tts-1(-hd)?(-.*)?|gpt-4o(-mini)?-tts.*|kokoro"), "speech"),
    (re.compile(r"whisper-1|gpt-4o(-mini)?-transcribe.*"), "recognition"),
    (re.compile(r"dall-e-[23]|gpt-image-1.*"), "image"),
)
VOICES = (
    "alloy",
    "ash",
    "ballad",
    "coral",
    "echo",
    "fable",
    "onyx",
    "nova",
    "sage",
    "shimmer",
    "verse",
    "marin",
    "cedar",
)
"""OpenAI's voices. Each stands for one of the official voices of the text's language, in turn."""
UNCHOSEN = ("", "default", "auto")
MAX_NAMED = 40
"""Voices named in a refusal."""


def model_for(
    tx: Transaction, service: Service, caller: Caller, kind: str, requested: str, *, using: str = ""
) -> str:
    """`model_named` with the models of this service that are callable now."""
    visible = [
        model for model in service.models.values() if caller.may_use(model.name) and model.kind == kind
    ]
    offered = [name for name, reason in reasons(service, tx, visible).items() if reason is None]
    return model_named(service.models, caller, kind, requested, offered, using=using)


def model_named(
    models: Mapping[str, Model],
    caller: Caller,
    kind: str,
    requested: str,
    callable_: Iterable[str],
    *,
    using: str = "",
) -> str:
    """The full name of the model that a program means: `requested` if it is one, else what it stands for.

    OpenAI's names stand for the first model of their kind that this key may use: one that uses the parameter
    `using`, else a callable one if there is any; for recognition, only one with a single engine.
    InvalidRequest: a model of another kind.
    """
    if requested in models and caller.may_use(requested) and models[requested].kind != kind:
        listed = ", ".join(_fitting(models, caller, kind)) or "none"
        message = f"is not an available {kind} model; there are {listed}"
        raise InvalidRequest([Fault("model", "unknown_model", message)])
    names = next(pattern for pattern, of in _MODELS if of == kind)
    if requested in models or not names.fullmatch(requested.lower()):
        return requested
    fitting = _fitting(models, caller, kind)
    offered = set(callable_)
    able = [name for name in fitting if name in offered]
    best = [name for name in able if using in models[name].entry.honoured]
    return [*best, *able, *fitting, requested][0]


def voice_named(voices: Sequence[VoiceName], requested: str, language: str) -> str | None:
    """The id of the voice that a program means; None: the model's own. InvalidRequest lists what there is.

    An id, else a voice's name or one word of it, ignoring case, else one of OpenAI's names. An account's own
    voice takes precedence over one for everybody with the same name.
    """
    if requested.strip().lower() in UNCHOSEN:
        return None
    if any(voice.id == requested for voice in voices):
        return requested
    wanted = requested.strip().casefold()
    own_first = sorted(voices, key=lambda voice: voice.kind != "own")
    by_name = [voice for voice in own_first if wanted == voice.name.casefold()]
    by_word = [voice for voice in own_first if wanted in voice.name.casefold().split()]
    if by_name or by_word:
        return (by_name or by_word)[0].id
    if wanted in VOICES:
        return _official(voices, VOICES.index(wanted), language)
    raise InvalidRequest(
        [
            Fault(
                "voice",
                "unknown_voice",
                f"there is no voice {short(repr(requested))}; choose from {_listed(voices)}",
            )
        ]
    )


def languages_of(voice: VoiceName) -> list[str]:
    """The languages that a voice was made for; empty if unknown."""
    return decoded_json(voice.languages, list[str]) or []


def _fitting(models: Mapping[str, Model], caller: Caller, kind: str) -> list[str]:
    """The models that one of OpenAI's names may stand for."""
    return [
        model.name
        for model in models.values()
        if model.kind == kind
        and model.interface == "jobs"
        and caller.may_use(model.name)
        and (kind != "recognition" or len(engines_of(model.entry)) == 1)
    ]


def _official(voices: Sequence[VoiceName], number: int, language: str) -> str | None:
    official = [voice for voice in voices if voice.kind == "official" and language in languages_of(voice)]
    return official[number % len(official)].id if official else None


def _listed(voices: Sequence[VoiceName]) -> str:
    names = [voice.name for voice in voices[:MAX_NAMED]]
    more = f" and {len(voices) - MAX_NAMED} more" if len(voices) > MAX_NAMED else ""
    return ", ".join([*names, *VOICES]) + more
