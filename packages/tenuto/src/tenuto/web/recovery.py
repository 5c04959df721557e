"""The operator's inbox over HTTP: jobs that wait for a decision, what is known of each, and the ways out."""

from typing import Any

from tenuto.accounts.sessions import Person
from tenuto.api.call import Answer, Call
from tenuto.bodies.fields import Boolean, Choice, Field, Text, by_name
from tenuto.db.database import Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import Fault, InvalidRequest, NotFound, OperatorError
from tenuto.jobs import recover
from tenuto.jobs.evidence import Evidence
from tenuto.jobs.rows import WaitingJob
from tenuto.jobs.states import Decision
from tenuto.web.acts import act_key, once
from tenuto.web.fields import OrNull
from tenuto.web.keys import seconds
from tenuto.web.studio import Studio, answer, listed, operator_of, read_object

MAX_NOTE_CHARACTERS = 1000

_NOTE = OrNull(Text(MAX_NOTE_CHARACTERS, "characters", may_be_blank=False))
_DECISION = by_name([
    Field("action", Choice(("complete", "requeue", "void")), "the way out", required=True),
    Field("note", _NOTE, "why; operators alone see it"),
    Field("cancelled", Boolean(), "void: the job ends as cancelled, not failed", default=False),
])  # fmt: skip


async def index(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/recovery: the jobs that wait, oldest first."""
    await operator_of(studio, call)
    waiting = await call.service.database.read_async(recover.waiting)
    return listed([_shown(job) for job in waiting])


async def show(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/recovery/{id}: everything that is known, the recorded bytes read again."""
    await operator_of(studio, call)
    return answer(200, await _evidence(call, call.path_id("job_id", "job")))


async def decide(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/recovery/{id}: what the operator decided; an Idempotency-Key decides once."""
    operator = await operator_of(studio, call)
    key = act_key(call)
    asked = await read_object(call, _DECISION)
    job_id = call.path_id("job_id", "job")
    await _evidence(call, job_id)
    if asked["cancelled"] and asked["action"] != "void":
        raise InvalidRequest([Fault("cancelled", "conflict", "means something for the action void alone")])
    try:
        await _carry_out(call, operator, key, job_id, asked)
    except OperatorError as error:
        raise InvalidRequest(message=error.message) from error
    return answer(200, await _evidence(call, job_id))


async def _carry_out(call: Call, operator: Person, key: str, job_id: str, asked: dict[str, Any]) -> None:
    service, ids, now_ms = call.service, call.service.ids, call.service.clock()
    if asked["action"] == "complete":
        await call.beside(
            service.readers, lambda: recover.check_recorded(service.database, service.blobs, job_id)
        )

    def decide(tx: Transaction, entry_id: str) -> None:
        by = Decision(operator.name, asked["note"], entry_id)
        if asked["action"] == "complete":
            recover.complete(tx, ids, job_id, None, by=by, now_ms=now_ms)
        elif asked["action"] == "requeue":
            recover.requeue(tx, ids, job_id, by=by, now_ms=now_ms)
        else:
            recover.void(tx, ids, job_id, cancel=asked["cancelled"], by=by, now_ms=now_ms)

    request = ("decide", job_id, asked["action"], str(asked["cancelled"]), asked["note"] or "")
    await write_known_async(service.database, once(call, operator, key, request, decide))
    if asked["action"] == "requeue":
        service.database.wake("jobs")
    service.database.wake("changes")


async def _evidence(call: Call, job_id: str) -> Evidence:
    """All that is known of a job, in a thread: bytes are read. NotFound."""
    service, now_ms = call.service, call.service.clock()
    try:
        return await call.beside(
            service.readers,
            lambda: recover.examine(service.database, service.blobs, job_id, now_ms=now_ms),
        )
    except OperatorError as error:
        raise NotFound from error


def _shown(job: WaitingJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "object": "job",
        "kind": job.kind,
        "model": job.model,
        "account_id": job.account_id,
        "account_name": job.account_name,
        "created_at": seconds(job.created_at),
        "started_at": seconds(job.started_at),
        "attempts": job.attempts,
        "held_micros": job.hold_micros,
        "reason": job.error_message,
    }
