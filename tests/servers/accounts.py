"""Accounts and keys made straight in a service's database, by the operations of the operator's own commands.

A command takes as long as a process takes to start; this way a test can afford an account of its own.
"""

import time
from collections.abc import Iterable

from tenuto.account import operations as accounts
from tenuto.db.database import Database, Transaction
from tenuto.errors import OperatorError
from tenuto.ids import Ids
from tenuto.money import operations as billing
from tenuto.money.rules import parse_cny


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create_account(tx: Transaction, ids: Ids, name: str, *, credit: str) -> str:
    """A new account with so much credit in CNY; its id."""
    account_id = accounts.create_account(tx, ids, name=name, now_ms=now_ms())
    if amount := parse_cny(credit):
        billing.credit(
            tx, ids.new("entry"), account_id=account_id, amount_micros=amount, note="opening", now_ms=now_ms()
        )
    return account_id


def create_key(
    tx: Transaction,
    ids: Ids,
    account_id: str,
    *,
    models: Iterable[str] | None = None,
    expires_at: int | None = None,
) -> tuple[str, str]:
    """A further key of an account: its id, and what is shown once."""
    allowed = None if models is None else list(models)
    return accounts.create_key(
        tx,
        ids,
        account_id=account_id,
        name="test",
        models=allowed,
        expires_at=expires_at,
        now_ms=now_ms(),
    )


def key_of(database: Database, name: str, *, credit: str) -> str:
    """A new key of the account of this name, which is made when it is not there."""
    ids = Ids(now_ms)

    def make(tx: Transaction) -> str:
        try:
            account_id = accounts.find_account(tx, name).id
        except OperatorError:
            account_id = create_account(tx, ids, name, credit=credit)
        return create_key(tx, ids, account_id)[1]

    return database.write(make)
