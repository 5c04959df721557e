"""The kind: a text becomes a text in capitals."""

from collections.abc import Mapping
from typing import Any

from tenuto.account.caller import Caller
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.errors import Fault
from tenuto.host.host import HostResult
from tenuto.kind.envelope import Envelope
from tenuto.kind.kinds import Binding, Kind, SuppliedResult
from tenuto.rules import Field, Integer, Text, by_name, read_fields
from tenuto.worker.engine_calls import EngineCalls, ResultInvalid

FIELDS = (
    Field("text", Text(100, "characters"), "What is shouted.", required=True),
    Field("times", Integer(1, 5), "How often.", default=1),
)


def check(envelope: Envelope) -> tuple[dict[str, Any] | None, list[Fault]]:
    """The parameters, or all that is wrong with them."""
    faults: list[Fault] = []
    parameters = read_fields(by_name(FIELDS), envelope.parameters, "parameters.", faults)
    return (None, faults) if faults else ({"times": 1, **parameters}, faults)


def references(tx: Transaction, caller: Caller, envelope: Envelope) -> list[Fault]:
    """It refers to nothing."""
    return []


def bind(
    tx: Transaction,
    caller: Caller,
    envelope: Envelope,
    parameters: dict[str, Any],
    defaults: Mapping[str, Any],
) -> Binding:
    """The parameters as they are."""
    return Binding(parameters)


def run(calls: EngineCalls) -> HostResult:
    """The engine's text, if it is in capitals."""
    result = calls.run(calls.claim.parameters, {})
    if result.media_type != "text/plain" or not result.content.isupper():
        raise ResultInvalid("the engine did not shout")
    return result


def supplied(content: bytes, parameters: dict[str, Any]) -> SuppliedResult:
    """Whatever an operator has."""
    return SuppliedResult(content, "text/plain", {}, None)


KIND = Kind(
    name="shout",
    media_type="text/plain",
    fields=FIELDS,
    check=check,
    references=references,
    bind=bind,
    run=run,
    read_result=supplied,
    price=Price("job", price_micros=70_000, hold_micros=90_000),
    slots=lambda settings: 1,
    limits={"text_characters": 100},
)
