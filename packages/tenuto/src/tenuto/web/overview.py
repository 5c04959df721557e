"""The operator's view of the service over HTTP: models and their engines, the queue, the workers."""

from typing import Any

from tenuto.api import models
from tenuto.api.call import Answer, Call
from tenuto.catalog import operations as catalog
from tenuto.catalog.kinds import kinds
from tenuto.catalog.rows import OfferRow
from tenuto.db.damaged_text import sound_json, text_of
from tenuto.db.database import Transaction
from tenuto.jobs import queue as lanes
from tenuto.web.keys import seconds
from tenuto.web.studio import Studio, answer, listed, operator_of


async def list_models(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/models: every model that is offered, with what each worker says of its engine."""
    await operator_of(studio, call)
    service = call.service

    def look(tx: Transaction) -> list[dict[str, Any]]:
        reasons = models.reasons(service, tx, list(service.models.values()))
        offers = _offers(tx)
        return [
            models.describe(model, reasons[model.name])
            | {"workers": [offer for name, offer in offers if name == model.name]}
            for model in service.models.values()
        ]

    return listed(await service.database.read_async(look))


async def queue(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/queue: how much waits, runs, may run and waits for the operator, by lane."""
    await operator_of(studio, call)
    names = list(kinds())

    def look(tx: Transaction) -> dict[str, Any]:
        oldest = lanes.oldest_queued_at(tx, names)
        slots = {lane: lanes.slots(tx, lane) for lane in names}
        return {**lanes.depths(tx, names), "slots": slots, "oldest_queued_at": seconds(oldest)}

    return answer(200, await call.service.database.read_async(look))


async def workers(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/workers: who they are, when they were last heard of, what they offer."""
    await operator_of(studio, call)
    now_ms = call.service.clock()

    def look(tx: Transaction) -> list[dict[str, Any]]:
        return [
            {
                "id": worker.id,
                "host": text_of(worker.machine).partition(":")[0],
                "machine": text_of(worker.machine),
                "pid": worker.pid,
                "started_at": seconds(worker.started_at),
                "seen_at": seconds(worker.seen_at),
                "seen_s_ago": max(0, now_ms - worker.seen_at) / 1000,
                "models": [
                    {"model": text_of(offer.model), **_engine(offer)}
                    for offer in catalog.worker_models(tx, worker.id)
                ],
                "abilities": sound_json(worker.abilities, "[]", of=worker.id, column="abilities"),
                "engines": sound_json(worker.engines, "{}", of=worker.id, column="engines"),
                "engine_memory_mib": worker.engine_memory_mib,
            }
            for worker in catalog.workers(tx)
        ]

    return listed(await call.service.database.read_async(look))


def _offers(tx: Transaction) -> list[tuple[str, dict[str, Any]]]:
    """Each worker's word on each model."""
    return [
        (offer.model, {"worker_id": offer.worker_id, **_engine(offer)})
        for worker in catalog.workers(tx)
        for offer in catalog.worker_models(tx, worker.id)
    ]


def _engine(offer: OfferRow) -> dict[str, Any]:
    return {"start_failures": offer.start_failures, "reason": text_of(offer.reason)}
