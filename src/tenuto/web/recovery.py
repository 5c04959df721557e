"""The operator's inbox over HTTP: jobs that wait for a decision, what is known of each, and the ways out."""

import asyncio
from typing import Any

from tenuto.accounts.sessions import Person
from tenuto.api.call import Answer, Call
from tenuto.db.database import Row, Transaction
from tenuto.errors import Fault, InvalidRequest, NotFound, OperatorError
from tenuto.jobs import recover
from tenuto.jobs.recover import Decision, Evidence
from tenuto.kinds.fields import Boolean, Choice, Field, Text, by_name
from tenuto.web.fields import OrNull
from tenuto.web.keys import seconds
from tenuto.web.studio import Studio, answer, listed, operator_of, read_object

MAX_NOTE_CHARACTERS = 1000

_DECISION = by_name([
    Field("action", Choice(("complete", "requeue", "void")), "the way out", required=True),
    Field("note", OrNull(Text(MAX_NOTE_CHARACTERS, "characters")), "why; operators alone see it"),
    Field("cancelled", Boolean(), "void: the job ends as cancelled, not failed", default=False),
])  # fmt: skip


async def index(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/recovery: the jobs that wait, oldest first."""
    await operator_of(studio, call)
    rows = await call.service.database.read_async(recover.waiting)
    return listed([_shown(row) for row in rows])


async def show(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/recovery/{id}: everything that is known, the recorded bytes read again."""
    await operator_of(studio, call)
    return answer(200, await _evidence(call, call.path_id("job_id", "job")))


async def decide(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/recovery/{id}: what the operator decided, under the operator's name."""
    operator = await operator_of(studio, call)
    asked = await read_object(call, _DECISION)
    job_id = call.path_id("job_id", "job")
    await _evidence(call, job_id)
    if asked["cancelled"] and asked["action"] != "void":
        raise InvalidRequest([Fault("cancelled", "conflict", "means something for the action void alone")])
    try:
        await _carry_out(call, operator, job_id, asked)
    except OperatorError as error:
        raise InvalidRequest(message=error.message) from error
    return answer(200, await _evidence(call, job_id))


async def _carry_out(call: Call, operator: Person, job_id: str, asked: dict[str, Any]) -> None:
    service, ids, now_ms = call.service, call.service.ids, call.service.clock()
    by = Decision(operator.name, asked["note"])
    if asked["action"] == "complete":
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(
            service.readers, lambda: recover.check_recorded(service.database, service.blobs, job_id)
        )

    def decide(tx: Transaction) -> None:
        if asked["action"] == "complete":
            recover.complete(tx, ids, job_id, None, by=by, now_ms=now_ms)
        elif asked["action"] == "requeue":
            recover.requeue(tx, ids, job_id, by=by, now_ms=now_ms)
        else:
            recover.void(tx, ids, job_id, cancel=asked["cancelled"], by=by, now_ms=now_ms)

    await service.database.write_async(decide)
    if asked["action"] == "requeue":
        service.database.wake("jobs")
    service.database.wake("changes")


async def _evidence(call: Call, job_id: str) -> Evidence:
    """All that is known of a job, in a thread: bytes are read. NotFound."""
    service, now_ms = call.service, call.service.clock()
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(
            service.readers,
            lambda: recover.examine(service.database, service.blobs, job_id, now_ms=now_ms),
        )
    except OperatorError as error:
        raise NotFound from error


def _shown(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "object": "job",
        "kind": row["kind"],
        "model": row["model"],
        "account_id": row["account_id"],
        "account_name": row["account_name"],
        "created_at": seconds(row["created_at"]),
        "started_at": seconds(row["started_at"]),
        "attempts": row["attempts"],
        "held_micros": row["hold_micros"],
        "reason": row["error_message"],
    }
