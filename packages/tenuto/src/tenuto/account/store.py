"""The rows of accounts and keys. Takes a transaction, never commits, decides nothing."""

from tenuto.account.rows import AccountRow, CallerRow, KeyRow, LockedKeyRow
from tenuto.db import records
from tenuto.db.database import Asking, Transaction
from tenuto.db.records import DeferredRecord

_ACCOUNT = "select id, name, available_micros, held_micros, suspended_at, created_at from account"


def add_account(tx: Transaction, account_id: str, name: str, name_key: str, now_ms: int) -> None:
    tx.run(
        "insert into account (id, name, name_key, created_at) values (:id, :name, :name_key, :now)",
        id=account_id,
        name=name,
        name_key=name_key,
        now=now_ms,
    )


def account_by_name(tx: Transaction, name: str) -> AccountRow | None:
    return records.one(tx, AccountRow, f"{_ACCOUNT} where name = :name", name=name)


def account_by_name_key(tx: Transaction, name_key: str) -> AccountRow | None:
    return records.one(tx, AccountRow, f"{_ACCOUNT} where name_key = :name_key", name_key=name_key)


def account(tx: Transaction, account_id: str) -> AccountRow | None:
    return records.one(tx, AccountRow, f"{_ACCOUNT} where id = :id", id=account_id)


def accounts(tx: Transaction) -> list[AccountRow]:
    return records.all_records(tx, AccountRow, f"{_ACCOUNT} order by id")


def set_account_models(tx: Transaction, account_id: str, models: str | None) -> None:
    tx.run("update account set models = :models where id = :id", models=models, id=account_id)


def add_key(
    tx: Transaction,
    key_id: str,
    *,
    account_id: str,
    name: str,
    models: str | None,
    expires_at: int | None,
    now_ms: int,
) -> None:
    tx.run(
        """insert into api_key (id, account_id, name, models, expires_at, created_at)
           values (:id, :account_id, :name, :models, :expires_at, :now)""",
        id=key_id,
        account_id=account_id,
        name=name,
        models=models,
        expires_at=expires_at,
        now=now_ms,
    )


def add_secret(
    tx: Transaction, key_id: str, *, sha256: str, prefix: str, last_four: str, now_ms: int
) -> None:
    tx.run(
        """insert into api_key_secret (sha256, key_id, prefix, last_four, created_at)
           values (:sha256, :key_id, :prefix, :last_four, :now)""",
        sha256=sha256,
        key_id=key_id,
        prefix=prefix,
        last_four=last_four,
        now=now_ms,
    )


def has_secret(tx: Transaction, sha256: str) -> bool:
    return tx.one("select key_id from api_key_secret where sha256 = :sha256", sha256=sha256) is not None


def end_secrets(tx: Transaction, key_id: str, ends_at: int) -> int:
    """Let the secrets of a key end at `ends_at`, except those that end sooner."""
    return tx.run(
        """update api_key_secret set expires_at = :ends_at
           where key_id = :key_id and (expires_at is null or expires_at > :ends_at)""",
        key_id=key_id,
        ends_at=ends_at,
    )


def remove_ended_secrets(tx: Transaction, key_id: str, now_ms: int) -> None:
    """Remove the key's expired secrets."""
    tx.do(
        "delete from api_key_secret where key_id = :key_id and expires_at <= :now", key_id=key_id, now=now_ms
    )


def count_secrets(tx: Transaction, key_id: str) -> int:
    row = tx.one("select count(*) as n from api_key_secret where key_id = :key_id", key_id=key_id)
    assert row is not None, "a count is always one row"
    return int(row["n"])


def remove_secrets(tx: Transaction, key_id: str) -> None:
    tx.do("delete from api_key_secret where key_id = :key_id", key_id=key_id)


def lock_account(tx: Transaction, account_id: str) -> None:
    tx.ask("select id from account where id = :id for update", id=account_id)


def set_suspended(tx: Transaction, account_id: str, at_ms: int | None) -> int:
    return tx.run("update account set suspended_at = :at where id = :id", id=account_id, at=at_ms)


def key(tx: Transaction, key_id: str) -> LockedKeyRow | None:
    """A key that has a secret, locked: the studio's own keys have none, and must not get one."""
    return records.one(
        tx,
        LockedKeyRow,
        """select account_id, expires_at, revoked_at from api_key
           where id = :id and exists (select 1 from api_key_secret s where s.key_id = api_key.id)
           for update""",
        id=key_id,
    )


