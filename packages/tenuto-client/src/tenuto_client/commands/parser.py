"""argparse in two languages, with the options that every verb has."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from tenuto_client.commands.exits import USAGE
from tenuto_client.commands.words import t

_SAID: tuple[tuple[str, str], ...] = (
    (r"the following arguments are required: (.+)", "what is missing: {0}"),
    (r"one of the arguments (.+) is required", "what is missing: {0}"),
    (r"unrecognized arguments: (.+)", "what is not known: {0}"),
    (r"argument (.+): expected one argument", "{0} needs a value"),
    (r"argument (.+): expected at least one argument", "{0} needs a value"),
    (r"argument (.+): invalid choice: (.+) \(choose from (.+)\)", "{0} cannot be {1}; there are {2}"),
    (r"argument (.+): not allowed with argument (.+)", "{0} and {1} exclude each other"),
    (r"argument (.+): invalid float value: (.+)", "{0} must be a number, not {1}"),
    (r"argument (.+): invalid int value: (.+)", "{0} must be a whole number, not {1}"),
    (r"argument (.+): invalid \w+ value: (.+)", "{0} cannot be {1}"),
    (r"argument (.+?): (.+)", "{0}: {1}"),
)
"""What argparse says of a wrong line, and what is said instead, in either language."""


class Parser(argparse.ArgumentParser):
    """A verb's parser. Errors are one line; headings are in the user's language."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            add_help=False, allow_abbrev=False, formatter_class=_Formatter, exit_on_error=True, **options
        )
        self._positionals.title = t("what")
        self._optionals.title = t("options")
        self.add_argument("-h", "--help", action="help", help=t("show this and exit"))

    def common(self) -> None:
        """The options that every verb takes."""
        group = self.add_argument_group(t("everywhere"))
        group.add_argument(
            "--url", metavar="URL", help=t("the service; else TENUTO_BASE_URL, else the last login")
        )
        group.add_argument("--json", action="store_true", dest="as_json", help=t("JSON on stdout"))
        group.add_argument("-q", "--quiet", action="store_true", help=t("nothing on stderr but errors"))

    def error(self, message: str) -> NoReturn:
        """One line, and where more stands. (argparse's own prints the whole usage first.)"""
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


def add_work(group: argparse._ArgumentGroup, document: str) -> None:
    """The options of everything that makes a job."""
    group.add_argument(
        "--again",
        action="store_true",
        help=t("make another job when an earlier one for the same work ended without a result"),
    )
    group.add_argument(
        "--model", metavar="MODEL", help=t("see `tenuto catalog`; else the first that is callable")
    )
    group.add_argument(
        *("-p", "--param"),
        action="append",
        default=[],
        type=checked(parameter),
        metavar="NAME=VALUE",
        dest="parameters",
        help=t("any parameter of {document}; repeatable", document=document),
    )


class _Formatter(argparse.HelpFormatter):
    """argparse's own, with a heading in the user's language."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, t("usage: ") if prefix is None else prefix)
