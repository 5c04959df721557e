"""`tenuto completion`: prints a completion script, which shtab makes from the parsers."""

from __future__ import annotations

import argparse

from tenuto_client.commands import Tree, fill
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

SHELLS = ("bash", "zsh", "fish")


def add(parser: Parser, verb: str) -> None:
    """Declare the argument."""
    parser.set_defaults(run=run)
    parser.add_argument(
        "shell", choices=SHELLS, help=t("the shell; docs/guide says where to save the script")
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the script."""
    # Imported here because only this command needs it.
    import shtab

    tree: Tree = options.tree
    whole = Parser(prog="tenuto")
    for name, command in tree.items():
        fill(whole.add_verb(name, command.about), name, command)
    _complete_files(whole, shtab.FILE)
    console.say(shtab.complete(whole, options.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser, how: object) -> None:
    """Let the shell complete file names for arguments that are files."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner, how)
        elif "FILE" in str(action.metavar):
            action.complete = how  # type: ignore[attr-defined]
