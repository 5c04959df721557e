"""Operations on accounts and keys: create, list, restrict, rotate, revoke, authenticate.

Each function is one operation on one transaction. Nothing here deals with money: see `billing`.
"""

import json
import secrets
from collections.abc import Callable
from functools import lru_cache, partial

import msgspec

from tenuto.account import store
from tenuto.account.caller import Caller
from tenuto.account.key_rules import check_name, is_well_formed, key_sha256, make_key, name_key, normal_name
from tenuto.account.rows import AccountRow, CallerRow, KeyRow, LockedKeyRow
from tenuto.db.database import Asking, Transaction
from tenuto.db.records import DeferredRecord
from tenuto.errors import InvalidApiKey, InvalidRequest, NotFound, OperatorError, RateLimited
from tenuto.ids import Ids
from tenuto.logs import get_logger

HOUR_MS = 3_600_000

_log = get_logger("tenuto.accounts")


class RestrictionDamaged(Exception):
    """What is stored of the models that a key or an account may use cannot be read."""


def create_account(
    tx: Transaction, ids: Ids, *, name: str, now_ms: int, account_id: str | None = None
) -> str:
    """Create an account without credit, under the caller's `account_id` or a new id; returns the id."""
    name = normal_name(name)
    check_name(name, "an account")
    if (like := by_name(tx, name)) is not None:
        raise OperatorError(f"there is an account named {like.name!r} already")
    account_id = account_id or ids.new("account")
    store.add_account(tx, account_id, name, name_key(name), now_ms)
    return account_id


def has_account(tx: Transaction, account_id: str) -> bool:
    """Whether the account exists."""
    return store.account(tx, account_id) is not None


def by_name(tx: Transaction, name: str) -> AccountRow | None:
    """The account with this name, or with one that differs only in case or width: there is one at most."""
    return store.account_by_name_key(tx, name_key(name))


def find_account(tx: Transaction, name_or_id: str) -> AccountRow:
    """The account with this name or id; an id is never taken for the name of another account."""
    account = store.account(tx, name_or_id) or by_name(tx, name_or_id)
    if account is None:
        raise OperatorError(f"there is no account {name_or_id!r}; `tenuto admin accounts list` lists them")
    return account


def list_accounts(tx: Transaction) -> list[AccountRow]:
    """All accounts, oldest first."""
    return store.accounts(tx)


def restrict_account(tx: Transaction, *, account_id: str, models: list[str] | None) -> None:
    """Set the models that the operator allows from now on; None allows all."""
    store.set_account_models(tx, account_id, _models_json(models))


def create_key(
    tx: Transaction,
    ids: Ids,
    *,
    account_id: str,
    name: str,
    models: list[str] | None,
    expires_at: int | None,
    now_ms: int,
    random_below: Callable[[int], int] = secrets.randbelow,
    key_id: str | None = None,
) -> tuple[str, str]:
    """Create a key; returns its id and the key itself, which cannot be shown again.

    With the caller's own `key_id` the call may be retried: if an earlier try created the key but its response
    was lost, a new secret replaces the first, which nobody has seen.
    """
    check_name(name, "a key")
    if key_id is not None and store.key(tx, key_id) is not None:
        store.remove_secrets(tx, key_id)
        return key_id, _add_secret(tx, key_id, make_key(random_below), now_ms)
    key_id = key_id or ids.new("key")
    store.add_key(
        tx,
        key_id,
        account_id=account_id,
        name=name,
        models=_models_json(models),
        expires_at=expires_at,
        now_ms=now_ms,
    )
    return key_id, _add_secret(tx, key_id, make_key(random_below), now_ms)


def rotate_key(
    tx: Transaction,
    key_id: str,
    *,
    grace_ms: int,
    now_ms: int,
    random_below: Callable[[int], int] = secrets.randbelow,
) -> str:
    """Add a secret under the same key id; the old ones keep working for `grace_ms`."""
    stored = store.key(tx, key_id)
    if stored is None or _has_ended(stored, now_ms):
        raise OperatorError(
            f"there is no key {key_id!r} that could be rotated; `tenuto admin keys list` shows them"
        )
    store.end_secrets(tx, key_id, now_ms + grace_ms)
    return _add_secret(tx, key_id, make_key(random_below), now_ms)


def rotate_own_key(
    tx: Transaction,
    key_id: str,
    *,
    account_id: str,
    secret: str,
    grace_ms: int,
    secret_limit: int,
    now_ms: int,
) -> None:
    """The same for a working key of this account, unless an earlier try added the secret. RateLimited: too
    many of its secrets work already."""
    stored = store.key(tx, key_id)
    if stored is None or stored.account_id != account_id:
        raise NotFound
    if _has_ended(stored, now_ms):
        raise InvalidRequest(message="this key does not work any more; make another one")
    if store.has_secret(tx, key_sha256(secret)):
        return
    store.remove_ended_secrets(tx, key_id, now_ms)
    if store.count_secrets(tx, key_id) >= secret_limit:
        message = f"{secret_limit} secrets of this key work at once, its limit; wait until one has ended"
        raise RateLimited(message, retry_after_s=120, limit="live_keys")
    store.end_secrets(tx, key_id, now_ms + grace_ms)
    _add_secret(tx, key_id, secret, now_ms)


