"""`tenuto login`, `logout`, `whoami`: which service, with which key."""

from __future__ import annotations

import argparse
import sys
from urllib.parse import urlsplit

from tenuto_client import settings
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

SHOWN = 6
"""How many characters of a key are shown at its head; four at its end."""


def add(parser: Parser, verb: str) -> None:
    """Their options. A key is never an option: the list of processes would show it."""
    if verb == "login":
        parser.add_argument(
            "address", metavar="URL", nargs="?", help=t("the service (default: that of the last login)")
        )
    parser.common()
    parser.set_defaults(run={"login": _login, "logout": _logout, "whoami": _whoami}[verb])


def _login(options: argparse.Namespace, console: Console) -> int:
    """Ask for a key, try it, and keep it when the service takes it."""
    url = settings.current_url(options.address or options.url)
    if urlsplit(url).scheme == "http" and urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
        console.tell(t("warning: {url} is not encrypted; the key can be read on the way", url=url))
    if sys.stdin.isatty():
        import getpass

        key = getpass.getpass(t("API key for {url}: ", url=url))
    else:
        key = sys.stdin.readline()
    from tenuto_client import reads
    from tenuto_client.drive import Driver

    link = console.link_to(url, key.strip())
    models = Driver(link).run(reads.models(link))
    file = settings.save(settings.Credentials(link.base_url, link.api_key))
    console.tell(t("the key is saved in {file}", file=file))
    _show(console, link.base_url, link.api_key, str(file), len(models))
    return 0


def _logout(options: argparse.Namespace, console: Console) -> int:
    url = settings.current_url(options.url)
    if settings.forget(url):
        console.tell(t("the key for {url} is deleted", url=url))
    else:
        console.tell(t("there was no key for {url}", url=url))
    return 0


def _whoami(options: argparse.Namespace, console: Console) -> int:
    from tenuto_client import reads

    found = settings.credentials(None, options.url)
    link = console.link
    _show(console, link.base_url, link.api_key, found.source, len(console.run(reads.models(link))))
    return 0


def _show(console: Console, url: str, key: str, source: str, models: int) -> None:
    shown = f"{key[:SHOWN]}…{key[-4:]}" if len(key) > 2 * SHOWN else "…"
    if console.as_json:
        console.document({"service": url, "key": shown, "source": source, "models": models})
        return
    console.table(("service", "key", "from", "models"), [(url, shown, source, models)])
