"""`tenuto accounts` and `tenuto keys`: who calls, who pays, and what they show to prove it."""

import re
import shlex
from typing import Any

from cyclopts import App

from tenuto import bootstrap
from tenuto.cli.common import (
    HERE,
    AsJson,
    EntryId,
    Names,
    Place,
    change,
    json_line,
    model_names,
    moment,
    named_entry,
    new_ids,
    once_more,
    records,
    report,
    say,
    table,
    tell,
)
from tenuto.errors import Fault, InvalidRequest

_LENGTH = re.compile(r"(\d{1,6})(s|m|h|d)\Z", re.ASCII)
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 24 * 3_600_000}

accounts = App(name="accounts", help="Who calls and who pays.")
keys = App(name="keys", help="API keys: shown once, stored as hashes.")


@accounts.command(name="create")
def create_account(name: str, *, place: Place = HERE, credit: str = "0", as_json: AsJson = False) -> None:
    """Make an account.

    Parameters
    ----------
    name
        What it is called; unique.
    credit
        CNY to begin with, for example 10 or 0.5.
    """
    from tenuto.accounts import operations
    from tenuto.billing import operations as billing
    from tenuto.billing.rules import cny, parse_cny
    from tenuto.db.database import Transaction

    amount = parse_cny(credit)
    ids, now_ms = new_ids(), bootstrap.clock()
    account_id = ids.new("account")

    def create(tx: Transaction) -> None:
        if operations.has_account(tx, account_id):
            return  # By the first try, whose answer was lost.
        operations.create_account(tx, ids, name=name, now_ms=now_ms, account_id=account_id)
        if amount:
            billing.credit(
                tx,
                ids.new("entry"),
                account_id=account_id,
                amount_micros=amount,
                note="opening",
                now_ms=now_ms,
            )

    change(place, create)
    if as_json:
        report(json_line({"id": account_id, "name": name, "available": cny(amount)}))
    else:
        report(f"{account_id}  {name}  {cny(amount)} CNY")
        tell(f"A key for it: tenuto keys create --account {shlex.quote(name)}{place.again}")


@accounts.command(name="list")
def list_accounts(*, place: Place = HERE, as_json: AsJson = False) -> None:
    """List the accounts and their balances."""
    from tenuto.accounts import operations
    from tenuto.billing.rules import cny
    from tenuto.db.damaged_text import text_of

    with records(place) as database:
        found = database.read(operations.list_accounts)
    listed = [
        {
            "id": account.id,
            "name": text_of(account.name),
            "available": cny(account.available_micros),
            "held": cny(account.held_micros),
            "state": "active" if account.suspended_at is None else "suspended",
            "created": moment(account.created_at),
        }
        for account in found
    ]
    if as_json:
        say(json_line(listed))
        return
    table(("id", "name", "available", "held", "state", "created"), (line.values() for line in listed))


@accounts.command(name="credit")
def credit_account(name: str, amount: str, *, entry: EntryId = None, place: Place = HERE) -> None:
    """Add credit, or take available credit back with a negative amount.

    Parameters
    ----------
    name
        The account's name or id.
    amount
        CNY, for example 10 or -2.5.
    """
    from tenuto.accounts import operations
    from tenuto.billing import operations as billing
    from tenuto.billing.rules import cny, parse_cny
    from tenuto.db.database import Transaction

    micros, now_ms = parse_cny(amount), bootstrap.clock()
    entry_id = named_entry(entry)

    def add(tx: Transaction) -> int:
        account_id = operations.find_account(tx, name).id
        billing.credit(tx, entry_id, account_id=account_id, amount_micros=micros, note=None, now_ms=now_ms)
        return operations.find_account(tx, account_id).available_micros

    command = f"tenuto accounts credit {shlex.quote(name)} {amount}"
    available = change(place, add, again=once_more(command, entry_id, place))
    report(f"{name}: {cny(available)} CNY available")


@accounts.command(name="invite")
def invite_account(name: str, *, place: Place = HERE, as_json: AsJson = False) -> None:
    """Print a link that sets a password in the studio, once, within a week; an earlier link ends.

    Parameters
    ----------
    name
        The account's name or id; an account that is not there is made.
    """
    from tenuto.accounts import operations, people, sessions
    from tenuto.db.database import Transaction
    from tenuto.ids import is_id
    from tenuto.web import invitations
    from tenuto.worker.locks import serving_at

    settings, ids, now_ms = place.settings(), new_ids(), bootstrap.clock()
    token = sessions.new_token()

    def invite(tx: Transaction) -> tuple[str, str]:
        found = None if is_id(name, "account") else operations.by_name(tx, name)
        if found is None and not is_id(name, "account"):
            account_id = invitations.open_account(tx, ids, settings, name=name, now_ms=now_ms)
        else:
            account_id = operations.find_account(tx, name).id
        person = people.find_person(tx, account_id, now_ms=now_ms)
        return account_id, invitations.invite(tx, settings, person, token, now_ms=now_ms)

    account_id, path = change(place, invite)
    link = invitations.studio_url(settings, serving_at(settings.folder)) + path
    if as_json:
        report(json_line({"id": account_id, "link": link}))
    else:
        report(link)
        tell(
            f"It sets the password of {account_id}, once, within 7 days. Send it where others cannot read it."
        )


