"""Command lines: whether `tenuto` accepts one, without carrying it out, and what one that failed printed."""

import io
import subprocess
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache

from tenuto.command import all_commands
from tenuto_client.commands import parser_of, route
from tenuto_client.commands.parser import Parser


def fault_of(words: Sequence[str], *, whole: bool = True) -> str | None:
    """What is wrong with the words behind `tenuto`; None if nothing is.

    Not `whole`: what is required may be left out, as in a text that speaks of a command.
    """
    if words and words[0] == "help":
        words = [*words[1:], "-h"]
    if list(words) == ["version"]:
        return None
    path, command, rest = route(words, all_commands())
    if not command.module:
        if not rest and whole and words:
            return f"missing: COMMAND behind {' '.join(path)}"
        return (
            f"unknown command: {' '.join([*path[1:], rest[0]])}"
            if rest and rest[0] not in ("-h", "--version")
            else None
        )
    with redirect_stderr(io.StringIO()) as reported, redirect_stdout(io.StringIO()):
        try:
            _parser(tuple(path)).parse_args(rest)
        except SystemExit as end:
            reason = reported.getvalue().removeprefix("tenuto: ").strip()
            is_short = reason.startswith("missing argument: ") or " needs a value " in reason
            return None if not end.code or (is_short and not whole) else reason
    return None


@cache
def _parser(path: tuple[str, ...]) -> Parser:
    return parser_of(path, route(path[1:], all_commands())[1])


def told(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a command that failed tells on stderr; nothing stands on stdout, and no traceback."""
    assert done.stdout == "", done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith("tenuto: "), line
    return line.removeprefix("tenuto: ")
