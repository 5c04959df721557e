"""`tenuto balance` and `tenuto usage`."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from tenuto_client import reads
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, verb: str) -> None:
    """Their options."""
    if verb == "usage":
        parser.add_argument(
            "--since", metavar="DAY", help=t("the first day, such as 2026-11-01 (default: 31 days ago)")
        )
        parser.add_argument("--until", metavar="DAY", help=t("the last day (default: today, UTC)"))
    else:
        parser.add_argument(
            "--ledger", type=int, metavar="N", help=t("show the newest N ledger lines instead")
        )
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Show them."""
    if hasattr(options, "since"):
        return _usage(options, console)
    return _balance(console) if options.ledger is None else _ledger(options.ledger, console)


def _balance(console: Console) -> int:
    found = console.run(reads.balance(console.link))
    if console.as_json:
        console.document(asdict(found))
    else:
        console.table(("available", "held", "total", "currency"), [tuple(asdict(found).values())])
    return 0


def _ledger(limit: int, console: Console) -> int:
    from tenuto_client.commands.jobs import moment

    found, _ = console.run(reads.ledger(console.link, after=None, limit=limit))
    if console.as_json:
        console.document([asdict(line) for line in found])
        return 0
    rows = [(moment(line.created_at), line.type, line.amount, line.currency, line.job_id) for line in found]
    console.table(("at", "type", "amount", "currency", "job"), rows)
    return 0


def _usage(options: argparse.Namespace, console: Console) -> int:
    found = console.run(reads.usage(console.link, since=options.since, until=options.until))
    if console.as_json:
        console.document([asdict(line) for line in found])
        return 0
    rows = [
        (
            *(line.day, line.model, line.jobs, line.characters, line.audio_seconds, line.images, line.chats),
            line.prompt_tokens + line.completion_tokens,
            line.charged,
        )
        for line in found
    ]
    headings = ("day", "model", "jobs", "characters", "seconds", "images", "chats", "tokens", "charged")
    console.table(headings, rows)
    return 0
