"""What `tenuto` lists: every command in a line, every option explained, in the reader's language."""

import argparse
import importlib
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import tenuto
from servers.command_lines import fault_of
from servers.messages import constants_of, names, reports_of, texts_of
from servers.service import TENUTO
from tenuto import command as cli
from tenuto.command import all_commands
from tenuto.features.audit import all_checks, deep
from tenuto.features.audit.all_checks import CHECKS
from tenuto.features.help import examples as operator_examples
from tenuto.features.help.zh import WORDS
from tenuto_client.commands import Command, Tree, examples, fill, paths, words
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.zh import WORDS as WORDS_OF_CALLERS

ROOT = Path(__file__).parents[2]
HAN = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize(
    ("group", "language"), [((), "zh_CN.UTF-8"), (("admin",), "zh_CN.UTF-8"), (("admin",), "C.UTF-8")]
)
def test_every_command_has_its_line_in_the_readers_language(group: tuple[str, ...], language: str) -> None:
    """Callers' commands and those under `admin` alike; one line each, within 80 columns."""
    listed = all_commands()[group[0]].below if group else all_commands()
    environment = os.environ | {"LC_ALL": language}
    done = subprocess.run([TENUTO, *group, "-h"], env=environment, capture_output=True, text=True)
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  "))

    assert list(listed) == list(lines)
    assert {language != "C.UTF-8"} == {bool(HAN.search(line)) for line in lines.values()}
    assert [] == [line for line in done.stdout.splitlines() if len(line) > 80]


def options_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from options_of(below)
        else:
            name = action.option_strings[-1] if action.option_strings else action.metavar
            yield f"{parser.prog} {name}", action.help or ""


def test_every_option_of_every_command_is_explained() -> None:
    whole = Parser(prog="tenuto")
    for name, command in all_commands().items():
        fill(whole.add_verb(name, command.about), name, command)
    found = dict(options_of(whole))

    assert {"tenuto serve --port", "tenuto admin keys revoke KEY", "tenuto say --voice"} <= set(found)
    assert [] == [name for name, about in found.items() if not about]


EXPLAINED = """
import sys
from tenuto.command import all_commands
from tenuto_client.commands import fill
from tenuto_client.commands.parser import Parser

whole = Parser(prog="tenuto")
for name, command in all_commands().items():
    fill(whole.add_verb(name, command.about), name, command)
whole.format_help()
print(*{name for name in sys.modules if name.startswith("tenuto.") or "." not in name})
"""
SLOW = {"structlog", "httpx2", "asyncio", "rich", "ssl", "numpy", "soundfile", "sqlite3"}


