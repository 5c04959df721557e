"""The catalog over HTTP: the models that this key may use, and whether they can be called now."""

from typing import Any

from tenuto.api.answers import Answer, json_list
from tenuto.api.call import Call
from tenuto.api.service import Service
from tenuto.db.database import Transaction
from tenuto.host.registry import engines_of
from tenuto.kind import operations as catalog
from tenuto.kind.kinds import kinds
from tenuto.kind.model import MILLION_TOKENS, Model
from tenuto.money.rules import cny

SWITCHED_OFF = "switched off by the operator"
NOT_RUN = "nothing in this service runs it"
CREATED = 1_763_683_200
"""When the catalog began, in unix seconds: OpenAI's clients expect a time."""


async def index(call: Call) -> Answer:
    """GET /v1/models, in OpenAI's list format, with what jobs need in addition."""
    service = call.service

    def find(tx: Any, caller: Any) -> list[dict[str, Any]]:
        visible = [model for model in service.models.values() if caller.may_use(model.name)]
        return [describe(model, reason) for model, reason in as_offered(service, tx, visible)]

    return json_list(await call.read(find))


def as_offered(service: Service, tx: Transaction, models: list[Model]) -> list[tuple[Model, str | None]]:
    """Each model at its current price, with None if it is callable, else the reason why it is not."""
    worked = [model.name for model in models if model.interface == "jobs"]
    reasons = catalog.reasons(tx, worked, away=service.presence.away)
    # All others run in this process, so it knows their state itself.
    others = [model.name for model in models if model.interface != "jobs"]
    reasons |= {name: service.reasons[name]() if name in service.reasons else NOT_RUN for name in others}
    return [
        (model, reasons[model.name] if is_on else SWITCHED_OFF) for model, is_on in catalog.as_set(tx, models)
    ]


def reasons(service: Service, tx: Transaction, models: list[Model]) -> dict[str, str | None]:
    """For each model None if it is callable, else the reason why it is not."""
    return {model.name: reason for model, reason in as_offered(service, tx, models)}


def _limits(model: Model) -> dict[str, Any]:
    """The limits of a job: those of its kind, overridden by its model's. A chat's bounds are not listed."""
    usual = kinds()[model.kind].limits if model.interface == "jobs" else {}
    return {**usual, **model.entry.limits}


def _pricing(model: Model) -> dict[str, Any]:
    price = model.price
    pricing = {
        "currency": "CNY",
        "unit": price.unit,
        "price": cny(price.price_micros),
        "hold": cny(price.hold_micros),
    }
    if price.unit == MILLION_TOKENS:
        pricing["output_price"] = cny(price.output_price_micros)
    return pricing


def describe(model: Model, reason: str | None) -> dict[str, Any]:
    """An entry of the catalog."""
    return {
        "id": model.name,
        "object": "model",
        "created": CREATED,
        "owned_by": model.name.partition("/")[0],
        "interface": model.interface,
        "kind": model.kind,
        "callable": reason is None,
        "callable_reason": reason,
        "languages": list(model.entry.languages),
        "limits": _limits(model),
        "pricing": _pricing(model),
        "engines": [
            {"model_id": engine.model, "model_revision": engine.revision}
            for engine in engines_of(model.entry)
        ],
        "honoured_parameters": list(model.entry.honoured),
        "notes": list(model.entry.notes),
        "parameter_count": model.entry.parameter_count or None,
        "demo": model.entry.demo,
    }
