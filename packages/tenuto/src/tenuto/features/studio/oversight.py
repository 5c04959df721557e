"""The operator's view of the running service over HTTP: models, with switches and prices; statistics; and the
newest events of this process's log, none of which contains a text or a key.
"""

import os
import socket
from typing import Any

from msgspec.structs import asdict

from tenuto import logs
from tenuto.api import models, query
from tenuto.api.answers import Answer, json_answer, json_list
from tenuto.api.call import Call
from tenuto.db.damaged_text import text_of
from tenuto.db.database import Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import Fault, InvalidRequest, OperatorError
from tenuto.features.history import usage
from tenuto.features.history.rows import DAY_MS, iso_day
from tenuto.features.history.usage import SLOTS, Statistics, Tally
from tenuto.features.models.background import Progress
from tenuto.features.studio.api_keys import seconds
from tenuto.features.studio.operator import engine_state
from tenuto.features.studio.studio import OrNull, Studio, operator_of, read_object
from tenuto.host.registry import weights_of
from tenuto.kind import operations as catalog
from tenuto.kind.model import Model
from tenuto.kind.rows import ModelChangeRow
from tenuto.money.rules import MAX_CNY, MICROS_PER_CNY, cny
from tenuto.rules import Boolean, Choice, Field, Integer, Text, by_name, quoted

MAX_MODEL_CHARACTERS = 200

_PRICE = OrNull(Integer(0, MAX_CNY * MICROS_PER_CNY))
_CHANGE = by_name([
    Field("model", Text(MAX_MODEL_CHARACTERS, "characters"), "which model", required=True),
    Field("enabled", Boolean(), "whether jobs and chats are accepted for it", required=True),
    Field("price_micros", _PRICE, "of its unit; null: as in the settings file", required=True),
])  # fmt: skip


_PULL = by_name([
    Field("model", Text(MAX_MODEL_CHARACTERS, "characters"), "whose weights", required=True),
])  # fmt: skip
_PERIOD: query.Rules = {"period": Choice(tuple(SLOTS))}
_LOG: query.Rules = {
    "level": Choice(("info", "warning", "error")),
    "event": query.text("the beginning of an event's name"),
    "limit": Integer(1, logs.RECENT),
}
DEFAULT_EVENTS = "200"


