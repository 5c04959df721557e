"""`tenuto mcp`: tools for assistants. The server is a separate distribution, found by its entry point."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.metadata import entry_points

from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t
from tenuto_client.errors import InvalidSetting


def add(parser: Parser, verb: str) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "folder", metavar="DIR", help=t("the only folder whose files the assistant reads and writes")
    )
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Serve until standard input ends."""
    _server()(options.folder, options.url)
    return 0


def _server() -> Callable[[str, str | None], None]:
    """The server from the distribution `tenuto-mcp`. InvalidSetting: it, or its library, is not installed."""
    try:
        (entry,) = entry_points(group="tenuto.mcp", name="stdio")
        serve: Callable[[str, str | None], None] = entry.load()
    except (ValueError, ImportError) as missing:
        raise InvalidSetting(t("this needs one more package: {command}", command=INSTALL)) from missing
    return serve


INSTALL = "pip install 'tenuto-client[mcp]'"
