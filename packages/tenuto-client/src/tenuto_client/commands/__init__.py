"""The caller's commands (`tenuto say`, `tenuto transcribe`, …), and how every `tenuto` command is run.

A tree maps the words of a command to the module that implements it. Each has `add(parser, name)`, which
declares the options and sets `run`. Modules are imported when their command is run, so that `-h` is fast.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tenuto_client.commands.parser import Parser


class Command(NamedTuple):
    """A command, a group of commands, or both: `tenuto models` lists models and has `pull` below it."""

    about: str
    """Its line in the list of commands."""
    module: str = ""
    """The module that implements it; empty for a group, which only lists its commands."""
    below: Mapping[str, Command] = {}
    heading: str = ""
    """A heading that precedes it in the list."""
    after: str = ""
    """The command that it follows in the list, if another package adds it to a tree; empty: the last one."""


Tree = Mapping[str, Command]

VERBS: Tree = {
    "login": Command("Save an API key for a service.", "tenuto_client.commands.account"),
    "logout": Command("Delete the saved key of a service.", "tenuto_client.commands.account"),
    "whoami": Command(
        "Show the service and the key in use, and check that they work.", "tenuto_client.commands.account"
    ),
    "say": Command("Turn text into speech (WAV, MP3, Opus, FLAC).", "tenuto_client.commands.create"),
    "transcribe": Command("Transcribe a recording.", "tenuto_client.commands.create"),
    "draw": Command("Generate an image from a prompt (PNG, WebP, JPEG).", "tenuto_client.commands.create"),
    "batch": Command(
        "Make a file of every line of a CSV or JSON Lines file.", "tenuto_client.commands.batch"
    ),
    "watch": Command(
        "Transcribe recordings and speak texts that arrive in a folder.", "tenuto_client.commands.watch"
    ),
    "mcp": Command("Offer speech, transcripts and images to assistants (MCP).", "tenuto_client.commands.mcp"),
    "chat": Command("Chat with a model.", "tenuto_client.commands.chat"),
    "voices": Command("List, add and manage voices.", "tenuto_client.commands.voices"),
    "models": Command(
        "List the models that your key can use, with prices.", "tenuto_client.commands.account"
    ),
    "jobs": Command("List, inspect, wait for, download or cancel jobs.", "tenuto_client.commands.jobs"),
    "webhooks": Command(
        "List, add and manage servers of yours that are informed.", "tenuto_client.commands.webhooks"
    ),
    "resume": Command("Resume interrupted jobs.", "tenuto_client.commands.resume"),
    "balance": Command("Show the balance of your account.", "tenuto_client.commands.account"),
    "usage": Command("Show usage by day and model.", "tenuto_client.commands.account"),
    "completion": Command(
        "Print or install completion for bash, zsh or fish.", "tenuto_client.commands.completion"
    ),
}
"""The caller's commands."""


COMMON = {"--url": 2, "--json": 1, "--quiet": 1, "-q": 1}
"""Options of every command, and how many words each has."""


def main(words: Sequence[str], tree: Tree = VERBS) -> int:
    """Run `tenuto WORDS`; returns the exit code."""
    from tenuto_client.commands import streams
    from tenuto_client.commands.console import Console
    from tenuto_client.commands.exits import INTERRUPTED, USAGE, report
    from tenuto_client.commands.words import t

    streams.prepare()
    if words and words[0] == "help":
        words = [*words[1:], "-h"]
    words = _options_last(words)
    path, command, rest = route(words, tree)
    wants_list = not command.module and (not rest or rest[0] in ("-h", "--help"))
    if not command.module and not wants_list:
        sys.stderr.write(f"tenuto: {_unknown(path, rest[0], tree)}\n")
        return USAGE
    options = Namespace()
    console = Console(options)
    try:
        if wants_list:
            streams.write(_overview(path, command) if words else _state(tree))
            return 0
        options = parser_of(path, command).parse_args(rest)
        options.tree = tree
        console = Console(options)
        code: int = options.run(options, console)
        streams.write("")
        return code
    except KeyboardInterrupt:
        console.progress.clear()
        console.error(t("interrupted"), getattr(options, "continuation", None))
        return INTERRUPTED
    except BrokenPipeError:
        return streams.leave()
    except Exception as error:
        console.progress.clear()
        return report(error, console)


def _options_last(words: Sequence[str]) -> Sequence[str]:
    """Move common options that precede the command behind it, as in `--url URL`, then `balance`."""
    first = 0
    while first < len(words) and words[first].partition("=")[0] in COMMON:
        first += 1 if "=" in words[first] else COMMON[words[first]]
    return [*words[first:], *words[:first]] if first < len(words) else words


def route(words: Sequence[str], tree: Tree) -> tuple[list[str], Command, list[str]]:
    """The words that name a command, the command (or group), and its arguments."""
    path, command, rest = ["tenuto"], Command("", below=tree), list(words)
    while rest and rest[0] in command.below:
        command = command.below[rest[0]]
        path.append(rest.pop(0))
    return path, command, rest


def parser_of(path: Sequence[str], command: Command) -> Parser:
    """The parser of one command, with its options."""
    from tenuto_client.commands.parser import Parser

    parser = Parser(prog=" ".join(path))
    fill(parser, path[-1], command)
    return parser


def fill(parser: Parser, name: str, command: Command) -> None:
    """Add the options that the command's module declares, and the commands below it."""
    from tenuto_client.commands.words import t

    parser.description = t(command.about)
    if command.module:
        import_module(command.module).add(parser, name)
    for below, each in command.below.items():
        fill(parser.add_verb(below, each.about, required=not command.module), below, each)


def paths(tree: Tree, above: str = "") -> Iterator[str]:
    """All commands of the tree, as typed after `tenuto`."""
    for name, command in tree.items():
        yield above + name
        yield from paths(command.below, f"{above}{name} ")


def _unknown(path: Sequence[str], word: str, tree: Tree) -> str:
    from difflib import get_close_matches

    from tenuto_client.commands.words import t

    typed = " ".join([*path[1:], word])
    # Prefer a command of the same group, then one of any group.
    _, group, _ = route(path[1:], tree)
    known = [*(" ".join([*path[1:], name]) for name in group.below), *paths(tree)]
    by_last_word = {each.rpartition(" ")[2]: each for each in reversed(known)}
    similar = get_close_matches(word, by_last_word, n=1)
    if similar:
        hint = t("did you mean {command}?", command=f"tenuto {by_last_word[similar[0]]}")
    else:
        hint = t("see {command}", command=" ".join([*path, "-h"]))
    return t('unknown command "{0}"').format(typed) + f" ({hint})"


def _state(tree: Tree) -> str:
    from tenuto_client.commands import status

    return status.overview(tree)


def _overview(path: Sequence[str], group: Command) -> str:
    from tenuto_client.commands.words import t

    name = " ".join(path)
    width = max(map(len, group.below)) + 2
    lines = [t("Usage: {command} COMMAND …", command=name)]
    if group.about:
        lines += ["", t(group.about)]
    for number, (below, command) in enumerate(group.below.items()):
        if command.heading or number == 0:
            lines += ["", t(command.heading)] if command.heading else [""]
        lines.append(f"  {below.ljust(width)}{t(command.about)}")
    return "\n".join([*lines, "", t("Run `{command} COMMAND -h` for details.", command=name), ""])
