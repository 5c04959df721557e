"""The operator's pages over HTTP: accounts, the queue, workers, and jobs that wait for a decision."""

from collections.abc import Callable
from typing import Any

from tenuto.account import operations as accounts
from tenuto.account.key_rules import MAX_NAME_CHARACTERS
from tenuto.api import query
from tenuto.api.answers import Answer, json_answer, json_list
from tenuto.api.call import Call
from tenuto.api.json_body import IDEMPOTENCY_HEADER, idempotency_key
from tenuto.db.damaged_text import sound_json, text_of
from tenuto.db.database import ConstraintFailed, Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import Fault, InvalidRequest, NotFound, OperatorError
from tenuto.features.evidence.evidence import Evidence
from tenuto.features.evidence.examination import examine
from tenuto.features.studio import invitations, sessions
from tenuto.features.studio import people_operations as people
from tenuto.features.studio.api_keys import MAX_MODELS, seconds, unknown_models
from tenuto.features.studio.rows import PersonRow
from tenuto.features.studio.sessions import Person
from tenuto.features.studio.studio import OrNull, Strings, Studio, operator_of, read_object
from tenuto.file.uploads import bind_upload, request_sha256
from tenuto.job import queue as lanes
from tenuto.job import recover
from tenuto.job.jobs_sql import WaitingJob
from tenuto.job.states import Decision
from tenuto.kind import operations as catalog
from tenuto.kind.kinds import kinds
from tenuto.kind.rows import OfferRow
from tenuto.money import operations as billing
from tenuto.money.rules import MAX_MICROS
from tenuto.rules import Boolean, Choice, Field, Integer, Text, by_name

DEFAULT_LIMIT = "100"
MAX_LIMIT = 500
MAX_NOTE_CHARACTERS = 1000

_LIST: query.Rules = {
    "after": query.cursor("account"),
    "limit": Integer(1, MAX_LIMIT),
    "search": query.text("a part of an account's name, or its id"),
    "state": Choice(people.STATES),
}
_NEW = by_name([Field("name", Text(MAX_NAME_CHARACTERS, "characters"), "what it is called", required=True)])
_NOTE = OrNull(Text(MAX_NOTE_CHARACTERS, "characters", may_be_blank=False))
_CREDIT = by_name([
    Field("amount_micros", Integer(-MAX_MICROS, MAX_MICROS), "what is added or taken", required=True),
    Field("note", _NOTE, "why; the account sees it"),
])  # fmt: skip
_MODELS = by_name([
    Field("models", OrNull(Strings(MAX_MODELS)), "the only models that it may use; null: all", required=True),
])  # fmt: skip
_DECISION = by_name([
    Field("action", Choice(("complete", "requeue", "void")), "the way out", required=True),
    Field("note", _NOTE, "why; operators alone see it"),
    Field("cancelled", Boolean(), "void: the job ends as cancelled, not failed", default=False),
])  # fmt: skip


