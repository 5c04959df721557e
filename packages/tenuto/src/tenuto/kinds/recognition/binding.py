"""The recording that a recognition job refers to, looked up once and frozen into its parameters."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tenuto.accounts.rules import Caller
from tenuto.artifacts import inputs
from tenuto.artifacts.inputs import INPUT_MEDIA_TYPE
from tenuto.bodies.envelope import Envelope
from tenuto.catalog.kinds import Binding
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest
from tenuto.kinds.recognition.parameters import RecognitionParameters

_UNKNOWN_INPUT = Fault(
    "input_artifact_ids",
    "unknown_input",
    "names no FLAC that this account has uploaded with POST /v1/input-artifacts",
)


def references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """The input, if just one is named, that is none of this account's; results are no inputs."""
    ids = envelope.input_artifact_ids or ()
    if len(ids) != 1 or inputs.is_usable(
        tx, account_id=caller.account_id, artifact_id=ids[0], media_type=INPUT_MEDIA_TYPE
    ):
        return []
    return [_UNKNOWN_INPUT]


def bind(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: RecognitionParameters,
    defaults: Mapping[str, Any],
) -> Binding:
    """What has an effect; the caller's context and hotwords stay in the accepted body."""
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
            "input": msgspec.structs.asdict(bound),
        }
    )
