"""The caller's verbs of the `tenuto` command: `tenuto say`, `tenuto transcribe`, …

`main` takes the words behind `tenuto` and gives an exit code; `VERBS` is all that a list of commands needs.
Nothing is imported here but what every start of every verb needs: `-h` answers before a page could be turned.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenuto_client.commands.parser import Parser

VERBS: Mapping[str, tuple[str, str]] = {
    "login": ("session", "Save the key for a service."),
    "logout": ("session", "Forget the key for a service."),
    "whoami": ("session", "Show which service and key are used, and whether they work."),
    "say": ("say", "Speak a text: a WAV file."),
    "transcribe": ("transcribe", "Write down what is said in a recording."),
    "draw": ("draw", "Draw what a text describes: a PNG file."),
    "chat": ("chat", "Talk with a chat model."),
    "voices": ("voices", "The voices that can speak for you, your own among them."),
    "catalog": ("catalog", "The models that your key may use, and what they cost."),
    "jobs": ("jobs", "Jobs that were submitted: list, show, wait, download, cancel."),
    "resume": ("resume", "Resume interrupted jobs."),
    "balance": ("money", "What is left to spend."),
    "usage": ("money", "What was used, by day and model."),
    "completion": ("completion", "Print completions for bash, zsh or fish."),
}
"""Each verb: the module that does it, and one line about it."""


def main(words: Sequence[str], *, others: Mapping[str, str] | None = None) -> int:
    """Run `tenuto WORDS`; gives the exit code. `others` are commands that somebody else runs, by name."""
    from tenuto_client.commands import streams
    from tenuto_client.commands.console import Console
    from tenuto_client.commands.exits import INTERRUPTED, USAGE, told
    from tenuto_client.commands.words import t

    streams.prepare()
    asks_for_all = not words or words[0] in ("-h", "--help")
    if not asks_for_all and words[0] not in VERBS:
        sys.stderr.write(f"tenuto: {_unknown(words[0], [*VERBS, *(others or {})])}\n")
        return USAGE
    options = Namespace() if asks_for_all else parser_of(words[0]).parse_args(list(words[1:]))
    options.others = dict(others or {})
    console = Console(options)
    try:
        if asks_for_all:
            streams.write(_overview(others or {}))
            return 0
        code: int = import_module(f"tenuto_client.commands.{VERBS[words[0]][0]}").run(options, console)
        streams.write("")
        return code
    except KeyboardInterrupt:
        console.progress.clear()
        console.error(t("interrupted"), getattr(options, "cut_off", None))
        return INTERRUPTED
    except BrokenPipeError:
        return streams.leave()
    except Exception as error:
        console.progress.clear()
        return told(error, console)


def parser_of(verb: str) -> Parser:
    """The parser of one verb, filled by its module."""
    from tenuto_client.commands.parser import Parser

    parser = Parser(prog=f"tenuto {verb}")
    fill(parser, verb)
    return parser


def fill(parser: Parser, verb: str) -> None:
    """Give the parser what the verb's module says."""
    from tenuto_client.commands.words import t

    module, about = VERBS[verb]
    parser.description = t(about)
    import_module(f"tenuto_client.commands.{module}").add(parser, verb)


def _unknown(word: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    from tenuto_client.commands.words import t

    meant = get_close_matches(word, known, n=1)
    told = t("what is not known: {0}").format(word)
    return told + (f" → tenuto {meant[0]}" if meant else f" ({t('see {command}', command='tenuto -h')})")


def _overview(others: Mapping[str, str]) -> str:
    from tenuto_client.commands.words import t

    width = max(map(len, [*VERBS, *others])) + 2
    lines = [t("Usage: tenuto COMMAND …"), ""]
    lines += [f"  {name.ljust(width)}{t(about)}" for name, (_, about) in VERBS.items()]
    if others:
        lines += ["", t("For whoever runs a service:")]
        lines += [f"  {name.ljust(width)}{t(about)}" for name, about in others.items()]
    return "\n".join([*lines, "", t("tenuto COMMAND -h tells more."), ""])
