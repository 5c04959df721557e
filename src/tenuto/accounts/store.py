"""The rows of accounts and keys. Takes a transaction, never commits, decides nothing."""

from tenuto.db.database import Row, Transaction


def add_account(tx: Transaction, account_id: str, name: str, now_ms: int) -> None:
    tx.run(
        "insert into account (id, name, created_at) values (:id, :name, :now)",
        id=account_id,
        name=name,
        now=now_ms,
    )


def account_by_name(tx: Transaction, name: str) -> Row | None:
    return tx.one("select * from account where name = :name", name=name)


def account(tx: Transaction, account_id: str) -> Row | None:
    return tx.one("select * from account where id = :id", id=account_id)


def accounts(tx: Transaction) -> list[Row]:
    return tx.all("select * from account order by id")


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


def end_secrets(tx: Transaction, key_id: str, ends_at: int) -> int:
    """The secrets of a key that go on beyond `ends_at` end there."""
    return tx.run(
        """update api_key_secret set expires_at = :ends_at
           where key_id = :key_id and (expires_at is null or expires_at > :ends_at)""",
        key_id=key_id,
        ends_at=ends_at,
    )


def set_suspended(tx: Transaction, account_id: str, at_ms: int | None) -> int:
    return tx.run("update account set suspended_at = :at where id = :id", id=account_id, at=at_ms)


def key(tx: Transaction, key_id: str) -> Row | None:
    """A key that somebody can send: the studio's own have no secret, and are not to be given one."""
    return tx.one(
        """select * from api_key
           where id = :id and exists (select 1 from api_key_secret s where s.key_id = api_key.id)
           for update""",
        id=key_id,
    )


def revoke(tx: Transaction, key_id: str, now_ms: int) -> int:
    return tx.run(
        "update api_key set revoked_at = :now where id = :id and revoked_at is null", id=key_id, now=now_ms
    )


def keys(tx: Transaction, account_id: str | None) -> list[Row]:
    """Every key with the prefix and last four characters of its newest secret."""
    return tx.all(
        """select k.*, a.name as account_name, s.prefix, s.last_four
           from api_key k
           join account a on a.id = k.account_id
           join api_key_secret s on s.sha256 = (
               select sha256 from api_key_secret n where n.key_id = k.id
               order by n.created_at desc, n.sha256 limit 1)
           where cast(:account_id as text) is null or k.account_id = :account_id
           order by k.id""",
        account_id=account_id,
    )


def caller(tx: Transaction, sha256: str, now_ms: int) -> Row | None:
    """The key and account behind a secret that is valid now."""
    return tx.one(
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
