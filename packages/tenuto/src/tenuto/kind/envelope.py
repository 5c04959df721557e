"""The top level of a job's body: the same for every kind.

Nothing here knows which models there are, or what the parameters of a kind must be.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from tenuto.errors import Fault
from tenuto.rules import Field, Text, Texts, by_name, read_fields, short, wrong_type

MAX_MODEL_CHARACTERS = 200
MAX_ID_CHARACTERS = 100
MAX_METADATA_PAIRS = 16
MAX_METADATA_NAME_CHARACTERS = 64
MAX_METADATA_VALUE_CHARACTERS = 512


class _Object:
    """An object whose members the kind checks."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, "an object"))
        return value


class Metadata:
    """The caller's own notes: a few pairs of strings, kept as they are."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, "an object of strings"))
            return value
        if len(value) > MAX_METADATA_PAIRS:
            message = f"has {len(value)} pairs; at most {MAX_METADATA_PAIRS} are allowed"
            faults.append(Fault(param, "too_long", message))
        for name, text in islice(value.items(), MAX_METADATA_PAIRS):
            faults.extend(_pair_faults(f"{param}.{short(name)}", name, text))
        return value


def _pair_faults(param: str, name: str, text: Any) -> list[Fault]:
    faults: list[Fault] = []
    if len(name) > MAX_METADATA_NAME_CHARACTERS:
        message = f"has a name of {len(name)} characters; at most {MAX_METADATA_NAME_CHARACTERS} are allowed"
        faults.append(Fault(param, "too_long", message))
    Text(MAX_METADATA_VALUE_CHARACTERS, "characters", may_be_empty=True).read(param, text, faults)
    return faults


FIELDS: tuple[Field, ...] = (
    Field("model", Text(MAX_MODEL_CHARACTERS, "characters"), "The model's full public name.", required=True),
    Field("parameters", _Object(), "What the job is to do, as its kind defines it.", required=True),
    Field("input_artifact_ids", Texts(None, Text(MAX_ID_CHARACTERS, "characters")), "Its uploaded inputs."),
    Field("metadata", Metadata(), "Pairs of strings of the caller's own, given back with the job."),
)

_BY_NAME = by_name(FIELDS)


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The top level of a valid job body. `input_artifact_ids` is None if left out, which is not `[]`."""

    model: str
    parameters: Mapping[str, Any]
    input_artifact_ids: Sequence[str] | None = None
    metadata: Mapping[str, str] = {}


def check(body: Any) -> tuple[Envelope | None, list[Fault]]:
    """The top level of a body as far as it can be read, and all its faults.

    The envelope is None only if the model or the parameters can't be read. It may come with faults in the
    other fields, so that the parameters can be checked too and all faults are reported at once: accept it
    only without any.
    """
    if type(body) is not dict:
        return None, [wrong_type("body", body, "an object")]
    faults: list[Fault] = []
    values = read_fields(_BY_NAME, body, "", faults)
    if "model" not in values or "parameters" not in values:
        return None, faults
    return Envelope(**values), faults