async def list_accounts(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/accounts, oldest first: all, or those that match a search and a state."""
    await operator_of(studio, call)
    filters = query.read_query(call, _LIST)
    limit = int(filters.get("limit", DEFAULT_LIMIT))
    now_ms = call.service.clock()
    listed_people = await call.service.database.read_async(
        lambda tx: people.list_people(
            tx,
            after=filters.get("after"),
            limit=limit + 1,
            search=filters.get("search"),
            state=filters.get("state"),
            now_ms=now_ms,
        )
    )
    more = {"next_cursor": listed_people[limit - 1].id} if len(listed_people) > limit else {}
    return json_list([_account(person) for person in listed_people[:limit]], **more)


async def create_account(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts: an account, and the link by which somebody sets its password."""
    await operator_of(studio, call)
    sent = await read_object(call, _NEW)
    service, token, now_ms = call.service, sessions.new_token(), call.service.clock()

    def make(tx: Transaction) -> dict[str, Any]:
        # A first try whose answer was lost has left its link, which nobody else has.
        account_id = invitations.invited_by(tx, token, now_ms=now_ms) or invitations.open_account(
            tx, service.ids, service.settings, name=sent["name"], now_ms=now_ms
        )
        person = people.find_person(tx, account_id, now_ms=now_ms)
        path = invitations.invite(tx, service.settings, person, token, now_ms=now_ms)
        return {**_account(people.find_person(tx, account_id, now_ms=now_ms)), "invitation_path": path}

    try:
        return json_answer(201, await write_known_async(service.database, make))
    except ConstraintFailed:
        raise people.taken_name() from None


async def invite(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/invitation: another link, if the first or the password was lost."""
    await operator_of(studio, call)
    await call.read_body()
    account_id = call.path_id("account_id", "account")
    token, now_ms = sessions.new_token(), call.service.clock()

    def make(tx: Transaction) -> dict[str, Any]:
        person = people.find_person(tx, account_id, now_ms=now_ms)
        path = invitations.invite(tx, call.service.settings, person, token, now_ms=now_ms)
        return {"id": account_id, "name": person.name, "invitation_path": path}

    return json_answer(201, await write_known_async(call.service.database, make))


async def credit(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/credit; credits once per Idempotency-Key."""
    operator = await operator_of(studio, call)
    key = _act_key(call)
    sent = await read_object(call, _CREDIT)
    account_id = call.path_id("account_id", "account")
    amount, note, now_ms = sent["amount_micros"], sent["note"], call.service.clock()

    def book(tx: Transaction, entry_id: str) -> None:
        billing.credit(tx, entry_id, account_id=account_id, amount_micros=amount, note=note, now_ms=now_ms)

    add = _once(call, operator, key, ("credit", account_id, str(amount), note or ""), book)
    return await _change(call, lambda tx, _: add(tx))


async def restrict(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/models."""
    await operator_of(studio, call)
    sent = await read_object(call, _MODELS)
    if faults := unknown_models(call, sent["models"]):
        raise InvalidRequest(faults)
    return await _change(
        call,
        lambda tx, account_id: accounts.restrict_account(tx, account_id=account_id, models=sent["models"]),
    )


async def suspend(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/suspend."""
    operator = await operator_of(studio, call)
    await call.read_body()
    if call.path_id("account_id", "account") == operator.caller.account_id:
        raise InvalidRequest(message="this is your own account: nobody could resume it")
    now_ms = call.service.clock()
    return await _change(call, lambda tx, account_id: people.suspend(tx, account_id, now_ms=now_ms))


async def resume(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/resume."""
    await operator_of(studio, call)
    await call.read_body()
    return await _change(call, people.resume)


async def _change(call: Call, operation: Callable[[Transaction, str], None]) -> Answer:
    """Change the account in the path, and show it. NotFound; an operation's refusal becomes a 400."""
    account_id, now_ms = call.path_id("account_id", "account"), call.service.clock()

    def change(tx: Transaction) -> PersonRow:
        people.find_person(tx, account_id, now_ms=now_ms)
        operation(tx, account_id)
        return people.find_person(tx, account_id, now_ms=now_ms)

    try:
        return json_answer(200, _account(await write_known_async(call.service.database, change)))
    except OperatorError as error:
        raise InvalidRequest(message=error.message) from error


def _account(person: PersonRow) -> dict[str, Any]:
    models, is_damaged = accounts.readable_models(person.models)
    return {
        "id": person.id,
        "object": "account",
        "name": text_of(person.name),
        "available_micros": person.available_micros,
        "held_micros": person.held_micros,
        "suspended": person.suspended_at is not None,
        "created_at": seconds(person.created_at),
        "operator": bool(person.operator),
        "models": models,
        "damaged": is_damaged,
        "signs_in": bool(person.signs_in),
        "invited": bool(person.invited),
    }


async def queue(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/queue: waiting and running jobs, those that need the operator, and slots, by lane."""
    await operator_of(studio, call)
    names = list(kinds())

    def find(tx: Transaction) -> dict[str, Any]:
        oldest = lanes.oldest_queued_at(tx, names)
        slots = {lane: lanes.slots(tx, lane) for lane in names}
        return {**lanes.depths(tx, names), "slots": slots, "oldest_queued_at": seconds(oldest)}

    return json_answer(200, await call.service.database.read_async(find))


async def workers(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/workers: who they are, when they last reported, what they offer."""
    await operator_of(studio, call)
    now_ms = call.service.clock()

    def find(tx: Transaction) -> list[dict[str, Any]]:
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
                    {"model": text_of(offer.model), **engine_state(offer)}
                    for offer in catalog.worker_models(tx, worker.id)
                ],
                "abilities": sound_json(worker.abilities, "[]", of=worker.id, column="abilities"),
                "engines": sound_json(worker.engines, "{}", of=worker.id, column="engines"),
                "engine_memory_mib": worker.engine_memory_mib,
            }
            for worker in catalog.workers(tx)
        ]

    return json_list(await call.service.database.read_async(find))


def engine_state(offer: OfferRow) -> dict[str, Any]:
    """How often the engine of an offer failed to start, and why."""
    return {"start_failures": offer.start_failures, "reason": text_of(offer.reason)}


async def list_waiting(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/recovery: the jobs waiting for a decision, oldest first."""
    await operator_of(studio, call)
    waiting = await call.service.database.read_async(recover.waiting)
    return json_list([_waiting_job(job) for job in waiting])


async def show_waiting(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/recovery/{id}: everything known about the job; its recorded bytes are read again."""
    await operator_of(studio, call)
    return json_answer(200, await _evidence(call, call.path_id("job_id", "job")))


async def decide(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/recovery/{id}: carry out a decision, once per Idempotency-Key."""
    operator = await operator_of(studio, call)
    key = _act_key(call)
    sent = await read_object(call, _DECISION)
    job_id = call.path_id("job_id", "job")
    await _evidence(call, job_id)
    if sent["cancelled"] and sent["action"] != "void":
        raise InvalidRequest([Fault("cancelled", "conflict", "applies only to the action void")])
    try:
        await _carry_out(call, operator, key, job_id, sent)
    except OperatorError as error:
        raise InvalidRequest(message=error.message) from error
    return json_answer(200, await _evidence(call, job_id))


async def _carry_out(call: Call, operator: Person, key: str, job_id: str, sent: dict[str, Any]) -> None:
    service, ids, now_ms = call.service, call.service.ids, call.service.clock()
    if sent["action"] == "complete":
        await call.beside(
            service.readers, lambda: recover.check_recorded(service.database, service.blobs, job_id)
        )

    def decide(tx: Transaction, entry_id: str) -> None:
        by = Decision(operator.name, sent["note"], entry_id)
        if sent["action"] == "complete":
            recover.complete(tx, ids, job_id, None, by=by, now_ms=now_ms)
        elif sent["action"] == "requeue":
            recover.requeue(tx, ids, job_id, by=by, now_ms=now_ms)
        else:
            recover.void(tx, ids, job_id, cancel=sent["cancelled"], by=by, now_ms=now_ms)

    request = ("decide", job_id, sent["action"], str(sent["cancelled"]), sent["note"] or "")
    await write_known_async(service.database, _once(call, operator, key, request, decide))
    if sent["action"] == "requeue":
        lanes.wake(service.database)
    service.database.wake("changes")


async def _evidence(call: Call, job_id: str) -> Evidence:
    """All that is known about a job; in a thread, because bytes are read. NotFound."""
    service, now_ms = call.service, call.service.clock()
    try:
        return await call.beside(
            service.readers,
            lambda: examine(service.database, service.blobs, job_id, now_ms=now_ms),
        )
    except OperatorError as error:
        raise NotFound from error


def _waiting_job(job: WaitingJob) -> dict[str, Any]:
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


def _act_key(call: Call) -> str:
    """The required Idempotency-Key. InvalidRequest explains the expected form."""
    faults: list[Fault] = []
    key = idempotency_key(call, faults)
    if key is None and not faults:
        message = "the header is required: 1 to 255 printable ASCII characters, new for each new act"
        faults.append(Fault(IDEMPOTENCY_HEADER, "required", message))
    if faults:
        raise InvalidRequest(faults)
    assert key is not None
    return key


def _once(
    call: Call, operator: Person, key: str, identity: tuple[str, ...], act: Callable[[Transaction, str], None]
) -> Callable[[Transaction], None]:
    """The operation that runs `act` once per key, with the id of its ledger line.

    IdempotencyConflict if the key was used for a different action; `identity` is all that identifies one.
    """
    entry_id, now_ms = call.service.ids.new("entry"), call.service.clock()

    def operation(tx: Transaction) -> None:
        bound = bind_upload(
            tx,
            key_id=operator.caller.key_id,
            idempotency_key=key,
            request_sha256=request_sha256(*identity),
            record_id=entry_id,
            now_ms=now_ms,
        )
        if bound == entry_id:
            act(tx, entry_id)

    return operation
