"""What `tenuto` alone says: every command in a line, in the reader's language."""

import os
import re
import subprocess
from collections.abc import Iterator

import pytest
from cyclopts import App

from servers.service import TENUTO
from tenuto.cli import COMMANDS
from tenuto.cli.app import app as operators
from tenuto_client.commands import VERBS

HAN = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize(("language", "is_chinese"), [("zh_CN.UTF-8", True), ("C.UTF-8", False)])
def test_every_command_has_its_line_in_the_readers_language(language: str, is_chinese: bool) -> None:
    """The caller's verbs and the operator's commands alike."""
    done = subprocess.run([TENUTO], env=os.environ | {"LC_ALL": language}, capture_output=True, text=True)
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  "))

    assert [*VERBS, *COMMANDS] == list(lines)
    assert dict.fromkeys(lines, is_chinese) == {name: bool(HAN.search(line)) for name, line in lines.items()}


def options_of(app: App, path: str) -> Iterator[tuple[str, str]]:
    """Every option of every command below, and what is said of it."""
    for name in app:
        if name.startswith("-"):
            continue
        below = app[name]
        if below.default_command is None:
            yield from options_of(below, f"{path} {name}")
            continue
        for argument in below.assemble_argument_collection(parse_docstring=True):
            if argument.show:
                yield f"{path} {name} {argument.name}", argument.parameter.help or ""


def test_every_option_of_an_operators_command_says_what_it_is() -> None:
    """An option without a word is one that nobody dares to use."""
    found = dict(options_of(operators, "tenuto"))

    assert "tenuto serve --port" in found and "tenuto keys revoke --key-id" in found
    assert [] == [name for name, about in found.items() if not about]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["jbos"], "tenuto: what is not known: jbos → tenuto jobs"),
        (["bakcup"], "tenuto: what is not known: bakcup → tenuto backup"),
        (["--json"], "tenuto: what is not known: --json (see tenuto -h)"),
        (["keys", "create"], "(see tenuto keys create -h)"),
    ],
)
def test_a_slip_is_told_in_one_line_that_leads_on(line: list[str], told: str) -> None:
    """The verbs of callers and the commands of operators are one command to whoever types."""
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    done = subprocess.run([TENUTO, *line], env=environment, capture_output=True, text=True)

    assert (2, "", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines()))
    assert told in done.stderr
