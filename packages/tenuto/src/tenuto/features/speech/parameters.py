"""Speech synthesis: its parameters, their defaults and the rules between them.

The struct declares each parameter once; documents, `openapi.yaml`, the client and the studio are tested
against it. Nothing here knows whether a voice exists, who asks, or how speech is made.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from tenuto.errors import Fault, InvalidRequest
from tenuto.features.voices.rules import LANGUAGES
from tenuto.kind.envelope import Envelope
from tenuto.rules import (
    Boolean,
    Choice,
    Integer,
    Number,
    Text,
    by_name,
    declared,
    read_fields,
    read_items,
    wrong_type,
)

MAX_TEXT_BYTES = 8192
MAX_EMO_TEXT_BYTES = 2048
MAX_VOICE_ID_CHARACTERS = 100
EMOTIONS = ("happy", "angry", "sad", "fear", "disgust", "low", "surprise", "calm")

BOUND_VOICES: Mapping[str, str] = {"voice_id": "voice", "emotion_voice_id": "emotion_voice"}
"""Parameters that name voices, and the argument under which the engine receives each recording."""

_VOICE = Text(MAX_VOICE_ID_CHARACTERS, "characters")


class Numbers(msgspec.Struct, frozen=True):
    """An array of `length` numbers, each within inclusive bounds; stored as floats."""

    length: int
    minimum: float
    maximum: float

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        expected = f"an array of {self.length} numbers"
        if type(value) is not list:
            faults.append(wrong_type(param, value, expected))
            return value
        if len(value) != self.length:
            faults.append(Fault(param, "wrong_length", f"has {len(value)} items; {expected} is expected"))
        return read_items(Number(self.minimum, self.maximum), param, value[: self.length], faults)


class SpeechParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The valid parameters of a speech job. A field not named in `explicit` holds the contract's default.

    Numbers are floats however they were written; `emo_vector` is in the order of `EMOTIONS`.
    """

    text: Annotated[
        str,
        Text(MAX_TEXT_BYTES, "bytes", ends_with_white_space=False),
        "What is spoken, verbatim; <character|pinyin with tone digit> sets a pronunciation.",
    ]
    stream: Annotated[bool, Boolean(), "Saves native segments for a preview while the job runs."] = False
    voice_id: Annotated[
        str | None, _VOICE, "A shared, official or own voice; left out, the server's fixed original voice."
    ] = None
    lang: Annotated[str, Choice(LANGUAGES), "The language of the text."] = "zh"
    duration_factor: Annotated[
        float, Number(0.5, 2), "Length of what is generated; larger is slower. Not a playback speed."
    ] = 1.0
    emotion_voice_id: Annotated[
        str | None,
        _VOICE,
        "A voice used as emotion reference, not as speaker.",
    ] = None
    emo_alpha: Annotated[float, Number(0, 1), "Strength of the emotion reference."] = 1.0
    emo_vector: Annotated[
        list[float] | None,
        Numbers(len(EMOTIONS), 0, 1),
        f"Strength of each emotion, in the order {', '.join(EMOTIONS)}.",
    ] = None
    use_emo_text: Annotated[bool, Boolean(), "Takes the emotion from the text."] = False
    emo_text: Annotated[
        str | None,
        Text(MAX_EMO_TEXT_BYTES, "bytes", may_be_blank=False),
        "The text that the emotion is taken from; needs use_emo_text true.",
    ] = None
    use_random: Annotated[bool, Boolean(), "A random emotion style; not all of sampling."] = False
    interval_silence: Annotated[
        int, Integer(0, 2000, "milliseconds"), "Silence between the segments of the model."
    ] = 200
    max_text_tokens_per_segment: Annotated[
        int,
        Integer(20, 200, "tokens"),
        "Length of a model segment.",
    ] = 120
    text_normalization: Annotated[bool, Boolean(), "Reads numbers, dates and signs as words."] = True
    do_sample: Annotated[bool, Boolean(), "Samples instead of taking the likeliest."] = True
    top_p: Annotated[float, Number(0.01, 1), "Probability mass that sampling draws from."] = 0.8
    top_k: Annotated[int, Integer(1, 100), "How many candidates sampling draws from."] = 30
    temperature: Annotated[float, Number(0.1, 2), "Randomness of sampling."] = 0.8
    repetition_penalty: Annotated[float, Number(0.1, 20), "Penalty on repeated tokens."] = 10.0

    # The names that the caller sent, whatever the values: they take precedence over a voice's defaults.
    explicit: frozenset[str] = frozenset()


