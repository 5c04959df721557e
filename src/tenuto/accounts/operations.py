"""What can be done with accounts and keys: make, list, restrict, rotate, revoke, authenticate.

Each function is one operation on one transaction. Money is not known here: see `billing`.
"""

import json
import secrets
from collections.abc import Callable
from functools import lru_cache

from tenuto.accounts import store
from tenuto.accounts.rules import Caller, check_name, is_well_formed, key_sha256, make_key
from tenuto.db.database import Row, Transaction
from tenuto.errors import InvalidApiKey, NotFound, OperatorError
from tenuto.ids import Ids


def create_account(tx: Transaction, ids: Ids, *, name: str, now_ms: int) -> str:
    """A new account without credit; gives its id."""
    check_name(name, "an account")
    if store.account_by_name(tx, name) is not None:
        raise OperatorError(f"there is an account named {name!r} already")
    account_id = ids.new("account")
    store.add_account(tx, account_id, name, now_ms)
    return account_id


def by_name(tx: Transaction, name: str) -> Row | None:
    """The account of this name, if there is one."""
    return store.account_by_name(tx, name)


def find_account(tx: Transaction, name_or_id: str) -> Row:
    """The account of this name or id."""
    row = store.account_by_name(tx, name_or_id) or store.account(tx, name_or_id)
    if row is None:
        raise OperatorError(
            f"there is no account {name_or_id!r}; `tenuto accounts list` shows those there are"
        )
    return row


def list_accounts(tx: Transaction) -> list[Row]:
    """All accounts, oldest first."""
    return store.accounts(tx)


def restrict_account(tx: Transaction, *, account_id: str, models: list[str] | None) -> None:
    """The models that the operator allows from now on; None allows all."""
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
) -> tuple[str, str]:
    """A new key: its id, and the key itself, which can't be had again."""
    check_name(name, "a key")
    key_id = ids.new("key")
    store.add_key(
        tx,
        key_id,
        account_id=account_id,
        name=name,
        models=_models_json(models),
        expires_at=expires_at,
        now_ms=now_ms,
    )
    return key_id, _add_secret(tx, key_id, now_ms, random_below)


def rotate_key(
    tx: Transaction,
    key_id: str,
    *,
    grace_ms: int,
    now_ms: int,
    random_below: Callable[[int], int] = secrets.randbelow,
) -> str:
    """A new secret under the same key id; the old ones work for `grace_ms` more."""
    row = store.key(tx, key_id)
    if row is None or row["revoked_at"] is not None:
        raise OperatorError(
            f"there is no key {key_id!r} that could be rotated; `tenuto keys list` shows them"
        )
    store.end_secrets(tx, key_id, now_ms + grace_ms)
    return _add_secret(tx, key_id, now_ms, random_below)


def revoke_key(tx: Transaction, key_id: str, *, now_ms: int) -> None:
    """From the next request on the key is refused."""
    if store.key(tx, key_id) is None:
        raise NotFound(f"there is no key {key_id!r}; `tenuto keys list` shows those there are")
    store.revoke(tx, key_id, now_ms)


def revoke_own_key(tx: Transaction, key_id: str, *, account_id: str, now_ms: int) -> None:
    """The same for a key of this account; any other is not found."""
    row = store.key(tx, key_id)
    if row is None or row["account_id"] != account_id:
        raise NotFound
    store.revoke(tx, key_id, now_ms)


def list_keys(tx: Transaction, account_id: str | None = None) -> list[Row]:
    """Keys with prefix and last four characters, never the secret."""
    return store.keys(tx, account_id)


def authenticate(tx: Transaction, key: str, *, now_ms: int) -> Caller:
    """The caller behind a key. Raises InvalidApiKey, which never says what is wrong with it."""
    if not is_well_formed(key):
        raise InvalidApiKey
    row = store.caller(tx, key_sha256(key), now_ms)
    if row is None:
        raise InvalidApiKey
    return Caller(
        row["key_id"], row["account_id"], models_set(row["account_models"]), models_set(row["key_models"])
    )


def note_use(tx: Transaction, used: dict[str, int]) -> None:
    """When keys were last used, for people to see."""
    for key_id, at_ms in used.items():
        store.set_last_used(tx, key_id, at_ms)


@lru_cache(maxsize=1024)
def models_set(models: str | None) -> frozenset[str] | None:
    """A restriction as it is stored; None: there is none."""
    return None if models is None else frozenset(json.loads(models))


def _add_secret(tx: Transaction, key_id: str, now_ms: int, random_below: Callable[[int], int]) -> str:
    key = make_key(random_below)
    store.add_secret(tx, key_id, sha256=key_sha256(key), prefix=key[:7], last_four=key[-4:], now_ms=now_ms)
    return key


def _models_json(models: list[str] | None) -> str | None:
    return None if models is None else json.dumps(sorted(set(models)), ensure_ascii=False)
