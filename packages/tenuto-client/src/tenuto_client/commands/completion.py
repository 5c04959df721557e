"""`tenuto completion`: what a shell needs to complete verbs and options; shtab makes it from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from tenuto_client.commands import VERBS, fill
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

SHELLS = ("bash", "zsh", "fish")


def add(parser: Parser, verb: str) -> None:
    """Its argument."""
    parser.add_argument("shell", choices=SHELLS, help=t("put it where your shell looks; see docs/guide"))


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the script."""
    # Only this verb needs it: help must be quick.
    import shtab

    others: Mapping[str, str] = options.others
    whole = argparse.ArgumentParser(prog="tenuto", add_help=False)
    verbs = whole.add_subparsers(parser_class=Parser)
    for verb, (_, about) in VERBS.items():
        parser = verbs.add_parser(verb, help=t(about))
        fill(parser, verb)
        _complete_files(parser, shtab.FILE)
    for name, about in others.items():
        verbs.add_parser(name, help=t(about))
    console.say(shtab.complete(whole, options.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser, how: object) -> None:
    """Have the shell complete the names of files where an argument is one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner, how)
        elif "FILE" in str(action.metavar):
            action.complete = how  # type: ignore[attr-defined]
