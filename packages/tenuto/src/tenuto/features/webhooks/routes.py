"""Webhooks over HTTP: create, list, change and test them, and list and repeat their deliveries.

A key that is restricted to models creates webhooks for jobs of those models only, and sees no others.
"""

from collections.abc import Mapping
from secrets import token_bytes
from typing import Any

from msgspec.structs import asdict

from tenuto import strict_json
from tenuto.account.caller import Caller
from tenuto.api import query
from tenuto.api.answers import Answer, json_answer, json_list
from tenuto.api.call import Call, Routes
from tenuto.api.json_body import require_json
from tenuto.config import Settings
from tenuto.db.database import Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import Fault, Forbidden, InvalidRequest
from tenuto.features.webhooks import operations as webhooks
from tenuto.features.webhooks import rules
from tenuto.features.webhooks.settings import WebhookSettings
from tenuto.rules import Boolean, Choice, Field, Text, Texts, read_fields, wrong_type

_URL = Text(rules.MAX_URL_CHARACTERS, "characters")
_EVENTS = Texts(len(rules.EVENTS), Text(40, "characters"))
_DESCRIPTION = Text(rules.MAX_DESCRIPTION_CHARACTERS, "characters", may_be_empty=True)
_CREATED = {
    "url": Field("url", _URL, "where to", required=True),
    "events": Field("events", _EVENTS, "of which events", required=True),
    "description": Field("description", _DESCRIPTION, "for people"),
}
_CHANGED = {
    **{name: Field(name, field.rule, field.meaning) for name, field in _CREATED.items()},
    "enabled": Field("enabled", Boolean(), "whether anything is sent"),
}
_LIST: query.Rules = {"after": query.cursor("delivery"), "limit": query.LIMIT}


async def create(call: Call) -> Answer:
    """POST /v1/webhooks: 201, with the secret, which no later answer contains."""
    caller = await _admitted(call)
    fields = await _fields(call, _CREATED)
    service, now_ms = call.service, call.service.clock()
    webhook_id, secret = service.ids.new("webhook"), _new_secret()
    webhook = await write_known_async(
        service.database,
        lambda tx: webhooks.create(
            tx,
            caller,
            webhook_id=webhook_id,
            secret=secret,
            url=fields["url"],
            events=fields["events"],
            description=fields.get("description", ""),
            now_ms=now_ms,
        ),
        account_id=caller.account_id,
        is_repeatable=False,
    )
    return json_answer(201, asdict(webhook) | {"secret": secret})


async def index(call: Call) -> Answer:
    """GET /v1/webhooks: all of them, oldest first."""
    _require_on(call, await call.authenticate())
    return json_list(await call.read_again(webhooks.listed))


async def show(call: Call) -> Answer:
    """GET /v1/webhooks/{id}."""
    caller = await _admitted(call)
    webhook_id = call.path_id("webhook_id", "webhook")
    return json_answer(
        200, await call.service.database.read_async(lambda tx: webhooks.get(tx, caller, webhook_id))
    )


async def change(call: Call) -> Answer:
    """PATCH /v1/webhooks/{id}: set the given fields; enabling a disabled webhook clears its failures."""
    caller = await _admitted(call)
    fields = await _fields(call, _CHANGED)
    webhook_id = call.path_id("webhook_id", "webhook")
    return json_answer(
        200,
        await call.service.database.write_async(
            lambda tx: webhooks.change(tx, caller, webhook_id, fields), account_id=caller.account_id
        ),
    )


async def delete(call: Call) -> Answer:
    """DELETE /v1/webhooks/{id}: nothing more is sent, not even messages already waiting."""
    caller = await _admitted(call)
    await call.read_body()
    webhook_id = call.path_id("webhook_id", "webhook")
    await call.service.database.write_async(
        lambda tx: webhooks.delete(tx, caller, webhook_id), account_id=caller.account_id
    )
    return json_answer(200, {"id": webhook_id, "object": "webhook", "deleted": True})


async def rotate(call: Call) -> Answer:
    """POST /v1/webhooks/{id}/rotate: a new secret; for a day, the old one signs as well."""
    caller = await _admitted(call)
    await call.read_body()
    webhook_id, now_ms = call.path_id("webhook_id", "webhook"), call.service.clock()
    secret = _new_secret()
    webhook = await write_known_async(
        call.service.database,
        lambda tx: webhooks.rotate(tx, caller, webhook_id, secret=secret, now_ms=now_ms),
        account_id=caller.account_id,
        is_repeatable=False,
    )
    return json_answer(200, asdict(webhook) | {"secret": secret})


