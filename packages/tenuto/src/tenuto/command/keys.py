"""`tenuto admin keys`: the API keys with which an account authenticates."""

import argparse
import re
from typing import Any

from tenuto.command.common import (
    change,
    json_line,
    model_names,
    moment,
    new_ids,
    records,
    report,
    say,
    table,
    tell,
)
from tenuto.command.options import add_location, location_of
from tenuto.errors import Fault, InvalidRequest
from tenuto.process.runtime import clock
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

_LENGTH = re.compile(r"(\d{1,6})(s|m|h|d)\Z", re.ASCII)
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 24 * 3_600_000}


def add(parser: Parser, name: str) -> None:
    """The commands and their options."""
    create = parser.add_verb("create", "Create an API key; it is shown only once.", "add")
    create.add_argument(
        "--account", required=True, metavar="ACCOUNT", help=t("the name or id of the account")
    )
    create.add_argument("--name", default="default", metavar="NAME", help=t("what the key is for"))
    create.add_argument(
        "--models", metavar="A,B", help=t("allow only these models, comma-separated (default: all)")
    )
    create.add_argument(
        "--expires", metavar="TIME", help=t("expire after this time, such as 30d (default: never)")
    )
    every = parser.add_verb("list", "List keys, without their secrets.", "ls")
    every.add_argument("--account", metavar="ACCOUNT", help=t("only keys of this account, by name or id"))
    rotate = parser.add_verb("rotate", "Give a key a new secret; the old one works a while longer.")
    rotate.add_argument(
        "--grace",
        default="24h",
        metavar="TIME",
        help=t("how long the old secret still works, such as 0s, 30m or 7d (default: 24h)"),
    )
    revoke = parser.add_verb("revoke", "Refuse a key from the next request on.", "remove", "rm")
    for command in (rotate, revoke):
        command.add_argument(
            "key_id", metavar="KEY", help=t("the id of the key, as `tenuto admin keys list` shows it")
        )
    for command in (create, every, rotate):
        command.add_json()
    for command, run in {create: _create, every: _list, rotate: _rotate, revoke: _revoke}.items():
        add_location(command)
        command.set_defaults(run=run)


def _create(options: argparse.Namespace, console: Console) -> int:
    """Create an API key and show it."""
    from tenuto.account import operations
    from tenuto.db.database import Transaction

    location, ids, now_ms = location_of(options), new_ids(), clock()
    key_id = ids.new("key")
    allowed = model_names(options.models, location.settings())
    expires_at = None if options.expires is None else now_ms + _duration_ms(options.expires)

    def create(tx: Transaction) -> str:
        account_id = operations.find_account(tx, options.account).id
        return operations.create_key(
            tx,
            ids,
            key_id=key_id,
            account_id=account_id,
            name=options.name,
            models=allowed,
            expires_at=expires_at,
            now_ms=now_ms,
        )[1]

    again = f"revoke it if it exists (tenuto admin keys revoke {key_id}{location.again}) and create another"
    _show_key(key_id, change(location, create, again=again), as_json=options.as_json)
    return 0


def _list(options: argparse.Namespace, console: Console) -> int:
    """List keys: prefix, last four characters, state; never the key itself."""
    from tenuto.account import operations
    from tenuto.account.rows import KeyRow
    from tenuto.db.damaged_text import text_of
    from tenuto.db.database import Transaction

    def read(tx: Transaction) -> list[KeyRow]:
        account = options.account
        account_id = None if account is None else operations.find_account(tx, account).id
        return operations.list_keys(tx, account_id)

    with records(location_of(options)) as database:
        keys = database.read(read)
    restrictions = [operations.readable_models(key.models) for key in keys]
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
        for key, (models, is_damaged) in zip(keys, restrictions, strict=True)
    ]
    if options.as_json:
        say(json_line(listed))
        return 0
    for line in listed:
        names = ["damaged"] if line.pop("damaged") else line["models"]
        line["models"] = "all" if names is None else ",".join(names)
    headings = ("id", "account", "name", "key", "models", "expires", "revoked", "last used")
    table(headings, (line.values() for line in listed))
    return 0


def _rotate(options: argparse.Namespace, console: Console) -> int:
    """Give a key a new secret and show it; the old one works for a while longer."""
    from tenuto.account import operations

    grace_ms, now_ms = _duration_ms(options.grace), clock()
    key = change(
        location_of(options),
        lambda tx: operations.rotate_key(tx, options.key_id, grace_ms=grace_ms, now_ms=now_ms),
        again="rotate it again: a secret that was never shown does no harm",
    )
    _show_key(options.key_id, key, as_json=options.as_json)
    return 0


def _revoke(options: argparse.Namespace, console: Console) -> int:
    """Refuse a key from the next request on."""
    from tenuto.account import operations

    now_ms = clock()
    change(location_of(options), lambda tx: operations.revoke_key(tx, options.key_id, now_ms=now_ms))
    report(f"{options.key_id} is revoked")
    return 0


def _show_key(key_id: str, key: str, *, as_json: bool) -> None:
    if as_json:
        report(json_line({"id": key_id, "key": key}))
        return
    report(key)
    tell(f"This is {key_id}. The key is shown only this once: save it now.")


def _duration_ms(text: str) -> int:
    match = _LENGTH.match(text)
    if match is None:
        message = f"{text!r} is not a length of time; write 30m, 24h or 7d, for example"
        raise InvalidRequest([Fault("duration", "invalid_duration", message)])
    return int(match[1]) * _UNIT_MS[match[2]]
