"""The operator's view of the service over HTTP: models and their engines, the queue, the workers."""

import json
from typing import Any

from tenuto.api import models
from tenuto.api.call import Answer, Call
from tenuto.catalog import operations as catalog
from tenuto.db.database import Transaction
from tenuto.jobs import lanes
from tenuto.web.keys import seconds
from tenuto.web.studio import Studio, answer, listed, operator_of


async def list_models(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/models: every model that is offered, with what each worker says of its engine."""
    await operator_of(studio, call)
    service, now_ms = call.service, call.service.clock()

    def look(tx: Transaction) -> list[dict[str, Any]]:
        reasons = models.reasons(service, tx, list(service.models.values()), now_ms=now_ms)
        offers = _offers(tx)
        return [
            models.shown(model, reasons[model.name])
            | {"workers": [offer for name, offer in offers if name == model.name]}
            for model in service.models.values()
        ]

    return listed(await service.database.read_async(look))


async def queue(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/queue: how much waits, runs, may run and waits for the operator, by lane."""
    await operator_of(studio, call)
    names = list(call.service.settings.slots())

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
                "id": row["id"],
                "host": row["machine"].partition(":")[0],
                "machine": row["machine"],
                "pid": row["pid"],
                "started_at": seconds(row["started_at"]),
                "seen_at": seconds(row["seen_at"]),
                "seen_s_ago": max(0, now_ms - row["seen_at"]) / 1000,
                "models": [
                    {name: offer[name] for name in ("model", "start_failures", "reason")}
                    for offer in catalog.worker_models(tx, row["id"])
                ],
                "abilities": json.loads(row["abilities"]),
                "engines": json.loads(row["engines"]),
                "engine_memory_mib": row["engine_memory_mib"],
            }
            for row in catalog.workers(tx)
        ]

    return listed(await call.service.database.read_async(look))


def _offers(tx: Transaction) -> list[tuple[str, dict[str, Any]]]:
    """Each worker's word on each model."""
    return [
        (
            offer["model"],
            {
                "worker_id": worker["id"],
                "start_failures": offer["start_failures"],
                "reason": offer["reason"],
            },
        )
        for worker in catalog.workers(tx)
        for offer in catalog.worker_models(tx, worker["id"])
    ]