FIELDS = declared(SpeechParameters)
_BY_NAME = by_name(FIELDS)


def parse(parameters: Any) -> SpeechParameters:
    """The parameters of a speech job. Raises InvalidRequest with all their faults."""
    parsed, faults = check(parameters)
    if parsed is None:
        raise InvalidRequest(faults)
    return parsed


def check(parameters: Any) -> tuple[SpeechParameters | None, list[Fault]]:
    """The parameters, or None, and all their faults; a fault names `parameters.text` and so on."""
    faults: list[Fault] = []
    if type(parameters) is not dict:
        return None, [wrong_type("parameters", parameters, "an object")]
    values = read_fields(_BY_NAME, parameters, "parameters.", faults)
    if not parameters.keys().isdisjoint(_EMOTION_FIELDS):
        faults.extend(_emotion_faults(parameters))
    if faults:
        return None, faults
    return SpeechParameters(**values, explicit=frozenset(values)), faults


def check_job(envelope: Envelope) -> tuple[SpeechParameters | None, list[Fault]]:
    """The parameters, or None, and every fault of the request apart from its top level.

    Input artifacts, even `[]`, are a fault: the voice id binds all inputs (R98).
    """
    parameters, faults = check(envelope.parameters)
    if envelope.input_artifact_ids is not None:
        message = "must not be sent with a speech job: the voice id binds what it needs; leave it out"
        faults.append(Fault("input_artifact_ids", "not_allowed", message))
    return parameters, faults


def resolved(parameters: SpeechParameters, voice_defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    """Every parameter with its value for the job, as it is frozen into its record.

    What the caller sent comes first, then the defaults of the voice (the shared voice has some), then the
    contract's. The defaults of a voice are the operator's: one that breaks a rule is a bug.
    """
    values: dict[str, Any] = {name: getattr(parameters, name) for name in _BY_NAME}
    for name, default in (voice_defaults or {}).items():
        faults: list[Fault] = []
        value = _BY_NAME[name].rule.read(name, default, faults)
        assert not faults, faults
        if name not in parameters.explicit:
            values[name] = value
    return values


_EMOTION_FIELDS = frozenset({"emotion_voice_id", "emo_vector", "use_emo_text", "emo_text"})


def _emotion_faults(parameters: Mapping[str, Any]) -> list[Fault]:
    """Conflicts between the emotion fields: more than one mode (R93), emo_text without its mode (R82).

    `emo_vector` (of zeros too), `emotion_voice_id` and `use_emo_text: true` each switch a mode on, even where
    their value is faulty; null is a fault of its own and switches nothing on.
    """
    faults = []
    modes = [name for name in ("emotion_voice_id", "emo_vector") if parameters.get(name) is not None]
    use_emo_text = parameters.get("use_emo_text", False)
    if use_emo_text is True:
        modes.append("use_emo_text")
    if len(modes) > 1:
        for name in modes:
            others = " and ".join(mode for mode in modes if mode != name)
            message = f"excludes {others}; send one way to set the emotion"
            faults.append(Fault(f"parameters.{name}", "conflict", message))
    # A use_emo_text that is not a boolean has its own fault, and may have been meant as true.
    if use_emo_text is False and parameters.get("emo_text") is not None:
        message = "is used only with use_emo_text true; send that too or leave it out"
        faults.append(Fault("parameters.emo_text", "requires", message))
    return faults