@accounts.command(name="suspend")
def suspend_account(name: str, *, place: Place = HERE) -> None:
    """End the account's sessions and refuse its keys, at once; jobs that it submitted go on.

    Parameters
    ----------
    name
        The account's name or id.
    """
    from tenuto.accounts import operations, people

    now_ms = bootstrap.clock()
    change(place, lambda tx: people.suspend(tx, operations.find_account(tx, name).id, now_ms=now_ms))
    report(f"{name} is suspended")


@accounts.command(name="resume")
def resume_account(name: str, *, place: Place = HERE) -> None:
    """Let a suspended account in again; its keys work as before.

    Parameters
    ----------
    name
        The account's name or id.
    """
    from tenuto.accounts import operations, people

    change(place, lambda tx: people.resume(tx, operations.find_account(tx, name).id))
    report(f"{name} is not suspended")


@keys.command(name="create")
def create_key(
    *,
    account: str,
    name: str = "default",
    models: Names = None,
    expires: str | None = None,
    place: Place = HERE,
    as_json: AsJson = False,
) -> None:
    """Make an API key; it is shown once.

    Parameters
    ----------
    account
        The account's name or id.
    name
        What the key is for.
    models
        The only models it may use, comma-separated.
    expires
        After how long it ends, for example 30d; leave out for never.
    """
    from tenuto.accounts import operations
    from tenuto.db.database import Transaction

    ids, now_ms = new_ids(), bootstrap.clock()
    key_id = ids.new("key")
    allowed = model_names(models, place.settings())
    expires_at = None if expires is None else now_ms + _duration_ms(expires)

    def create(tx: Transaction) -> str:
        account_id = operations.find_account(tx, account).id
        return operations.create_key(
            tx,
            ids,
            key_id=key_id,
            account_id=account_id,
            name=name,
            models=allowed,
            expires_at=expires_at,
            now_ms=now_ms,
        )[1]

    again = f"revoke it if it is there (tenuto keys revoke {key_id}{place.again}) and create another"
    _show_key(key_id, change(place, create, again=again), as_json=as_json)


@keys.command(name="list")
def list_keys(*, account: str | None = None, place: Place = HERE, as_json: AsJson = False) -> None:
    """List keys: prefix, last four characters, state; never the key itself.

    Parameters
    ----------
    account
        Only this account's, by its name or id.
    """
    from tenuto.accounts import operations
    from tenuto.accounts.rows import KeyRow
    from tenuto.db.damaged_text import text_of
    from tenuto.db.database import Transaction

    def read(tx: Transaction) -> list[KeyRow]:
        account_id = None if account is None else operations.find_account(tx, account).id
        return operations.list_keys(tx, account_id)

    with records(place) as database:
        found = database.read(read)
    restrictions = [operations.shown_models(key.models) for key in found]
    listed: list[dict[str, Any]] = [
        {
            "id": key.id,
            "account": text_of(key.account_name),
            "name": text_of(key.name),
            "key": f"{key.prefix}…{key.last_four}",
            "models": models,
            "expires": moment(key.expires_at),
            "revoked": moment(key.revoked_at),
            "last_used": moment(key.last_used_at),
            "damaged": is_damaged,
        }
        for key, (models, is_damaged) in zip(found, restrictions, strict=True)
    ]
    if as_json:
        say(json_line(listed))
        return
    for line in listed:
        names = ["damaged"] if line.pop("damaged") else line["models"]
        line["models"] = "all" if names is None else ",".join(names)
    headings = ("id", "account", "name", "key", "models", "expires", "revoked", "last used")
    table(headings, (line.values() for line in listed))


@keys.command(name="rotate")
def rotate_key(key_id: str, *, grace: str = "24h", place: Place = HERE, as_json: AsJson = False) -> None:
    """Give a key a new secret; the old one works for a while longer.

    Parameters
    ----------
    key_id
        The key's id, as `tenuto keys list` shows it.
    grace
        How long the old secret still works: 0s, 30m, 24h, 7d.
    """
    from tenuto.accounts import operations

    grace_ms, now_ms = _duration_ms(grace), bootstrap.clock()
    key = change(
        place,
        lambda tx: operations.rotate_key(tx, key_id, grace_ms=grace_ms, now_ms=now_ms),
        again="rotate it again: a secret that nobody was shown harms nobody",
    )
    _show_key(key_id, key, as_json=as_json)


@keys.command(name="revoke")
def revoke_key(key_id: str, *, place: Place = HERE) -> None:
    """Refuse a key from the next request on.

    Parameters
    ----------
    key_id
        The key's id, as `tenuto keys list` shows it.
    """
    from tenuto.accounts import operations

    now_ms = bootstrap.clock()
    change(place, lambda tx: operations.revoke_key(tx, key_id, now_ms=now_ms))
    report(f"{key_id} is revoked")


def _show_key(key_id: str, key: str, *, as_json: bool) -> None:
    if as_json:
        report(json_line({"id": key_id, "key": key}))
        return
    report(key)
    tell(f"This is {key_id}. The key is shown this once: keep it now.")


def _duration_ms(text: str) -> int:
    match = _LENGTH.match(text)
    if match is None:
        message = f"{text!r} is not a length of time; write for example 30m, 24h or 7d"
        raise InvalidRequest([Fault("duration", "invalid_duration", message)])
    return int(match[1]) * _UNIT_MS[match[2]]
