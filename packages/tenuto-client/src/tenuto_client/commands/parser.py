"""argparse in two languages, for every `tenuto` command, and the options that many of them share."""

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

_SAID: tuple[tuple[str, str], ...] = (
    (r"the following arguments are required: (.+)", "missing: {0}"),
    (r"one of the arguments (.+) is required", "missing: one of {0}"),
    (r"unrecognized arguments: (.+)", "unknown argument: {0}"),
    (r"argument (.+): expected one argument", "{0} needs a value"),
    (r"argument (.+): expected at least one argument", "{0} needs a value"),
    (
        r"argument COMMAND: invalid choice: '(.+)' \(choose from (.+)\)",
        "unknown command: {0}; choose from {1}",
    ),
    (r"argument (.+): invalid choice: (.+) \(choose from (.+)\)", "{0} cannot be {1}; choose from {2}"),
    (r"argument (.+): not allowed with argument (.+)", "{0} and {1} cannot be used together"),
    (r"argument (.+): invalid float value: (.+)", "{0} must be a number, not {1}"),
    (r"argument (.+): invalid int value: (.+)", "{0} must be a whole number, not {1}"),
    (r"argument (.+): invalid \w+ value: (.+)", "{0} cannot be {1}"),
    (r"argument (.+?): (.+)", "{0}: {1}"),
)
"""What argparse reports of a wrong line, and what is printed instead, in either language."""


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
        """The parser of a command below this one."""
        if self._verbs is None:
            self._verbs = self.add_subparsers(
                title=t("commands"), metavar="COMMAND", dest="verb", required=required, parser_class=Parser
            )
            # What there is to choose from is read first.
            self._action_groups.insert(0, self._action_groups.pop())
        return self._verbs.add_parser(name, help=t(about), description=t(about), aliases=aliases)

    def common(self) -> None:
        """The options that every one of the caller's commands takes."""
        group = self.add_argument_group(t("common options"))
        group.add_argument(
            "--url", metavar="URL", help=t("the service (default: TENUTO_BASE_URL, else the last login)")
        )
        self.add_json(group)
        group.add_argument("-q", "--quiet", action="store_true", help=t("print nothing on stderr but errors"))

    def add_json(self, group: argparse._ArgumentGroup | None = None) -> None:
        """`--json`, which scripts use."""
        (group or self).add_argument("--json", action="store_true", dest="as_json", help=t("print JSON"))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """argparse's own, but what is unknown to a command below is an error there, not in the one above."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def print_help(self, file: Any = None) -> None:
        """The help on stdout. Raises what `streams.write` does; argparse would ignore a full disk."""
        streams.write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """One line, and which help has more. (argparse's own prints the whole usage first.)"""
        sys.stderr.write(f"tenuto: {said(message)} ({t('see {command}', command=self.prog + ' -h')})\n")
        raise SystemExit(USAGE)


def said(message: str) -> str:
    """What argparse says, in the user's language."""
    for pattern, english in _SAID:
        found = re.fullmatch(pattern, message, re.DOTALL)
        if found:
            text = t(english)
            for number, group in enumerate(found.groups()):
                text = text.replace("{" + str(number) + "}", group)
            return text
    return message


def checked(what: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse whose ValueError is told as it stands."""

    def parse(text: str) -> Any:
        try:
            return what(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def parameter(text: str) -> tuple[str, Any]:
    """`top_p=0.5`: any parameter by its name; a value that is no JSON is a text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(t("write NAME=VALUE, for example top_p=0.5"))
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def add_work(parser: Parser, document: str) -> None:
    """The options of every command that submits a job."""
    group = parser.add_argument_group(t("job"))
    group.add_argument(
        "--again",
        action="store_true",
        help=t("submit a new job if an earlier one for the same work ended without a result"),
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
    """argparse's own, with headings in the user's language and one line for each command."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, t("Usage: ") if prefix is None else prefix)

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            return self._join_parts([self._format_action(each) for each in action._get_subactions()])
        return super()._format_action(action)
