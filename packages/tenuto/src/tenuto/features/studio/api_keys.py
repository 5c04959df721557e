"""An account's own keys over HTTP: list, create, rotate, revoke, without anyone's approval."""

from secrets import randbelow
from typing import Any

from tenuto.account import operations as accounts
from tenuto.account.caller import Caller
from tenuto.account.key_rules import MAX_NAME_CHARACTERS, check_name, make_key
from tenuto.account.rows import KeyRow
from tenuto.api import query
from tenuto.api.answers import Answer, json_answer, json_list
from tenuto.api.call import Call
from tenuto.db.damaged_text import text_of
from tenuto.db.database import Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import Fault, InvalidRequest
from tenuto.features.studio.studio import HOUR_MS, OrNull, Strings, Studio, read_object
from tenuto.rules import Field, Integer, Text, by_name, quoted

MAX_LIVE_KEYS = 200
"""Of one account; checked when a key is created here."""
MAX_NEW_KEYS = 300
"""Of one account within an hour: rows of keys stay forever, even revoked ones."""
MAX_SECRETS = 10
"""Valid secrets of one key: the newest, and old ones until their grace period is over."""
MAX_GRACE_HOURS = 168
MAX_MODELS = 1000
MAX_SECONDS = 253_402_300_799
"""The end of the year 9999."""

_LIST: query.Rules = {"after": query.cursor("key"), "limit": query.LIMIT}
_MODELS = Field("models", OrNull(Strings(MAX_MODELS)), "the only models that it may use; null: all")
_FIELDS = by_name([
    Field("name", Text(MAX_NAME_CHARACTERS, "characters"), "what the key is for", required=True),
    _MODELS,
    Field("expires_at", OrNull(Integer(0, MAX_SECONDS)), "when it ends, in unix seconds; null: never"),
])  # fmt: skip
_ROTATION = by_name([
    Field("grace_hours", Integer(0, MAX_GRACE_HOURS), "how long the old secret works on", default=24),
])  # fmt: skip


async def index(studio: Studio, call: Call) -> Answer:
    """GET /web/keys: newest first, in pages, without the secrets, which are not stored."""

    def find(tx: Transaction, who: Caller) -> tuple[list[KeyRow], str | None]:
        filters = query.read_query(call, _LIST)
        return accounts.page_of_keys(
            tx, who.account_id, after=filters.get("after"), limit=query.limit_of(filters)
        )

    keys, cursor = await call.read(find)
    used = call.service.used_keys
    return json_list([_key(key, used.get(key.id)) for key in keys], cursor)


async def create(studio: Studio, call: Call) -> Answer:
    """POST /web/keys: only this answer contains the key."""
    caller = await call.authenticate()
    sent = await read_object(call, _FIELDS)
    now_ms = call.service.clock()
    check_name(sent["name"], "a key")
    faults = unknown_models(call, sent["models"])
    if sent["models"] == []:
        message = "names no model, so the key could do nothing; name some, or null for all"
        faults.append(Fault("models", "empty", message))
    expires_at = None if sent["expires_at"] is None else sent["expires_at"] * 1000
    if expires_at is not None and expires_at <= now_ms:
        faults.append(Fault("expires_at", "out_of_range", "is in the past; give a future time, or null"))
    if faults:
        raise InvalidRequest(faults)

    key_id = call.service.ids.new("key")

    def make(tx: Transaction) -> tuple[KeyRow, str]:
        # An earlier try whose answer was lost may have made it: then it is one of those that are counted.
        if not accounts.has_key(tx, key_id):
            accounts.check_new_key(
                tx, caller.account_id, live_limit=MAX_LIVE_KEYS, hourly_limit=MAX_NEW_KEYS, now_ms=now_ms
            )
        _, secret = accounts.create_key(
            tx,
            call.service.ids,
            key_id=key_id,
            account_id=caller.account_id,
            name=sent["name"],
            models=sent["models"],
            expires_at=expires_at,
            now_ms=now_ms,
        )
        return accounts.read_key(tx, key_id), secret

    key, secret = await write_known_async(call.service.database, make)
    return json_answer(201, _key(key, None) | {"key": secret})


async def rotate(studio: Studio, call: Call) -> Answer:
    """POST /web/keys/{id}/rotation: a new secret, in this answer only; old ones end after the grace."""
    caller = await call.authenticate()
    sent = await read_object(call, _ROTATION)
    key_id, now_ms = call.path_id("key_id", "key"), call.service.clock()
    secret = make_key(randbelow)

    def make(tx: Transaction) -> KeyRow:
        accounts.rotate_own_key(
            tx,
            key_id,
            account_id=caller.account_id,
            secret=secret,
            grace_ms=sent["grace_hours"] * HOUR_MS,
            secret_limit=MAX_SECRETS,
            now_ms=now_ms,
        )
        return accounts.read_key(tx, key_id)

    key = await write_known_async(call.service.database, make)
    return json_answer(201, _key(key, call.service.used_keys.get(key_id)) | {"key": secret})


async def revoke(studio: Studio, call: Call) -> Answer:
    """DELETE /web/keys/{id}: the key is refused from the next request on; revoking it again succeeds."""
    caller = await call.authenticate()
    await call.read_body()
    key_id, now_ms = call.path_id("key_id", "key"), call.service.clock()
    await call.service.database.write_async(
        lambda tx: accounts.revoke_own_key(tx, key_id, account_id=caller.account_id, now_ms=now_ms)
    )
    return Answer(204, b"")


def unknown_models(call: Call, models: list[str] | None) -> list[Fault]:
    """A fault for each name that is not a model's, since it would allow nothing; 16 at most."""
    known = call.service.models
    return [
        Fault(f"models[{i}]", "unknown_model", f"{quoted(name)} is not a model; there are {', '.join(known)}")
        for i, name in enumerate(models or [])
        if name not in known
    ][:16]


def _key(key: KeyRow, used_at: int | None) -> dict[str, Any]:
    models, is_damaged = accounts.readable_models(key.models)
    return {
        "id": key.id,
        "object": "key",
        "name": text_of(key.name),
        "prefix": key.prefix,
        "last_four": key.last_four,
        "models": models,
        "damaged": is_damaged,
        "expires_at": seconds(key.expires_at),
        "revoked_at": seconds(key.revoked_at),
        "last_used_at": seconds(used_at or key.last_used_at),
        "created_at": seconds(key.created_at),
    }


def seconds(at_ms: int | None) -> int | None:
    """Unix seconds, as the API shows times."""
    return None if at_ms is None else at_ms // 1000
