"""`tenuto webhooks`: list, show, add, enable, disable, rotate, remove, test, deliveries, redeliver."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from tenuto_client import reads
from tenuto_client.commands.console import Console, moment
from tenuto_client.commands.parser import Parser, between
from tenuto_client.commands.words import t
from tenuto_client.records import Webhook, WebhookDelivery

EVENTS = ("job.succeeded", "job.failed", "job.cancelled", "job.recovery_required", "balance.low")
BY_DEFAULT = EVENTS[:3]
"""The three ways in which a job finishes."""


def add(parser: Parser, verb: str) -> None:
    """Declare the subcommands and their options."""
    listing = parser.add_verb("list", "List your webhooks.", "ls")
    get = parser.add_verb("show", "Show a webhook.", "get")
    new = _add_adding(parser)
    enable = parser.add_verb("enable", "Enable a webhook again, and send what waited.")
    disable = parser.add_verb("disable", "Send nothing until it is enabled again.")
    rotate = parser.add_verb("rotate", "Get a new secret; the old one signs as well for 24 hours.")
    remove = parser.add_verb("remove", "Delete a webhook with all that waits for it.", "rm")
    test = parser.add_verb("test", "Send a test message.")
    deliveries = parser.add_verb("deliveries", "List what was sent to a webhook, newest first.")
    redeliver = parser.add_verb("redeliver", "Send a message again, under the same id.")
    for command in (get, enable, disable, rotate, remove, test, deliveries, redeliver):
        command.add_argument("webhook", metavar="WEBHOOK", help=t("the id of the webhook"))
    redeliver.add_argument("delivery", metavar="DELIVERY", help=t("the id of the delivery"))
    count = between(1, 100, int)
    deliveries.add_argument(
        *("-n", "--limit"), type=count, default=20, metavar="N", help=t("how many, 1 to 100 (default: 20)")
    )
    deliveries.add_argument("--after", metavar="DELIVERY", help=t("only deliveries older than this one"))
    listing.set_defaults(run=_list)
    new.set_defaults(run=_add)
    get.set_defaults(run=_get)
    enable.set_defaults(run=_switch, enabled=True)
    disable.set_defaults(run=_switch, enabled=False)
    rotate.set_defaults(run=_rotate)
    remove.set_defaults(run=_remove)
    test.set_defaults(run=_test)
    deliveries.set_defaults(run=_deliveries)
    redeliver.set_defaults(run=_redeliver)
    for command in (listing, get, new, enable, disable, rotate, remove, test, deliveries, redeliver):
        command.common()


def _add_adding(parser: Parser) -> Parser:
    new = parser.add_verb("add", "Have a server of yours informed; its secret is shown once.")
    new.add_argument(
        "address", metavar="ADDRESS", help=t("where messages are sent, such as https://example.com/hook")
    )
    new.add_argument(
        "--event",
        choices=EVENTS,
        action="append",
        dest="events",
        help=t("an event, repeatable (default: a job succeeded, failed or was cancelled)"),
    )
    new.add_argument("--description", metavar="TEXT", default="", help=t("a note for people"))
    return new


def _list(options: argparse.Namespace, console: Console) -> int:
    webhooks = console.run(reads.webhooks(console.link))
    if console.as_json:
        console.document([dict(webhook.raw) for webhook in webhooks])
        return 0
    rows = [(one.id, _state(one), ",".join(one.events), one.url) for one in webhooks]
    console.table(("webhook", "state", "events", "address"), rows, spared=("events",))
    return 0


def _get(options: argparse.Namespace, console: Console) -> int:
    return _show(console, console.run(reads.webhook(console.link, options.webhook)))


def _add(options: argparse.Namespace, console: Console) -> int:
    events = list(dict.fromkeys(options.events or BY_DEFAULT))
    flow = reads.create_webhook(console.link, options.address, events, options.description)
    return _show(console, console.run(flow))


def _switch(options: argparse.Namespace, console: Console) -> int:
    flow = reads.change_webhook(console.link, options.webhook, {"enabled": options.enabled})
    return _show(console, console.run(flow))


def _rotate(options: argparse.Namespace, console: Console) -> int:
    return _show(console, console.run(reads.rotate_webhook(console.link, options.webhook)))


def _remove(options: argparse.Namespace, console: Console) -> int:
    console.run(reads.delete_webhook(console.link, options.webhook))
    console.say(options.webhook)
    return 0


def _test(options: argparse.Namespace, console: Console) -> int:
    delivery = console.run(reads.test_webhook(console.link, options.webhook))
    return _show_deliveries(console, [delivery], asdict(delivery))


def _deliveries(options: argparse.Namespace, console: Console) -> int:
    flow = reads.deliveries(console.link, options.webhook, after=options.after, limit=options.limit)
    page, _ = console.run(flow)
    return _show_deliveries(console, page, [asdict(delivery) for delivery in page])


def _redeliver(options: argparse.Namespace, console: Console) -> int:
    delivery = console.run(reads.redeliver(console.link, options.webhook, options.delivery))
    return _show_deliveries(console, [delivery], asdict(delivery))


def _state(webhook: Webhook) -> str:
    if webhook.enabled:
        return t("enabled") if webhook.failing_since is None else t("failing")
    return t("disabled")


def _show(console: Console, webhook: Webhook) -> int:
    """Print one webhook, with its secret if the response has one."""
    if console.as_json:
        console.document(dict(webhook.raw))
        return 0
    fields = {
        "webhook": webhook.id,
        "address": webhook.url,
        "events": ", ".join(webhook.events),
        "description": webhook.description or None,
        "state": _state(webhook),
        "reason": webhook.disabled_because,
        "failing since": moment(webhook.failing_since),
        "created": moment(webhook.created_at),
        "secret": webhook.secret,
    }
    for name, value in fields.items():
        if value is not None:
            console.say(f"{t(name)}: {value}")
    if webhook.secret is not None:
        console.tell(t("save the secret now: it is not shown again"))
    return 0


def _show_deliveries(console: Console, deliveries: list[WebhookDelivery], document: Any) -> int:
    """Print the document with `--json`, else a table."""
    if console.as_json:
        console.document(document)
        return 0
    rows = [
        (
            *(one.id, one.type, one.state, one.attempts, one.status),
            *(moment(one.created_at), moment(one.next_attempt_at), one.error),
        )
        for one in deliveries
    ]
    headings = ("delivery", "event", "state", "attempts", "status", "created", "next attempt", "error")
    console.table(headings, rows, spared=("created", "next attempt", "event"))
    return 0