async def list_models(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/models: every model that is offered, with each worker's report on its engine."""
    await operator_of(studio, call)
    return json_list(await call.service.database.read_async(lambda tx: _models(call, tx)))


async def change_model(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/models: switch a model on or off and price it, for work accepted from then on."""
    operator = await operator_of(studio, call)
    sent = await read_object(call, _CHANGE)
    service, now_ms = call.service, call.service.clock()
    model = service.models.get(sent["model"])
    if faults := _faults(sent, model, service.models):
        raise InvalidRequest(faults)

    def write(tx: Transaction) -> list[dict[str, Any]]:
        catalog.set_model(
            tx,
            service.ids,
            sent["model"],
            is_enabled=sent["enabled"],
            price_micros=sent["price_micros"],
            operator=operator.name,
            now_ms=now_ms,
        )
        return _models(call, tx)

    listed = await write_known_async(service.database, write)
    return json_answer(200, next(each for each in listed if each["id"] == sent["model"]))


async def list_changes(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/changes: who changed which model, newest first."""
    await operator_of(studio, call)
    limit = query.limit_of(query.read_query(call, {"limit": query.LIMIT}))
    changes = await call.service.database.read_async(lambda tx: catalog.model_changes(tx, limit))
    return json_list([_change(each) for each in changes])


def _faults(sent: dict[str, Any], model: Model | None, known: dict[str, Model]) -> list[Fault]:
    if model is None:
        message = f"{quoted(sent['model'])} is not a model; there are {', '.join(known)}"
        return [Fault("model", "unknown_model", message)]
    if sent["price_micros"] is not None and model.interface != "jobs":
        return [
            Fault(
                "price_micros",
                "not_allowed",
                "must be null: it is set in the settings file, as input_price and output_price",
            )
        ]
    if sent["price_micros"] is not None and model.is_free:
        return [Fault("price_micros", "not_allowed", "must be null: the setting prices is `free`")]
    return []


def _models(call: Call, tx: Transaction) -> list[dict[str, Any]]:
    service = call.service
    settings = {each.model: each for each in catalog.model_settings(tx)}
    offers = [
        (offer.model, {"worker_id": offer.worker_id, **engine_state(offer)})
        for worker in catalog.workers(tx)
        for offer in catalog.worker_models(tx, worker.id)
    ]
    listed = []
    for model, reason in models.as_offered(service, tx, list(service.models.values())):
        setting = settings.get(model.name)
        listed.append(
            models.describe(model, reason)
            | {
                "enabled": setting is None or bool(setting.is_enabled),
                "price_micros": None if setting is None else setting.price_micros,
                "settings_price": cny(service.models[model.name].price.price_micros),
                "may_be_priced": model.interface == "jobs" and not model.is_free,
                "workers": [offer for name, offer in offers if name == model.name],
            }
        )
    return listed


def _change(change: ModelChangeRow) -> dict[str, Any]:
    return {
        "id": change.id,
        "object": "model_change",
        "model": text_of(change.model),
        "operator": text_of(change.operator),
        "enabled": bool(change.is_enabled),
        "price_micros": change.price_micros,
        "at": seconds(change.at),
    }


async def begin_pull(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/pull: 202; a model's weights are downloaded to this machine, one model at a time."""
    await operator_of(studio, call)
    sent = await read_object(call, _PULL)
    service = call.service
    model = service.models.get(sent["model"])
    if model is None or not weights_of(model.entry):
        having = [name for name, each in service.models.items() if weights_of(each.entry)]
        message = f"{quoted(sent['model'])} has no weights to download; {', '.join(having) or 'no model'} has"
        raise InvalidRequest([Fault("model", "unknown_model", message)])
    names, cache = weights_of(model.entry), service.settings.cache
    try:
        begun = await call.beside(service.readers, lambda: studio.pull.begin(model.name, names, cache))
    except OperatorError as error:
        raise InvalidRequest([Fault("model", "conflict", error.message)]) from error
    return json_answer(202, _pull(begun))


async def show_pull(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/pull: the progress of the last download; its state is `none` if there was none."""
    await operator_of(studio, call)
    return json_answer(200, _pull(studio.pull.progress()))


async def stop_pull(studio: Studio, call: Call) -> Answer:
    """DELETE /web/operator/pull: stop the download; what has arrived is kept for the next one."""
    await operator_of(studio, call)
    return json_answer(200, _pull(studio.pull.stop()))


def _pull(progress: Progress | None) -> dict[str, Any]:
    told = {"model": None, "state": "none"} if progress is None else asdict(progress)
    return {"object": "pull", "host": socket.gethostname(), **told}


async def show_statistics(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/statistics: one period in slots, and its sums by day and model."""
    await operator_of(studio, call)
    period, now_ms = query.read_query(call, _PERIOD).get("period", "day"), call.service.clock()
    done = await call.report(lambda tx: usage.statistics(tx, period, now_ms=now_ms))
    return json_answer(200, _statistics(period, done))


def _statistics(period: str, done: Statistics) -> dict[str, Any]:
    width_s = done.width_ms // 1000
    days: dict[str, Tally] = {}
    for number, slot in enumerate(done.slots, done.first):
        day = days.setdefault(iso_day(number * done.width_ms // DAY_MS), Tally())
        day.jobs += slot.jobs
        day.charged_micros += slot.charged_micros
    return {
        "object": "statistics",
        "period": period,
        "slot_s": width_s,
        "from": done.first * width_s,
        "most_jobs": usage.MOST_JOBS,
        "complete_from": done.complete_from * width_s,
        "slots": [
            {"at": number * width_s, "queued": queued, **_tally(slot)}
            for number, (slot, queued) in enumerate(zip(done.slots, done.queued, strict=True), done.first)
        ],
        "models": [{"model": text_of(name), **_tally(tally)} for name, tally in done.models.items()],
        "days": [
            {"day": day, "jobs": tally.jobs, "charged_micros": tally.charged_micros}
            for day, tally in days.items()
        ],
    }


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        "finished": tally.jobs,
        "succeeded": tally.succeeded,
        "failed": tally.failed,
        "charged_micros": tally.charged_micros,
        "wait_p50_ms": tally.waits.percentile_ms(0.5),
        "wait_p95_ms": tally.waits.percentile_ms(0.95),
        "run_p50_ms": tally.runs.percentile_ms(0.5),
        "run_p95_ms": tally.runs.percentile_ms(0.95),
    }


async def show_log(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/log: newest first. Other processes and machines have their own logs."""
    await operator_of(studio, call)
    filters = query.read_query(call, _LOG)
    events = logs.recent_events.newest(
        level=filters.get("level", "info"),
        event=filters.get("event", ""),
        limit=int(filters.get("limit", DEFAULT_EVENTS)),
    )
    process = {"host": socket.gethostname(), "pid": os.getpid()}
    return json_list([asdict(event) for event in events], process=process, remembers=logs.RECENT)