def revoke_key(tx: Transaction, key_id: str, *, now_ms: int) -> None:
    """Refuse the key from the next request on."""
    if store.key(tx, key_id) is None:
        raise NotFound(f"there is no key {key_id!r}; `tenuto admin keys list` lists them")
    store.revoke(tx, key_id, now_ms)


def revoke_own_key(tx: Transaction, key_id: str, *, account_id: str, now_ms: int) -> None:
    """The same for a key of this account; any other is not found."""
    stored = store.key(tx, key_id)
    if stored is None or stored.account_id != account_id:
        raise NotFound
    store.revoke(tx, key_id, now_ms)


def list_keys(tx: Transaction, account_id: str | None = None) -> list[KeyRow]:
    """Keys with their prefix and last four characters, never the secret."""
    return store.keys(tx, account_id)


def page_of_keys(
    tx: Transaction, account_id: str, *, after: str | None, limit: int
) -> tuple[list[KeyRow], str | None]:
    """An account's keys, newest first, with the cursor of the next page."""
    keys = store.page_of_keys(tx, account_id, after=after, limit=limit + 1)
    return keys[:limit], keys[limit - 1].id if len(keys) > limit else None


def read_key(tx: Transaction, key_id: str) -> KeyRow:
    """A key that is known to exist, as lists show it."""
    key = store.key_with_secret(tx, key_id)
    assert key is not None, "the key was made in this transaction"
    return key


def has_key(tx: Transaction, key_id: str) -> bool:
    """Whether the key exists."""
    return store.key(tx, key_id) is not None


def check_new_key(
    tx: Transaction, account_id: str, *, live_limit: int, hourly_limit: int, now_ms: int
) -> None:
    """Raise RateLimited if the account is at its limit of working keys, or of new keys within an hour."""
    store.lock_account(tx, account_id)
    if store.live_keys(tx, account_id, now_ms, live_limit + 1) >= live_limit:
        message = f"this account has {live_limit} keys that work, its limit; revoke one that you do not need"
        raise RateLimited(message, retry_after_s=120, limit="live_keys")
    made_at = store.nth_newest_key_made_at(tx, account_id, hourly_limit)
    if made_at is not None and now_ms - HOUR_MS < made_at <= now_ms:
        message = f"this account has made {hourly_limit} keys within an hour, its limit; make more later"
        raise RateLimited(message, retry_after_s=120, limit="new_keys")


def authenticate(tx: Transaction, key: str, *, now_ms: int) -> Caller:
    """The caller behind a key. Raises InvalidApiKey, which never says what is wrong with it."""
    return ask_caller(tx, key, now_ms=now_ms)()


def ask_caller(tx: Asking, key: str, *, now_ms: int) -> Callable[[], Caller]:
    """Ask for a key's caller; the function returned reads the answer. Both raise InvalidApiKey."""
    if not is_well_formed(key):
        raise InvalidApiKey
    return partial(_caller, store.ask_caller(tx, key_sha256(key), now_ms))


def _caller(asked: DeferredRecord[CallerRow]) -> Caller:
    row = asked.one()
    if row is None:
        raise InvalidApiKey
    try:
        allowed = models_set(row.account_models), models_set(row.key_models)
    except RestrictionDamaged:
        # Which models it may use is unknown, and allowing all could be more than was granted.
        _log.error("record.damaged", id=row.key_id, account_id=row.account_id, column="models")
        raise InvalidApiKey from None
    return Caller(row.key_id, row.account_id, *allowed)


def note_use(tx: Transaction, used: dict[str, int]) -> None:
    """Record when keys were last used, for display."""
    for key_id, at_ms in used.items():
        store.set_last_used(tx, key_id, at_ms)


@lru_cache(maxsize=1024)
def models_set(models: str | None) -> frozenset[str] | None:
    """Decode a stored restriction; None: unrestricted. Raises RestrictionDamaged."""
    try:
        return None if models is None else frozenset(msgspec.json.decode(models, type=list[str]))
    except (ValueError, TypeError) as error:
        raise RestrictionDamaged from error


def readable_models(models: str | None) -> tuple[list[str] | None, bool]:
    """A restriction as lists show it, and whether it is damaged; a damaged one allows no model."""
    try:
        allowed = models_set(models)
    except RestrictionDamaged:
        return [], True
    return None if allowed is None else sorted(allowed), False


def _has_ended(key: LockedKeyRow, now_ms: int) -> bool:
    """Whether it was revoked or has expired: no secret of it will ever work again."""
    return key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now_ms)


def _add_secret(tx: Transaction, key_id: str, key: str, now_ms: int) -> str:
    store.add_secret(tx, key_id, sha256=key_sha256(key), prefix=key[:7], last_four=key[-4:], now_ms=now_ms)
    return key


def _models_json(models: list[str] | None) -> str | None:
    return None if models is None else json.dumps(sorted(set(models)), ensure_ascii=False)
