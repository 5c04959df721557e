"""The key, and what it can use and spend: `login`, `logout`, `whoami`, `models`, `balance` and `usage`."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from tenuto_client import reads, settings
from tenuto_client.commands import local
from tenuto_client.commands.console import Console, masked, moment
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t
from tenuto_client.errors import NotConfigured


def add(parser: Parser, verb: str) -> None:
    """The options of one command. A key is never an option: other users could read it in the process list."""
    if verb in ("login", "logout"):
        parser.add_argument(
            "address", metavar="URL", nargs="?", help=t("the service (default: that of the last login)")
        )
    if verb == "login":
        ways = parser.add_mutually_exclusive_group()
        ways.add_argument(
            "--local",
            action="store_true",
            help=t("log in to your own service on this machine, without a key"),
        )
        ways.add_argument("--list", action="store_true", dest="only_list", help=t("list the saved logins"))
    elif verb == "models":
        kinds = ("speech", "recognition", "image", "chat", "embedding")
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
    """Log in to the user's own service, or ask for a key and save it if the service accepts it."""
    if options.only_list:
        return _logins(console)
    named = options.address or options.url
    running = local.services(named if options.local else settings.chosen_url(named))
    if options.local and len(running) != 1:
        raise (
            local.not_logged_in(running)
            if running
            else NotConfigured("no service of yours runs on this machine", remedy="tenuto serve")
        )
    if options.local or (len(running) == 1 and console.can_ask and local.ask(console, running[0])):
        login = local.log_in(console, running[0])
    else:
        login = _log_in_with_key(console, settings.current_url(named))
    _show_key(console, *login)
    return 0


def _log_in_with_key(console: Console, url: str) -> tuple[settings.Credentials, int]:
    if urlsplit(url).scheme == "http" and not _is_here(url):
        console.tell(t("warning: {url} is not encrypted; the key can be read on the way", url=url))
    if sys.stdin.isatty():
        import getpass

        _check_answers(url)
        key = getpass.getpass(t("API key for {url}: ", url=url))
    else:
        key = sys.stdin.readline()
    login, models = local.save(console, url, key.strip())
    console.tell(t("the key is saved in {file}", file=login.source))
    return login, models


def _check_answers(url: str) -> None:
    """Raises NotConfigured, before a key is asked for, if a service on this machine does not answer."""
    parts = urlsplit(url)
    if not _is_here(url):
        return
    try:
        socket.create_connection((parts.hostname, parts.port or 80), timeout=2).close()
    except OSError:
        raise NotConfigured(
            f"no service runs at {url}", remedy=t("tenuto serve, or: tenuto login URL")
        ) from None


def _is_here(url: str) -> bool:
    return urlsplit(url).hostname in settings.THIS_MACHINE


def _logins(console: Console) -> int:
    logins = settings.logins()
    current = settings.chosen_url(None)
    rows = [(login.base_url, masked(login.api_key), login.base_url == current) for login in logins]
    headings = ("service", "key", "default")
    document = [dict(zip(headings, row, strict=True)) for row in rows]
    return _list(console, document, headings, [(*row[:2], t("yes") if row[2] else "") for row in rows])


def _logout(options: argparse.Namespace, console: Console) -> int:
    """Delete a saved key; revoke it as well if it was made for this login."""
    url = settings.current_url(options.address or options.url)
    key = settings.saved_key(url)
    if key is None:
        console.tell(t("there was no key for {url}", url=url))
        return 0
    settings.forget(url)
    for service in local.services(url):
        service.revoke(key)
    console.tell(t("the key for {url} is deleted", url=url))
    return 0


def _whoami(options: argparse.Namespace, console: Console) -> int:
    models = len(console.run(reads.models(console.link)))
    _show_key(console, settings.credentials(None, options.url), models)
    return 0


def _show_key(console: Console, login: settings.Credentials, models: int) -> None:
    key = masked(login.api_key)
    if console.as_json:
        console.document({"service": login.base_url, "key": key, "source": login.source, "models": models})
        return
    console.table(("service", "key", "from", "models"), [(login.base_url, key, login.source, models)])


def _models(options: argparse.Namespace, console: Console) -> int:
    models = [m for m in console.run(reads.models(console.link)) if options.kind in (None, m.kind)]
    rows = [
        (
            model.id,
            model.kind,
            t("yes") if model.callable else t("no: {why}", why=model.callable_reason),
            _price(model.pricing),
            ",".join(model.languages),
        )
        for model in models
    ]
    headings = ("model", "kind", "callable", "price", "languages")
    return _list(console, [dict(model.raw) for model in models], headings, rows, amounts=("price",))


def _balance(options: argparse.Namespace, console: Console) -> int:
    if options.ledger is not None:
        return _ledger(options.ledger, console)
    amounts = asdict(console.run(reads.balance(console.link)))
    if not console.as_json and not float(amounts["total"]) and _is_free(console):
        console.tell(t("nothing costs anything on this service"))
    headings = ("available", "held", "total", "currency")
    return _list(console, amounts, headings, [tuple(amounts.values())])


def _is_free(console: Console) -> bool:
    """Whether no model of the service costs anything."""
    models = console.run(reads.models(console.link))
    names = ("price", "hold", "output_price")
    return not any(float(model.pricing.get(name) or 0) for model in models for name in names)


def _price(pricing: Mapping[str, Any]) -> str:
    """The price as text; per million tokens, that of input, then that of output."""
    amounts = [str(pricing[name]) for name in ("price", "output_price") if name in pricing]
    if not any(map(float, amounts)):
        return t("free")
    return f"{' + '.join(amounts)} {pricing.get('currency')} / {pricing.get('unit')}"


def _ledger(limit: int, console: Console) -> int:
    lines, _ = console.run(reads.ledger(console.link, after=None, limit=limit))
    rows = [
        (moment(line.created_at), line.type, line.amount, line.currency, line.job_id or line.call_id)
        for line in lines
    ]
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
    return _list(console, [asdict(line) for line in lines], headings, rows, amounts=("charged",))


def _list(
    console: Console,
    document: Any,
    headings: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    amounts: Sequence[str] = (),
) -> int:
    """Print the document with `--json`, else the rows as a table."""
    if console.as_json:
        console.document(document)
    else:
        console.table(headings, rows, amounts=amounts)
    return 0
