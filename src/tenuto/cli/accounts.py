"""`tenuto accounts` and `tenuto keys`: who calls, who pays, and what they show to prove it."""

import json
import re
import shlex

from cyclopts import App

from tenuto import bootstrap
from tenuto.cli.common import (
    HERE,
    AsJson,
    Names,
    Place,
    change,
    json_line,
    model_names,
    moment,
    new_ids,
    records,
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

    def create(tx: Transaction) -> str:
        account_id = operations.create_account(tx, ids, name=name, now_ms=now_ms)
        if amount:
            billing.credit(
                tx, ids, account_id=account_id, amount_micros=amount, note="opening", now_ms=now_ms
            )
        return account_id

    account_id = change(place, create)
    if as_json:
        say(json_line({"id": account_id, "name": name, "available": cny(amount)}))
    else:
        say(f"{account_id}  {name}  {cny(amount)} CNY")
        tell(f"A key for it: tenuto keys create --account {shlex.quote(name)}{place.again}")


@accounts.command(name="list")
def list_accounts(*, place: Place = HERE, as_json: AsJson = False) -> None:
    """List the accounts and their balances."""
    from tenuto.accounts import operations
    from tenuto.billing.rules import cny

    with records(place) as database:
        rows = database.read(operations.list_accounts)
    listed = [
        {
            "id": row["id"],
            "name": row["name"],
            "available": cny(row["available_micros"]),
            "held": cny(row["held_micros"]),
            "state": "active" if row["suspended_at"] is None else "suspended",
            "created": moment(row["created_at"]),
        }
        for row in rows
    ]
    if as_json:
        say(json_line(listed))
        return
    table(("id", "name", "available", "held", "state", "created"), (line.values() for line in listed))


@accounts.command(name="credit")
def credit_account(name: str, amount: str, *, place: Place = HERE) -> None:
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

    micros = parse_cny(amount)
    ids, now_ms = new_ids(), bootstrap.clock()

    def add(tx: Transaction) -> int:
        account_id = operations.find_account(tx, name)["id"]
        billing.credit(tx, ids, account_id=account_id, amount_micros=micros, note=None, now_ms=now_ms)
        available: int = operations.find_account(tx, account_id)["available_micros"]
        return available

    say(f"{name}: {cny(change(place, add))} CNY available")


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
            account_id = operations.find_account(tx, name)["id"]
        person = people.find_person(tx, account_id, now_ms=now_ms)
        return account_id, invitations.invite(tx, settings, person, token, now_ms=now_ms)

    account_id, path = change(place, invite)
    link = invitations.studio_url(settings, serving_at(settings.folder)) + path
    if as_json:
        say(json_line({"id": account_id, "link": link}))
    else:
        say(link)
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
    change(place, lambda tx: people.suspend(tx, operations.find_account(tx, name)["id"], now_ms=now_ms))
    say(f"{name} is suspended")


@accounts.command(name="resume")
def resume_account(name: str, *, place: Place = HERE) -> None:
    """Let a suspended account in again; its keys work as before.

    Parameters
    ----------
    name
        The account's name or id.
    """
    from tenuto.accounts import operations, people

    change(place, lambda tx: people.resume(tx, operations.find_account(tx, name)["id"]))
    say(f"{name} is not suspended")


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
    allowed = model_names(models, place.settings())
    expires_at = None if expires is None else now_ms + _duration_ms(expires)

    def create(tx: Transaction) -> tuple[str, str]:
        account_id = operations.find_account(tx, account)["id"]
        return operations.create_key(
            tx, ids, account_id=account_id, name=name, models=allowed, expires_at=expires_at, now_ms=now_ms
        )

    _show_key(*change(place, create), as_json=as_json)


@keys.command(name="list")
def list_keys(*, account: str | None = None, place: Place = HERE, as_json: AsJson = False) -> None:
    """List keys: prefix, last four characters, state; never the key itself.

    Parameters
    ----------
    account
        Only this account's, by its name or id.
    """
    from tenuto.accounts import operations
    from tenuto.db.database import Row, Transaction

    def read(tx: Transaction) -> list[Row]:
        account_id = None if account is None else operations.find_account(tx, account)["id"]
        return operations.list_keys(tx, account_id)

    with records(place) as database:
        rows = database.read(read)
    listed = [
        {
            "id": row["id"],
            "account": row["account_name"],
            "name": row["name"],
            "key": f"{row['prefix']}…{row['last_four']}",
            "models": None if row["models"] is None else json.loads(row["models"]),
            "expires": moment(row["expires_at"]),
            "revoked": moment(row["revoked_at"]),
            "last_used": moment(row["last_used_at"]),
        }
        for row in rows
    ]
    if as_json:
        say(json_line(listed))
        return
    for line in listed:
        line["models"] = "all" if line["models"] is None else ",".join(line["models"])
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
    key = change(place, lambda tx: operations.rotate_key(tx, key_id, grace_ms=grace_ms, now_ms=now_ms))
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
    say(f"{key_id} is revoked")


def _show_key(key_id: str, key: str, *, as_json: bool) -> None:
    if as_json:
        say(json_line({"id": key_id, "key": key}))
        return
    say(key)
    tell(f"This is {key_id}. The key is shown this once: keep it now.")


def _duration_ms(text: str) -> int:
    match = _LENGTH.match(text)
    if match is None:
        message = f"{text!r} is not a length of time; write for example 30m, 24h or 7d"
        raise InvalidRequest([Fault("duration", "invalid_duration", message)])
    return int(match[1]) * _UNIT_MS[match[2]]
