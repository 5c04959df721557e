"""Logging in to a service that the same user runs on this machine, for `tenuto_client.commands.local`.

A user who can write to the data folder could run `tenuto admin keys create`; this does it for them.
"""

import getpass
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from tenuto.errors import InvalidApiKey, OperatorError, TenutoError
from tenuto.process.local_services import ServiceNote, live_services

if TYPE_CHECKING:
    from tenuto.config import Settings
    from tenuto.db.database import Database, Transaction
    from tenuto.ids import Ids

KEY_NAME = "command line"
"""The name of every key that is made here; logging out revokes no other keys."""


def services() -> Sequence["LocalService"]:
    """The services that are running now."""
    return [LocalService(note) for note in live_services()]


def names(kind: str) -> list[str]:
    """The accounts in the data folder that a command without options would use; creates nothing."""
    from tenuto.account import operations
    from tenuto.command.options import ServiceLocation
    from tenuto.db.damaged_text import text_of
    from tenuto.process.data_opening import open_as_it_is

    if kind != "accounts":
        return []
    with closing(open_as_it_is(ServiceLocation().settings())) as database:
        return [text_of(account.name) for account in database.read(operations.list_accounts)]


class LocalService:
    """A service that runs on this machine as this user."""

    def __init__(self, note: ServiceNote) -> None:
        self.url, self.folder = note.url, note.folder
        self._note = note

    def new_key(self) -> tuple[str, str]:
        """A new key and its account's name: the operator's, else the only account, else a new one."""
        from tenuto.account import operations
        from tenuto.command.common import new_ids, settle
        from tenuto.process.runtime import clock

        ids, now_ms = new_ids(), clock()
        key_id = ids.new("key")

        with self._records() as (settings, database):

            def make(tx: "Transaction") -> tuple[str, str]:
                account_id = _account(tx, settings, ids, now_ms=now_ms)
                _, key = operations.create_key(
                    *(tx, ids),
                    key_id=key_id,
                    account_id=account_id,
                    name=KEY_NAME,
                    models=None,
                    expires_at=None,
                    now_ms=now_ms,
                )
                return key, operations.find_account(tx, account_id).name

            return settle(database, make)

    def revoke(self, key: str) -> bool:
        """Revoke a key that was made here; False for any other key."""
        from tenuto.account import operations
        from tenuto.process.runtime import clock

        def end(tx: "Transaction") -> bool:
            try:
                key_id = operations.authenticate(tx, key, now_ms=clock()).key_id
            except InvalidApiKey:
                return False
            if operations.read_key(tx, key_id).name != KEY_NAME:
                return False
            operations.revoke_key(tx, key_id, now_ms=clock())
            return True

        with self._records() as (_, database):
            return database.write(end)

    def credit_command(self, key: str) -> str | None:
        """The command that adds credit to a key's account; None if the account cannot be read."""
        from tenuto.account import operations
        from tenuto.process.runtime import clock

        def find(tx: "Transaction") -> str:
            account_id = operations.authenticate(tx, key, now_ms=clock()).account_id
            return operations.find_account(tx, account_id).name

        try:
            with self._records() as (_, database):
                name = database.read(find)
        except TenutoError:
            return None
        return f"tenuto admin accounts credit {shlex.quote(name)} 10 --data {shlex.quote(self.folder)}"

    @contextmanager
    def _records(self) -> "Iterator[tuple[Settings, Database]]":
        from tenuto import config
        from tenuto.process.data_opening import open_as_it_is

        names = ("folder", "database", "prices", "initial_credit")
        settings = config.load({}, options={name: getattr(self._note, name) for name in names})
        with closing(open_as_it_is(settings)) as database:
            yield settings, database


def _account(tx: "Transaction", settings: "Settings", ids: "Ids", *, now_ms: int) -> str:
    from tenuto.features.studio import invitations
    from tenuto.features.studio import people_operations as people

    accounts = people.list_people(tx, after=None, limit=1000, now_ms=now_ms)
    operators = [account for account in accounts if account.operator]
    if operators or len(accounts) == 1:
        return (operators or accounts)[0].id
    if accounts:
        raise OperatorError(
            "this service has several accounts and no operator; create a key with"
            f" `tenuto admin keys create --account NAME --data {settings.folder}`, then run `tenuto login`"
        )
    account_id = people.new_account(tx, ids, name=getpass.getuser(), now_ms=now_ms)
    invitations.give_opening(tx, ids, settings, account_id, now_ms=now_ms)
    return account_id
