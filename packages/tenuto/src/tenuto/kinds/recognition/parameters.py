"""Recognition: its parameters, their bounds and what must stand beside them.

The table `FIELDS` is what documents and the OpenAPI description are tested against. Nothing here knows
whether an input exists, whose it is, or how speech is recognised.
"""

from typing import Any

import msgspec

from tenuto.bodies.envelope import Envelope
from tenuto.bodies.fields import Field, Number, Text, by_name, read_fields, read_items, too_long, wrong_type
from tenuto.errors import Fault

MAX_LANGUAGE_CHARACTERS = 16
MAX_CONTEXT_CHARACTERS = 20_000
MAX_HOTWORDS = 200
MAX_HOTWORD_CHARACTERS = 100
MAX_OFFSET_S = 7200


class _Context:
    """A string that may be empty: nothing is done with it."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not str:
            faults.append(wrong_type(param, value, "a string"))
        else:
            faults.extend(too_long(param, value, MAX_CONTEXT_CHARACTERS, "characters"))
        return value


class _Hotwords:
    """An array of short strings, perhaps none."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not list:
            faults.append(wrong_type(param, value, "an array of strings"))
            return value
        if len(value) > MAX_HOTWORDS:
            message = f"has {len(value)} items; at most {MAX_HOTWORDS} are allowed"
            faults.append(Fault(param, "too_long", message))
        return read_items(Text(MAX_HOTWORD_CHARACTERS, "characters"), param, value[:MAX_HOTWORDS], faults)


FIELDS: tuple[Field, ...] = (
    Field(
        "language",
        Text(MAX_LANGUAGE_CHARACTERS, "characters"),
        "The language for the second engine; the first detects it by itself.",
        default="zh",
    ),
    Field("context", _Context(), "Accepted and kept with the request; no engine gets it."),
    Field("hotwords", _Hotwords(), "Accepted and kept with the request; no engine gets them."),
    Field(
        "source_offset_seconds",
        Number(0, MAX_OFFSET_S),
        "Echoed in the result's timeline; it shifts no timestamp.",
        default=0.0,
    ),
)

_BY_NAME = by_name(FIELDS)


class RecognitionParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What of a recognition job's parameters has an effect; `context` and `hotwords` end here."""

    language: str = "zh"
    source_offset_seconds: float = 0.0


def check_job(envelope: Envelope) -> tuple[RecognitionParameters | None, list[Fault]]:
    """The parameters of a whole request, and all that is wrong with them and with its inputs."""
    faults: list[Fault] = []
    kept = read_fields(_BY_NAME, envelope.parameters, "parameters.", faults)
    parameters = None
    if not faults:
        effective = RecognitionParameters.__struct_fields__
        parameters = RecognitionParameters(**{name: kept[name] for name in effective if name in kept})
    return parameters, [*faults, *_input_faults(envelope)]


def _input_faults(envelope: Envelope) -> list[Fault]:
    """A fault unless the request names exactly one input (R111)."""
    ids = envelope.input_artifact_ids
    if ids is not None and len(ids) == 1:
        return []
    if ids is None:
        said, code = "is missing; it is required", "required"
    else:
        said, code = f"has {len(ids)} items", "wrong_length"
    message = f"{said}: exactly one id of a FLAC that was uploaded with POST /v1/input-artifacts"
    return [Fault("input_artifact_ids", code, message)]
