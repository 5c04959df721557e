"""An account's own keys over HTTP: list, make, revoke. No one else has to agree to a key."""

import json
from typing import Any

from tenuto.accounts import operations as accounts
from tenuto.accounts.rules import MAX_NAME_CHARACTERS, Caller, check_name
from tenuto.api.call import Answer, Call
from tenuto.db.database import Row, Transaction
from tenuto.errors import Fault, InvalidRequest, RateLimited
from tenuto.kinds.fields import Field, Integer, Text, by_name, shown
from tenuto.web.fields import OrNull, Strings
from tenuto.web.studio import Studio, answer, listed, read_object, read_raw

MAX_LIVE_KEYS = 200
"""Of one account, made here."""
MAX_MODELS = 1000
MAX_SECONDS = 253_402_300_799
"""The end of the year 9999."""

_MODELS = Field("models", OrNull(Strings(MAX_MODELS)), "the only models that it may use; null: all")
_FIELDS = by_name([
    Field("name", Text(MAX_NAME_CHARACTERS, "characters"), "what the key is for", required=True),
    _MODELS,
    Field("expires_at", OrNull(Integer(0, MAX_SECONDS)), "when it ends, in unix seconds; null: never"),
])  # fmt: skip


async def index(studio: Studio, call: Call) -> Answer:
    """GET /web/keys: newest first, without the keys themselves, which nobody has."""
    rows = await call.read(lambda tx, who: accounts.list_keys(tx, who.account_id))
    used = call.service.used_keys
    return listed([_shown(row, used.get(row["id"])) for row in reversed(rows)])


async def create(studio: Studio, call: Call) -> Answer:
    """POST /web/keys: the answer is the one place where the key stands."""
    caller = await call.authenticate()
    asked = await read_object(call, _FIELDS)
    now_ms = call.service.clock()
    check_name(asked["name"], "a key")
    faults = unknown_models(call, asked["models"])
    expires_at = None if asked["expires_at"] is None else asked["expires_at"] * 1000
    if expires_at is not None and expires_at <= now_ms:
        faults.append(Fault("expires_at", "out_of_range", "is over; give a moment to come, or null"))
    if faults:
        raise InvalidRequest(faults)

    def make(tx: Transaction) -> tuple[Row, str]:
        _check_room(tx, caller, now_ms)
        key_id, key = accounts.create_key(
            tx,
            call.service.ids,
            account_id=caller.account_id,
            name=asked["name"],
            models=asked["models"],
            expires_at=expires_at,
            now_ms=now_ms,
        )
        [row] = [row for row in accounts.list_keys(tx, caller.account_id) if row["id"] == key_id]
        return row, key

    row, key = await call.service.database.write_async(make)
    return answer(201, _shown(row, None) | {"key": key})


async def revoke(studio: Studio, call: Call) -> Answer:
    """DELETE /web/keys/{id}: refused from the next request on; again is no error."""
    caller = await call.authenticate()
    await read_raw(call)
    key_id, now_ms = call.path_id("key_id", "key"), call.service.clock()
    await call.service.database.write_async(
        lambda tx: accounts.revoke_own_key(tx, key_id, account_id=caller.account_id, now_ms=now_ms)
    )
    return Answer(204, b"")


def unknown_models(call: Call, models: list[str] | None) -> list[Fault]:
    """A fault for each name that is no model: it would be a restriction to nothing."""
    known = call.service.models
    return [
        Fault(f"models[{i}]", "unknown_model", f"{shown(name)} is no model; there are {', '.join(known)}")
        for i, name in enumerate(models or [])
        if name not in known
    ][:16]


def _check_room(tx: Transaction, caller: Caller, now_ms: int) -> None:
    live = [
        row
        for row in accounts.list_keys(tx, caller.account_id)
        if row["revoked_at"] is None and (row["expires_at"] is None or row["expires_at"] > now_ms)
    ]
    if len(live) >= MAX_LIVE_KEYS:
        message = f"this account has {MAX_LIVE_KEYS} keys that work, as many as it may; revoke one"
        raise RateLimited(message, retry_after_s=120, limit="live_keys")


def _shown(row: Row, used_at: int | None) -> dict[str, Any]:
    return {
        "id": row["id"],
        "object": "key",
        "name": row["name"],
        "prefix": row["prefix"],
        "last_four": row["last_four"],
        "models": None if row["models"] is None else json.loads(row["models"]),
        "expires_at": seconds(row["expires_at"]),
        "revoked_at": seconds(row["revoked_at"]),
        "last_used_at": seconds(used_at or row["last_used_at"]),
        "created_at": seconds(row["created_at"]),
    }


def seconds(at_ms: int | None) -> int | None:
    """Unix seconds, as the API shows moments."""
    return None if at_ms is None else at_ms // 1000