def test_explaining_commands_loads_nothing_of_the_service() -> None:
    """Help must appear at once: no database, engine, log, HTTP or terminal library is loaded for options of
    any command."""
    ended = subprocess.run([sys.executable, "-c", EXPLAINED], capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    ours = {name.split(".")[1] for name in loaded if "." in name}

    assert {"command", "errors", "failpoints", "feature", "features", "process"} == ours
    assert set() == loaded & SLOW


def files_of_commands() -> list[Path]:
    """The core's commands, those of the features, and what helps with them."""
    service = Path(tenuto.__file__ or "").parent
    patterns = ("command/*.py", "features/*/*commands.py", "features/help/*.py")
    return [file for pattern in patterns for file in service.glob(pattern) if file.stem != "zh"]


def test_every_text_of_these_commands_has_its_chinese() -> None:
    used = {text for file in files_of_commands() for text in texts_of(file)}
    used |= {text for command in nodes(all_commands()) for text in (command.about, command.heading) if text}
    missing = used - set(WORDS) - set(WORDS_OF_CALLERS)
    constants = {text for file in files_of_commands() for text in constants_of(file)}

    assert set() == missing
    assert set() == set(WORDS) - used - constants
    assert not [text for text, chinese in WORDS.items() if names(text) != names(chinese)]


FINDING = re.compile(r"(the (bytes|row|database's own check) |no row |restore its bytes|stop the service)")
"""How the texts of findings begin that are written where they are made."""
ENGLISH = re.compile("[a-z]{2,} [a-z]{2,}")
REPORTING = {
    **dict.fromkeys(("say", "tell", "report", "OperatorError"), (0,)),
    "_good": (0, 1),
    "_bad": (0, 1, 2),
    "CheckResult": (1,),
}
"""What these commands print with, and which of its arguments are texts."""
SAME = re.compile(r"(tenuto |chmod |pip |docs/|nomen[,: ]+nomen|nomen$).*")
"""A command, a file, or nothing but what is filled in."""


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Texts are shown in Chinese."""
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    words.is_chinese.cache_clear()
    words.add("tenuto.features.help.zh")
    yield
    words.is_chinese.cache_clear()


@pytest.mark.usefixtures("chinese")
def test_every_report_and_finding_of_these_commands_has_its_chinese() -> None:
    """Results, checks of the doctor, refusals, headings of tables; what is wrong and what to do about it, of
    every check of rows, of bytes and of the database itself: with all that is filled in."""
    found = {text for file in files_of_commands() for text in reports_of(file, REPORTING)}
    reports = {text for text in found if not SAME.fullmatch(text)}
    findings = {text for check in CHECKS for text in (check.what, check.remedy.replace("SUBJECT", "nomen"))}
    for module in (all_checks, deep):
        constants = {text.replace("SUBJECT", "nomen") for text in constants_of(Path(module.__file__ or ""))}
        findings |= {text for text in constants if FINDING.match(text)}
    shown = {text: words.translated(text) for text in reports | findings}
    headings = ("id", "account", "name", "models", "expires", "last used", "attempts", "lane", "runs here")

    assert 60 < len(reports) and 60 < len(findings)
    assert [] == [text for text in reports if not HAN.search(shown[text])]
    assert [] == [text for text in findings if ENGLISH.search(re.sub("`[^`]*`", "", shown[text]))]
    assert [] == [text for text in shown if text.count("nomen") != shown[text].count("nomen")]
    assert [] == [heading for heading in headings if not HAN.search(words.t(heading))]


def nodes(tree: Tree) -> Iterator[Command]:
    for command in tree.values():
        yield command
        yield from nodes(command.below)


def typed(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, str]:
    words.is_chinese.cache_clear()
    try:
        code = cli.run(line.split())
    except SystemExit as end:
        code = int(end.code or 0)
    return (code, *capsys.readouterr())


def test_a_slip_is_answered_in_one_line_that_leads_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    answers = {
        "bakcup": 'unknown command "bakcup" (did you mean tenuto admin backup?)',
        "admin key": 'unknown command "admin key" (did you mean tenuto admin keys?)',
        "--json": 'unknown command "--json" (see tenuto -h)',
        "admin keys create": "missing argument: --account (see tenuto admin keys create -h)",
    }

    assert {line: (2, "", f"tenuto: {told}\n") for line, told in answers.items()} == {
        line: typed(capsys, line) for line in answers
    }


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    """`tenuto help X` is `tenuto X -h`, whatever X is; long forms of a verb are one. A module of the
    package with the name of one that is imported into it changes nothing."""
    for module in pkgutil.iter_modules(cli.__path__):
        importlib.import_module(f"{cli.__name__}.{module.name}")
    lines = ["help", "-h", "version", "--version", "help jobs get", "jobs show -h"]
    codes, shown, _ = zip(*(typed(capsys, line) for line in lines), strict=True)

    assert {0} == set(codes) and all(shown)
    assert shown[0] == shown[1] and shown[2] == shown[3]
    assert shown[4].split("]", 1)[1] == shown[5].split("]", 1)[1]


def test_every_command_has_examples_that_parse(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [*examples.LINES, *operator_examples.LINES]
    faults = {line: fault_of(shlex.split(re.split(" [<>]", line)[0])[1:]) for line in lines}
    lacking = [
        path
        for path in paths(all_commands())
        if not any(f"{line} ".startswith(f"tenuto {path} ") for line in lines)
    ]

    assert {None} == set(faults.values()), {line: fault for line, fault in faults.items() if fault}
    assert [] == lacking
    assert typed(capsys, "jobs list -h")[1].endswith("  tenuto jobs list --state running\n")


def test_models_of_every_kind_can_be_listed() -> None:
    document = yaml.safe_load((ROOT / "openapi.yaml").read_text("utf-8"))
    kinds = document["components"]["schemas"]["Model"]["properties"]["kind"]["enum"]

    assert {None} == {fault_of(["models", "--kind", kind]) for kind in kinds}


def test_what_the_machine_lacks_is_reported_in_a_line_and_our_own_bug_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as file descriptors at the start; a traceback would look like a bug of ours."""
    errors = [ImportError("none\n- [Errno 24] Too many open files: 'x'"), ImportError("No module named 'n'")]

    def fail(*_: object) -> int:
        raise errors.pop(0)

    monkeypatch.setattr("tenuto_client.commands.main", fail)

    assert 1 == cli.run(["worker"])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match("tenuto: This command ran out of a system resource: none - .*Too many", line)
    with pytest.raises(ImportError, match="No module"):
        cli.run(["worker"])
