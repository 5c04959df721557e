"""The operator's accounts over HTTP: list, invite, credit, restrict, suspend, resume."""

from collections.abc import Callable
from typing import Any

from tenuto.accounts import operations as accounts
from tenuto.accounts import people, sessions
from tenuto.accounts.rows import PersonRow
from tenuto.accounts.rules import MAX_NAME_CHARACTERS
from tenuto.api import query
from tenuto.api.call import Answer, Call
from tenuto.billing import operations as billing
from tenuto.billing.rules import MAX_CNY, MICROS_PER_CNY
from tenuto.bodies.fields import Field, Integer, Text, by_name
from tenuto.db.damaged_text import text_of
from tenuto.db.database import ConstraintFailed, Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import InvalidRequest, OperatorError
from tenuto.web import invitations
from tenuto.web.acts import act_key, once
from tenuto.web.fields import OrNull, Strings
from tenuto.web.keys import MAX_MODELS, seconds, unknown_models
from tenuto.web.studio import Studio, answer, listed, operator_of, read_object, read_raw

DEFAULT_LIMIT = "100"
MAX_LIMIT = 500
MAX_MICROS = MAX_CNY * MICROS_PER_CNY
MAX_NOTE_CHARACTERS = 1000

_LIST = {"after": query.cursor("account"), "limit": query.integer(1, MAX_LIMIT)}
_NEW = by_name([Field("name", Text(MAX_NAME_CHARACTERS, "characters"), "what it is called", required=True)])
_NOTE = OrNull(Text(MAX_NOTE_CHARACTERS, "characters", may_be_blank=False))
_CREDIT = by_name([
    Field("amount_micros", Integer(-MAX_MICROS, MAX_MICROS), "what is added or taken", required=True),
    Field("note", _NOTE, "why; the account sees it"),
])  # fmt: skip
_MODELS = by_name([
    Field("models", OrNull(Strings(MAX_MODELS)), "the only models that it may use; null: all", required=True),
])  # fmt: skip


async def index(studio: Studio, call: Call) -> Answer:
    """GET /web/operator/accounts, oldest first."""
    await operator_of(studio, call)
    asked = query.read_query(call, _LIST)
    limit = int(asked.get("limit", DEFAULT_LIMIT))
    now_ms = call.service.clock()
    listed_people = await call.service.database.read_async(
        lambda tx: people.list_people(tx, after=asked.get("after"), limit=limit + 1, now_ms=now_ms)
    )
    more = {"next_cursor": listed_people[limit - 1].id} if len(listed_people) > limit else {}
    return listed([_shown(person) for person in listed_people[:limit]], **more)


async def create(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts: an account, and the link by which somebody sets its password."""
    await operator_of(studio, call)
    asked = await read_object(call, _NEW)
    service, token, now_ms = call.service, sessions.new_token(), call.service.clock()

    def make(tx: Transaction) -> dict[str, Any]:
        # A try whose answer was lost has left its link, which nobody else has.
        account_id = invitations.invited_by(tx, token, now_ms=now_ms) or invitations.open_account(
            tx, service.ids, service.settings, name=asked["name"], now_ms=now_ms
        )
        person = people.find_person(tx, account_id, now_ms=now_ms)
        path = invitations.invite(tx, service.settings, person, token, now_ms=now_ms)
        return {**_shown(people.find_person(tx, account_id, now_ms=now_ms)), "invitation_path": path}

    try:
        return answer(201, await write_known_async(service.database, make))
    except ConstraintFailed:
        raise people.taken_name() from None


async def invite(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/invitation: another link, for who lost the first or the password."""
    await operator_of(studio, call)
    await read_raw(call)
    account_id = call.path_id("account_id", "account")
    token, now_ms = sessions.new_token(), call.service.clock()

    def make(tx: Transaction) -> dict[str, Any]:
        person = people.find_person(tx, account_id, now_ms=now_ms)
        path = invitations.invite(tx, call.service.settings, person, token, now_ms=now_ms)
        return {"id": account_id, "name": person.name, "invitation_path": path}

    return answer(201, await write_known_async(call.service.database, make))


async def credit(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/credit; its Idempotency-Key books once, however often it is sent."""
    operator = await operator_of(studio, call)
    key = act_key(call)
    asked = await read_object(call, _CREDIT)
    account_id = call.path_id("account_id", "account")
    amount, note, now_ms = asked["amount_micros"], asked["note"], call.service.clock()

    def book(tx: Transaction, entry_id: str) -> None:
        billing.credit(tx, entry_id, account_id=account_id, amount_micros=amount, note=note, now_ms=now_ms)

    add = once(call, operator, key, ("credit", account_id, str(amount), note or ""), book)
    return await _change(call, lambda tx, _: add(tx))


async def restrict(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/models."""
    await operator_of(studio, call)
    asked = await read_object(call, _MODELS)
    if faults := unknown_models(call, asked["models"]):
        raise InvalidRequest(faults)
    return await _change(
        call,
        lambda tx, account_id: accounts.restrict_account(tx, account_id=account_id, models=asked["models"]),
    )


async def suspend(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/suspend."""
    operator = await operator_of(studio, call)
    await read_raw(call)
    if call.path_id("account_id", "account") == operator.caller.account_id:
        raise InvalidRequest(message="this is your own account: nobody could resume it")
    now_ms = call.service.clock()
    return await _change(call, lambda tx, account_id: people.suspend(tx, account_id, now_ms=now_ms))


async def resume(studio: Studio, call: Call) -> Answer:
    """POST /web/operator/accounts/{id}/resume."""
    await operator_of(studio, call)
    await read_raw(call)
    return await _change(call, people.resume)


async def _change(call: Call, operation: Callable[[Transaction, str], None]) -> Answer:
    """Change the account that the path names, and show it. NotFound; an operation's refusal is a 400."""
    account_id, now_ms = call.path_id("account_id", "account"), call.service.clock()

    def change(tx: Transaction) -> PersonRow:
        people.find_person(tx, account_id, now_ms=now_ms)
        operation(tx, account_id)
        return people.find_person(tx, account_id, now_ms=now_ms)

    try:
        return answer(200, _shown(await write_known_async(call.service.database, change)))
    except OperatorError as error:
        raise InvalidRequest(message=error.message) from error


def _shown(person: PersonRow) -> dict[str, Any]:
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
