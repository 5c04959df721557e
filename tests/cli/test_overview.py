"""What `tenuto` alone says: every command in a line, in the reader's language."""

import os
import re
import subprocess

import pytest

from servers.service import TENUTO
from tenuto.cli import COMMANDS
from tenuto_client.commands import VERBS

HAN = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize(("language", "is_chinese"), [("zh_CN.UTF-8", True), ("C.UTF-8", False)])
def test_every_command_has_its_line_in_the_readers_language(language: str, is_chinese: bool) -> None:
    """The caller's verbs and the operator's commands alike."""
    done = subprocess.run([TENUTO], env=os.environ | {"LC_ALL": language}, capture_output=True, text=True)
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  "))

    assert [*VERBS, *COMMANDS] == list(lines)
    assert dict.fromkeys(lines, is_chinese) == {name: bool(HAN.search(line)) for name, line in lines.items()}
