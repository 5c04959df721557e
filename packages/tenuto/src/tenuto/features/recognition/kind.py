"""Recognition: a recording becomes two transcripts in one JSON.

The struct declares each parameter once; documents, `openapi.yaml`, the client and the studio are tested
against it. The recording that a job refers to is looked up once and frozen into its parameters. How speech is
recognised is in `run`.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from tenuto.account.caller import Caller
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest
from tenuto.features.recognition import run
from tenuto.features.recognition.recognise_chunk import MEDIA_TYPE
from tenuto.features.recognition.settings import RecognitionSettings
from tenuto.file import inputs
from tenuto.file.inputs import INPUT_MEDIA_TYPE, MAX_INPUT_BYTES, MAX_INPUT_SECONDS
from tenuto.kind.envelope import Envelope
from tenuto.kind.kinds import Binding, Kind
from tenuto.rules import Number, Text, Texts, by_name, declared, read_fields

MAX_LANGUAGE_CHARACTERS = 16
MAX_CONTEXT_CHARACTERS = 20_000
MAX_HOTWORDS = 200
MAX_HOTWORD_CHARACTERS = 100
MAX_OFFSET_S = 7200

_UNKNOWN_INPUT = Fault(
    "input_artifact_ids",
    "unknown_input",
    "names no FLAC that this account has uploaded with POST /v1/input-artifacts",
)


class RecognitionParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The valid parameters of a recognition job; no engine gets `context` or `hotwords`."""

    language: Annotated[
        str,
        Text(MAX_LANGUAGE_CHARACTERS, "characters"),
        "The language for the second engine, or auto to detect it; the first always detects it.",
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


def _check(envelope: Envelope) -> tuple[RecognitionParameters | None, list[Fault]]:
    """The parameters, or None, and every fault of them and of the request's inputs."""
    faults: list[Fault] = []
    values = read_fields(_BY_NAME, envelope.parameters, "parameters.", faults)
    parameters = None if faults else RecognitionParameters(**values)
    return parameters, [*faults, *_input_faults(envelope)]


def _input_faults(envelope: Envelope) -> list[Fault]:
    """A fault unless the request names exactly one input (R111)."""
    ids = envelope.input_artifact_ids
    if ids is not None and len(ids) == 1:
        return []
    if ids is None:
        fault, code = "is missing; it is required", "required"
    else:
        fault, code = f"has {len(ids)} items", "wrong_length"
    message = f"{fault}: exactly one id of a FLAC that was uploaded with POST /v1/input-artifacts"
    return [Fault("input_artifact_ids", code, message)]


def _references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """A fault if exactly one input is named and is not an upload of this account; results are not inputs."""
    ids = envelope.input_artifact_ids or ()
    if len(ids) != 1 or inputs.is_usable(
        tx, account_id=caller.account_id, artifact_id=ids[0], media_type=INPUT_MEDIA_TYPE
    ):
        return []
    return [_UNKNOWN_INPUT]


def _bind(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: RecognitionParameters,
    defaults: Mapping[str, Any],
) -> Binding:
    """The parameters that have an effect; the caller's context and hotwords stay in the accepted body."""
    assert envelope.input_artifact_ids is not None, "checked with the parameters"
    bound = inputs.bind_input(
        tx,
        account_id=caller.account_id,
        artifact_id=envelope.input_artifact_ids[0],
        media_type=INPUT_MEDIA_TYPE,
    )
    if bound is None:
        raise InvalidRequest([_UNKNOWN_INPUT])
    return Binding(
        {
            "language": parameters.language,
            "source_offset_seconds": parameters.source_offset_seconds,
            "input": bound.frozen(),
        },
        text=bound.name or "",
    )


KIND = Kind(
    name="recognition",
    place=2,
    media_type=MEDIA_TYPE,
    fields=FIELDS,
    check=_check,
    references=_references,
    bind=_bind,
    run=run.run,
    read_result=run.read_result,
    # 6 CNY pay for 120 minutes, the longest recording.
    price=Price("audio_minute", price_micros=50_000, hold_micros=6_000_000),
    slots=lambda settings: settings.of(RecognitionSettings).recognition_slots,
    limits={"input_bytes": MAX_INPUT_BYTES, "input_seconds": MAX_INPUT_SECONDS},
    has_duration=True,
    takes_inputs=True,
    # They use the engine in turn, chunk by chunk.
    jobs_at_once=8,
)