async def test(call: Call) -> Answer:
    """POST /v1/webhooks/{id}/test: 202 with the delivery of an empty test message."""
    caller = await _admitted(call)
    await call.read_body()
    service, now_ms = call.service, call.service.clock()
    webhook_id, delivery_id = call.path_id("webhook_id", "webhook"), service.ids.new("delivery")

    def send(tx: Transaction) -> webhooks.Delivery:
        return webhooks.test(tx, caller, webhook_id, delivery_id=delivery_id, now_ms=now_ms)

    account_id = caller.account_id
    delivery = await write_known_async(service.database, send, account_id=account_id, is_repeatable=False)
    service.database.wake("changes")
    return json_answer(202, delivery)


async def deliveries(call: Call) -> Answer:
    """GET /v1/webhooks/{id}/deliveries, newest first."""
    caller = await _admitted(call)
    filters = query.read_query(call, _LIST)
    webhook_id = call.path_id("webhook_id", "webhook")

    def find(tx: Transaction) -> tuple[list[webhooks.Delivery], str | None]:
        limit = query.limit_of(filters)
        return webhooks.deliveries(tx, caller, webhook_id, after=filters.get("after"), limit=limit)

    return json_list(*await call.service.database.read_async(find))


async def redeliver(call: Call) -> Answer:
    """POST /v1/webhooks/{id}/deliveries/{id}/redeliver: 202; the message goes out again under its own id."""
    caller = await _admitted(call)
    await call.read_body()
    service, now_ms = call.service, call.service.clock()
    webhook_id = call.path_id("webhook_id", "webhook")
    delivery_id = call.path_id("delivery_id", "delivery")

    def send(tx: Transaction) -> webhooks.Delivery:
        return webhooks.redeliver(tx, caller, webhook_id, delivery_id, now_ms=now_ms)

    # Done twice, it is still one message under one id.
    delivery = await write_known_async(service.database, send, account_id=caller.account_id)
    service.database.wake("changes")
    return json_answer(202, delivery)


def _new_secret() -> str:
    return rules.secret_of(token_bytes(rules.SECRET_BYTES))


async def _admitted(call: Call) -> Caller:
    caller = await call.authenticate()
    _require_on(call, caller)
    return caller


def _require_on(call: Call, caller: Caller) -> None:
    if call.service.settings.of(WebhookSettings).webhooks == "off":
        raise Forbidden("webhooks are switched off here; the operator's setting `webhooks` can allow them")


async def _fields(call: Call, known: Mapping[str, Field]) -> dict[str, Any]:
    """The fields of a body; InvalidRequest with all faults."""
    require_json(call)
    value = strict_json.parse(await call.read_body())
    if type(value) is not dict:
        raise InvalidRequest([wrong_type("body", value, "an object")])
    faults: list[Fault] = []
    fields = read_fields(known, value, "", faults)
    if "events" in fields:
        faults += _events_faults(fields["events"])
    if "url" in fields:
        fault = rules.url_fault(
            fields["url"], is_public=call.service.settings.of(WebhookSettings).webhooks == "public"
        )
        faults += [fault] if fault is not None else []
    if faults:
        raise InvalidRequest(faults)
    return fields


def _events_faults(events: list[str]) -> list[Fault]:
    """At least one event, each known and named once."""
    faults: list[Fault] = []
    for number, event in enumerate(events):
        Choice(rules.EVENTS).read(f"events[{number}]", event, faults)
    if not events:
        names = ", ".join(rules.EVENTS)
        faults.append(Fault("events", "empty", f"is empty; name at least one of {names}"))
    elif len(set(events)) < len(events):
        faults.append(Fault("events", "not_allowed", "names an event twice"))
    return faults


def routes(settings: Settings) -> Routes:
    """The routes of webhooks."""
    return {
        "/v1/webhooks": {"GET": index, "POST": create},
        "/v1/webhooks/{webhook_id}": {"GET": show, "PATCH": change, "DELETE": delete},
        "/v1/webhooks/{webhook_id}/test": {"POST": test},
        "/v1/webhooks/{webhook_id}/rotate": {"POST": rotate},
        "/v1/webhooks/{webhook_id}/deliveries": {"GET": deliveries},
        "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": {"POST": redeliver},
    }
