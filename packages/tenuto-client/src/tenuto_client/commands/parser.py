"""argparse in two languages, and the options that commands share."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from tenuto_client.commands import streams
from tenuto_client.commands.exits import USAGE
from tenuto_client.commands.words import t

_MESSAGES: tuple[tuple[str, str], ...] = (
    (r"the following arguments are required: (.+)", "missing argument: {0}"),
    (r"one of the arguments (.+) is required", "missing argument: one of {0}"),
    (r"unrecognized arguments: (.+)", "unknown argument: {0}"),
    (r"argument (.+): expected one argument", "{0} needs a value"),
    (r"argument (.+): expected at least one argument", "{0} needs a value"),
    (
        r"argument COMMAND: invalid choice: '(.+)' \(choose from (.+)\)",
        'unknown command "{0}"; choose from {1}',
    ),
    (r"argument (.+): invalid choice: (.+) \(choose from (.+)\)", "{0} cannot be {1}; choose from {2}"),
    (r"argument (.+): not allowed with argument (.+)", "{0} and {1} cannot be used together"),
    (r"argument (.+): invalid float value: (.+)", "{0} must be a number, not {1}"),
    (r"argument (.+): invalid int value: (.+)", "{0} must be a whole number, not {1}"),
    (r"argument (.+): invalid \w+ value: (.+)", "{0} cannot be {1}"),
    (r"argument (.+?): (.+)", "{0}: {1}"),
)
"""argparse's messages as patterns, and the translatable texts printed instead."""


class Parser(argparse.ArgumentParser):
    """A command's parser. Errors are one line; headings are in the user's language."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            add_help=False, allow_abbrev=False, formatter_class=_Formatter, exit_on_error=True, **options
        )
        self._positionals.title = t("arguments")
        self._optionals.title = t("options")
        self._verbs: argparse._SubParsersAction[Parser] | None = None
        self.add_argument("-h", "--help", action="help", help=t("show this help and exit"))

    def add_verb(self, name: str, about: str, *aliases: str, required: bool = True) -> Parser:
        """Add a command below this one; returns its parser."""
        if self._verbs is None:
            self._verbs = self.add_subparsers(
                title=t("commands"), metavar="COMMAND", dest="verb", required=required, parser_class=Parser
            )
            # List the commands first.
            self._action_groups.insert(0, self._action_groups.pop())
        return self._verbs.add_parser(name, help=t(about), description=t(about), aliases=aliases)

    def common(self) -> None:
        """Add the options that all callers' commands have."""
        group = self.add_argument_group(t("common options"))
        group.add_argument(
            "--url", metavar="URL", help=t("the service (default: TENUTO_BASE_URL, else the last login)")
        )
        self.add_json(group)
        group.add_argument("-q", "--quiet", action="store_true", help=t("print nothing on stderr but errors"))

    def add_json(self, group: argparse._ArgumentGroup | None = None) -> None:
        """Add `--json`, for scripts."""
        (group or self).add_argument("--json", action="store_true", dest="as_json", help=t("print JSON"))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in argparse, except that a subcommand reports its unknown arguments itself."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def format_help(self) -> str:
        """As in argparse, with a few examples at the end."""
        from tenuto_client.commands import examples

        lines = examples.of(self.prog)
        shown = "".join(f"  {line}\n" for line in lines)
        return super().format_help() + (f"\n{t('examples')}:\n{shown}" if lines else "")

    def print_help(self, file: Any = None) -> None:
        """Print the help on stdout. Raises what `streams.write` raises; argparse would ignore a full disk."""
        streams.write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Print one line with the error and where to find help; argparse would print all of the usage."""
        sys.stderr.write(f"tenuto: {_message(message)} ({t('see {command}', command=self.prog + ' -h')})\n")
        raise SystemExit(USAGE)


def _message(message: str) -> str:
    """An argparse message in the user's language."""
    for pattern, english in _MESSAGES:
        match = re.fullmatch(pattern, message, re.DOTALL)
        if match:
            text = t(english)
            for number, group in enumerate(match.groups()):
                text = text.replace("{" + str(number) + "}", group)
            return text
    return message


def checked(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse; the message of its ValueError is printed unchanged."""

    def parse(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def between(low: float, high: float, convert: Callable[[str], Any] = float) -> Callable[[str], Any]:
    """A type for argparse: a number within these inclusive bounds."""

    def parse(text: str) -> Any:
        value = convert(text)
        if not low <= value <= high:
            message = t("write a number from {low} to {high}, not {text}", low=low, high=high, text=text)
            raise argparse.ArgumentTypeError(message)
        return value

    # argparse's message names the type if the text is not a number.
    parse.__name__ = convert.__name__
    return parse


def parameter(text: str) -> tuple[str, Any]:
    """Parse `top_p=0.5`; a value that is not JSON is a string."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(t("write NAME=VALUE, for example top_p=0.5"))
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def add_force(parser: argparse._ActionsContainer) -> None:
    """The option that replaces a file without asking."""
    parser.add_argument("--force", action="store_true", help=t("replace an existing file without asking"))


def add_work(parser: Parser, document: str) -> None:
    """Add the options of every command that submits a job."""
    group = parser.add_argument_group(t("job"))
    group.add_argument(
        "--again",
        action="store_true",
        help=t("submit a new job if an earlier one for the same work finished without a result"),
    )
    group.add_argument(
        "--model", metavar="MODEL", help=t("see `tenuto models` (default: the first that is callable)")
    )
    group.add_argument(
        *("-p", "--param"),
        action="append",
        default=[],
        type=checked(parameter),
        metavar="NAME=VALUE",
        dest="parameters",
        help=t("set any parameter of {document}; repeatable", document=document),
    )


class _Formatter(argparse.HelpFormatter):
    """argparse's formatter, with headings in the user's language and one line per command."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, t("Usage: ") if prefix is None else prefix)

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            return self._join_parts([self._format_action(each) for each in action._get_subactions()])
        return super()._format_action(action)
