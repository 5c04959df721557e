"""The key, and what it may use and spend: `login`, `logout`, `whoami`, `models`, `balance` and `usage`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from tenuto_client import reads, settings
from tenuto_client.commands.console import Console, moment
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

KEY_HEAD = 6
"""How many characters at the start of a key are displayed; at its end, four."""


def add(parser: Parser, verb: str) -> None:
    """The options of one command. A key is never an option: other users could read it in the process list."""
    if verb == "login":
        parser.add_argument(
            "address", metavar="URL", nargs="?", help=t("the service (default: that of the last login)")
        )
    elif verb == "models":
        kinds = ("speech", "recognition", "image", "chat")
        parser.add_argument("--kind", choices=kinds, help=t("only models of this kind"))
    elif verb == "usage":
        parser.add_argument(
            "--since", metavar="DAY", help=t("the first day, such as 2026-11-01 (default: 31 days ago)")
        )
        parser.add_argument("--until", metavar="DAY", help=t("the last day (default: today, UTC)"))
    elif verb == "balance":
        parser.add_argument(
            "--ledger", type=int, metavar="N", help=t("show the newest N ledger lines instead")
        )
    parser.common()
    commands = {"login": _login, "logout": _logout, "whoami": _whoami, "models": _models}
    parser.set_defaults(run=(commands | {"balance": _balance, "usage": _usage})[verb])


def _login(options: argparse.Namespace, console: Console) -> int:
    """Ask for a key, and save it if the service accepts it."""
    url = settings.current_url(options.address or options.url)
    if urlsplit(url).scheme == "http" and urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
        console.tell(t("warning: {url} is not encrypted; the key can be read on the way", url=url))
    if sys.stdin.isatty():
        import getpass

        key = getpass.getpass(t("API key for {url}: ", url=url))
    else:
        key = sys.stdin.readline()
    from tenuto_client.drive import Driver

    link = console.link_to(url, key.strip())
    models = Driver(link).run(reads.models(link))
    file = settings.save(settings.Credentials(link.base_url, link.api_key))
    console.tell(t("the key is saved in {file}", file=file))
    _show_key(console, link.base_url, link.api_key, str(file), len(models))
    return 0


def _logout(options: argparse.Namespace, console: Console) -> int:
    url = settings.current_url(options.url)
    if settings.forget(url):
        console.tell(t("the key for {url} is deleted", url=url))
    else:
        console.tell(t("there was no key for {url}", url=url))
    return 0


def _whoami(options: argparse.Namespace, console: Console) -> int:
    source = settings.credentials(None, options.url).source
    link = console.link
    _show_key(console, link.base_url, link.api_key, source, len(console.run(reads.models(link))))
    return 0


def _show_key(console: Console, url: str, key: str, source: str, models: int) -> None:
    masked = f"{key[:KEY_HEAD]}…{key[-4:]}" if len(key) > 2 * KEY_HEAD else "…"
    if console.as_json:
        console.document({"service": url, "key": masked, "source": source, "models": models})
        return
    console.table(("service", "key", "from", "models"), [(url, masked, source, models)])


def _models(options: argparse.Namespace, console: Console) -> int:
    models = [m for m in console.run(reads.models(console.link)) if options.kind in (None, m.kind)]
    rows = [
        (
            model.id,
            model.kind,
            t("yes") if model.callable else t("no: {why}", why=model.callable_reason),
            f"{model.pricing.get('price')} {model.pricing.get('currency')} / {model.pricing.get('unit')}",
            ",".join(model.languages),
        )
        for model in models
    ]
    headings = ("model", "kind", "callable", "price", "languages")
    return _list(console, [dict(model.raw) for model in models], headings, rows)


def _balance(options: argparse.Namespace, console: Console) -> int:
    if options.ledger is not None:
        return _ledger(options.ledger, console)
    amounts = asdict(console.run(reads.balance(console.link)))
    headings = ("available", "held", "total", "currency")
    return _list(console, amounts, headings, [tuple(amounts.values())])


def _ledger(limit: int, console: Console) -> int:
    lines, _ = console.run(reads.ledger(console.link, after=None, limit=limit))
    rows = [(moment(line.created_at), line.type, line.amount, line.currency, line.job_id) for line in lines]
    return _list(console, [asdict(line) for line in lines], ("at", "type", "amount", "currency", "job"), rows)


def _usage(options: argparse.Namespace, console: Console) -> int:
    lines = console.run(reads.usage(console.link, since=options.since, until=options.until))
    rows = [
        (
            *(line.day, line.model, line.jobs, line.characters, line.audio_seconds, line.images, line.chats),
            line.prompt_tokens + line.completion_tokens,
            line.charged,
        )
        for line in lines
    ]
    headings = ("day", "model", "jobs", "characters", "seconds", "images", "chats", "tokens", "charged")
    return _list(console, [asdict(line) for line in lines], headings, rows)


def _list(console: Console, document: Any, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
    """The document with `--json`, else the rows as a table."""
    if console.as_json:
        console.document(document)
    else:
        console.table(headings, rows)
    return 0