def revoke(tx: Transaction, key_id: str, now_ms: int) -> int:
    return tx.run(
        "update api_key set revoked_at = :now where id = :id and revoked_at is null", id=key_id, now=now_ms
    )


_KEYS = """
    select k.id, k.account_id, a.name as account_name, k.name, k.models, k.expires_at, k.revoked_at,
           k.last_used_at, k.created_at, s.prefix, s.last_four
    from api_key k
    join account a on a.id = k.account_id
    join api_key_secret s on s.sha256 = (
        select sha256 from api_key_secret n where n.key_id = k.id
        order by n.created_at desc, n.sha256 limit 1)
"""
# The studio's own key has no secret: it was made with the login and cannot be sent.
_SENDABLE = "exists (select 1 from api_key_secret s where s.key_id = api_key.id)"
AFTER_ALL = "kez"
"""Greater than any key id."""


def page_of_keys(tx: Transaction, account_id: str, *, after: str | None, limit: int) -> list[KeyRow]:
    """An account's keys, newest first."""
    return records.all_records(
        tx,
        KeyRow,
        f"""{_KEYS}
            where (k.account_id, k.id) > (:account_id, '') and (k.account_id, k.id) < (:account_id, :before)
            order by k.account_id desc, k.id desc limit :limit""",
        account_id=account_id,
        before=after or AFTER_ALL,
        limit=limit,
    )


def key_with_secret(tx: Transaction, key_id: str) -> KeyRow | None:
    return records.one(tx, KeyRow, f"{_KEYS} where k.id = :id", id=key_id)


def live_keys(tx: Transaction, account_id: str, now_ms: int, limit: int) -> int:
    """How many keys of the account work and have a secret; those with and without an expiry are each counted
    up to `limit`.
    """
    row = tx.one(
        f"""select (select count(*) from (
                       select 1 as one from api_key where account_id = :account_id and revoked_at is null
                         and expires_at is null and {_SENDABLE} limit :limit) as endless)
                 + (select count(*) from (
                       select 1 as one from api_key where account_id = :account_id and revoked_at is null
                         and expires_at > :now and {_SENDABLE} limit :limit) as ending) as live""",  # noqa: S608
        account_id=account_id,
        now=now_ms,
        limit=limit,
    )
    assert row is not None, "a count is always one row"
    return int(row["live"])


def nth_newest_key_made_at(tx: Transaction, account_id: str, nth: int) -> int | None:
    """When the account's `nth` newest key was made; None: it has had fewer keys."""
    row = tx.one(
        f"""select created_at from api_key where (account_id, id) > (:account_id, '')
             and (account_id, id) < (:account_id, :before) and {_SENDABLE}
           order by account_id desc, id desc limit 1 offset :offset""",  # noqa: S608 (a text of this file)
        account_id=account_id,
        before=AFTER_ALL,
        offset=nth - 1,
    )
    return None if row is None else int(row["created_at"])


def keys(tx: Transaction, account_id: str | None) -> list[KeyRow]:
    """All keys, or all those of one account."""
    return records.all_records(
        tx,
        KeyRow,
        f"""{_KEYS}
           where cast(:account_id as text) is null or k.account_id = :account_id
           order by k.id""",
        account_id=account_id,
    )


def ask_caller(tx: Asking, sha256: str, now_ms: int) -> DeferredRecord[CallerRow]:
    """Ask for the key and account behind a currently valid secret."""
    return records.ask(
        tx,
        CallerRow,
        """select k.id as key_id, k.account_id, k.models as key_models, a.models as account_models
           from api_key_secret s
           join api_key k on k.id = s.key_id
           join account a on a.id = k.account_id
           where s.sha256 = :sha256
             and (s.expires_at is null or s.expires_at > :now)
             and (k.expires_at is null or k.expires_at > :now)
             and k.revoked_at is null and a.suspended_at is null""",
        sha256=sha256,
        now=now_ms,
    )


def set_last_used(tx: Transaction, key_id: str, at_ms: int) -> None:
    tx.run("update api_key set last_used_at = :at where id = :id", id=key_id, at=at_ms)
