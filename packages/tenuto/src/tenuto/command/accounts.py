"""`tenuto admin accounts`: who calls, and who pays."""

import argparse
import shlex

from tenuto.command.common import (
    change,
    json_line,
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
from tenuto.command.options import add_entry, add_location, location_of
from tenuto.process.runtime import clock
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """The commands and their options."""
    create = parser.add_verb("create", "Create an account.", "add")
    create.add_argument("name", metavar="NAME", help=t("the name of the account; must be unique"))
    create.add_argument(
        "--credit",
        metavar="CNY",
        help=t("opening credit, such as 10 or 0 (default: the setting initial_credit, 20)"),
    )
    every = parser.add_verb("list", "List accounts and their balances.", "ls")
    credit = parser.add_verb("credit", "Add credit, or take back available credit.")
    credit.add_argument("name", metavar="ACCOUNT", help=t("the name or id of the account"))
    credit.add_argument("amount", metavar="CNY", help=t("the amount, such as 10 or -2.5"))
    add_entry(credit)
    for command in (create, every):
        command.add_json()
    for command, run in {create: _create, every: _list, credit: _credit}.items():
        add_location(command)
        command.set_defaults(run=run)


def _create(options: argparse.Namespace, console: Console) -> int:
    """Create an account, with its opening credit."""
    from tenuto.account import operations
    from tenuto.db.database import Transaction
    from tenuto.money import operations as billing
    from tenuto.money.rules import cny, parse_cny

    name, location, settings = options.name, location_of(options), location_of(options).settings()
    amount = settings.initial_credit_micros() if options.credit is None else parse_cny(options.credit)
    ids, now_ms = new_ids(), clock()
    account_id = ids.new("account")

    def create(tx: Transaction) -> None:
        if operations.has_account(tx, account_id):
            return  # Made by an earlier try whose response was lost.
        operations.create_account(tx, ids, name=name, now_ms=now_ms, account_id=account_id)
        if amount:
            entry_id = ids.new("entry")
            billing.credit(
                tx, entry_id, account_id=account_id, amount_micros=amount, note="opening", now_ms=now_ms
            )

    change(location, create, creates=True)
    if options.as_json:
        report(json_line({"id": account_id, "name": name, "available": cny(amount)}))
    else:
        report(f"{account_id}  {name}" + ("" if settings.prices == "free" else f"  {cny(amount)} CNY"))
        tell(
            f"To create a key for it: tenuto admin keys create --account {shlex.quote(name)}{location.again}"
        )
    return 0


def _list(options: argparse.Namespace, console: Console) -> int:
    """List the accounts and their balances."""
    from tenuto.account import operations
    from tenuto.db.damaged_text import text_of
    from tenuto.money.rules import cny

    location = location_of(options)
    is_free = location.settings().prices == "free"
    with records(location) as database:
        accounts = database.read(operations.list_accounts)
    listed = [
        {
            "id": account.id,
            "name": text_of(account.name),
            "available": cny(account.available_micros),
            "held": cny(account.held_micros),
            "state": "active" if account.suspended_at is None else "suspended",
            "created": moment(account.created_at),
        }
        for account in accounts
    ]
    if options.as_json:
        say(json_line(listed))
    else:
        headings = ["id", "name", *([] if is_free else ["available", "held"]), "state", "created"]
        table(headings, ([line[heading] for heading in headings] for line in listed))
    return 0


def _credit(options: argparse.Namespace, console: Console) -> int:
    """Add credit, or take available credit back with a negative amount."""
    from tenuto.account import operations
    from tenuto.db.database import Transaction
    from tenuto.money import operations as billing
    from tenuto.money.rules import cny, parse_cny

    name, location = options.name, location_of(options)
    micros, now_ms = parse_cny(options.amount), clock()
    entry_id = named_entry(options.entry)

    def add(tx: Transaction) -> int:
        account_id = operations.find_account(tx, name).id
        billing.credit(tx, entry_id, account_id=account_id, amount_micros=micros, note=None, now_ms=now_ms)
        return operations.find_account(tx, account_id).available_micros

    command = f"tenuto admin accounts credit {shlex.quote(name)} {options.amount}"
    available = change(location, add, again=once_more(command, entry_id, location))
    if location.settings().prices == "free":
        report(t("{name}: nothing costs anything on this service", name=name))
    else:
        report(t("{name}: {available} CNY available", name=name, available=cny(available)))
    return 0
