"""Recognition: its parameters, their bounds and what must stand beside them.

The struct declares each parameter once; documents, `openapi.yaml`, the client and the studio are tested
against it. Nothing here knows
whether an input exists, whose it is, or how speech is recognised.
"""

from typing import Annotated

import msgspec

from tenuto.bodies.envelope import Envelope
from tenuto.bodies.fields import Number, Text, Texts, by_name, declared, read_fields
from tenuto.errors import Fault

MAX_LANGUAGE_CHARACTERS = 16
MAX_CONTEXT_CHARACTERS = 20_000
MAX_HOTWORDS = 200
MAX_HOTWORD_CHARACTERS = 100
MAX_OFFSET_S = 7200


class RecognitionParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The sound parameters of a recognition job; `context` and `hotwords` end here."""

    language: Annotated[
        str,
        Text(MAX_LANGUAGE_CHARACTERS, "characters"),
        "The language for the second engine; the first detects it by itself.",
    ] = "zh"
    context: Annotated[
        str | None,
        Text(MAX_CONTEXT_CHARACTERS, "characters", may_be_empty=True),
        "Accepted and kept with the request; no engine gets it.",
    ] = None
    hotwords: Annotated[
        list[str] | None,
        Texts(MAX_HOTWORDS, Text(MAX_HOTWORD_CHARACTERS, "characters")),
        "Accepted and kept with the request; no engine gets them.",
    ] = None
    source_offset_seconds: Annotated[
        float, Number(0, MAX_OFFSET_S), "Echoed in the result's timeline; it shifts no timestamp."
    ] = 0.0


FIELDS = declared(RecognitionParameters)
_BY_NAME = by_name(FIELDS)


def check_job(envelope: Envelope) -> tuple[RecognitionParameters | None, list[Fault]]:
    """The parameters of a whole request, and all that is wrong with them and with its inputs."""
    faults: list[Fault] = []
    kept = read_fields(_BY_NAME, envelope.parameters, "parameters.", faults)
    parameters = None if faults else RecognitionParameters(**kept)
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
