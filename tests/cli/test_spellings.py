"""Every `tenuto …` in a tracked text is a command that there is."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from servers.command_lines import fault_of

ROOT = Path(__file__).parents[2]
SPAN = re.compile(r"`(?:[^\s`]*/)?tenuto ([a-z-][^`]{0,200})`")
"""In a text of any kind: between backticks."""
LINE = re.compile(
    r"^(?![ $]*helm )(?:[^`\n]*(?:[\s(@]|bin/|\)/))?(?<!-[a-zA-Z] )tenuto ([a-z].*)$", re.MULTILINE
)
"""In a block of code, or a file that is one. Helm, or an option such as `-n tenuto`, names something else."""
BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANYWHERE = re.compile(r"(?:(?<![\w-])tenuto|\{command\}) ([a-z][a-z-]*(?: [a-z][a-z-]*)?)\b")
END = re.compile(r"\s(?:[|>&;#→(]|…|2>).*|[;)…].*", re.DOTALL)
"""Where a command ends and something else begins."""


def tracked() -> Iterator[tuple[str, str]]:
    """Every tracked text but the tests', by its path."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if name.startswith(("tests/", "requirements/")) or not (ROOT / name).is_file():
            continue
        try:
            yield name, (ROOT / name).read_text("utf-8")
        except UnicodeDecodeError:
            continue


def commands_in(name: str, text: str) -> Iterator[str]:
    """What stands behind each `tenuto` that is code."""
    yield from SPAN.findall(text)
    if name.endswith(".md"):
        for block in BLOCK.findall(text):
            yield from LINE.findall(block)
    elif name.startswith("deploy/") or name == "Makefile":
        yield from (line for line in LINE.findall(text) if "COPY" not in line)


def words_of(command: str) -> list[str]:
    """Its words: without what follows it, brackets, or the names of variables and of what is filled in."""
    plain = END.sub("", " " + command.replace("\\", "").replace('"$@"', "")).rstrip(" .,").replace("%i", "1")
    plain = re.sub(r"\$?\{[^}]*\}|\$\(?[A-Z_]+\)?", "X", plain).translate({ord(sign): " " for sign in "[]"})
    try:
        return shlex.split(plain)
    except ValueError:
        return [word.strip(".,") for word in re.split(r"[\s'\"]+", plain) if word.strip(".,")]


def test_every_command_in_a_tracked_text_is_one_that_parses() -> None:
    found = [(name, command) for name, text in tracked() for command in commands_in(name, text)]
    faults = [
        (name, command, fault)
        for name, command in found
        if (fault := fault_of(words_of(command), whole=False)) is not None
    ]

    assert 300 < len(found)
    assert [] == faults
