"""`tenuto admin accounts invite`, `suspend` and `unsuspend`: who may sign in."""

import argparse

from tenuto.command.common import change, json_line, new_ids, report, tell
from tenuto.command.options import add_location, location_of
from tenuto.process.runtime import clock
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """The options of one of the three commands."""
    parser.add_argument("name", metavar="ACCOUNT", help=t("the name or id of the account"))
    if name == "invite":
        parser.add_json()
    add_location(parser)
    parser.set_defaults(run={"invite": _invite, "suspend": _suspend, "unsuspend": _unsuspend}[name])


def _invite(options: argparse.Namespace, console: Console) -> int:
    """Print a link that sets a password in the studio, once, within a week; it replaces earlier links.

    An account that does not exist is created.
    """
    from tenuto.account import operations
    from tenuto.db.database import Transaction
    from tenuto.features.studio import invitations, sessions
    from tenuto.features.studio import people_operations as people
    from tenuto.ids import is_id
    from tenuto.worker.locks import serving_at

    name, location = options.name, location_of(options)
    settings, ids, now_ms = location.settings(), new_ids(), clock()
    token = sessions.new_token()

    def invite(tx: Transaction) -> tuple[str, str]:
        account = None if is_id(name, "account") else operations.by_name(tx, name)
        if account is None and not is_id(name, "account"):
            account_id = invitations.open_account(tx, ids, settings, name=name, now_ms=now_ms)
        else:
            account_id = operations.find_account(tx, name).id
        person = people.find_person(tx, account_id, now_ms=now_ms)
        return account_id, invitations.invite(tx, settings, person, token, now_ms=now_ms)

    account_id, path = change(location, invite, creates=True)
    link = invitations.studio_url(settings, serving_at(settings.folder)) + path
    if options.as_json:
        report(json_line({"id": account_id, "link": link}))
    else:
        report(link)
        tell(f"It sets the password of {account_id}, once, within 7 days. Send it in private.")
    return 0


def _suspend(options: argparse.Namespace, console: Console) -> int:
    """End the account's sessions and refuse its keys at once; jobs that it submitted continue."""
    from tenuto.account import operations
    from tenuto.features.studio import people_operations as people

    name, now_ms = options.name, clock()
    change(
        location_of(options),
        lambda tx: people.suspend(tx, operations.find_account(tx, name).id, now_ms=now_ms),
    )
    report(f"{name} is suspended")
    return 0


def _unsuspend(options: argparse.Namespace, console: Console) -> int:
    """Let a suspended account in again; its keys work as before."""
    from tenuto.account import operations
    from tenuto.features.studio import people_operations as people

    name = options.name
    change(location_of(options), lambda tx: people.resume(tx, operations.find_account(tx, name).id))
    report(f"{name} is no longer suspended")
    return 0
