"""The help of every command, as one page: what `tenuto COMMAND --help` prints."""

import subprocess
from pathlib import Path

_PRINT = """
import sys
from tenuto.command import all_commands
from tenuto_client.commands import parser_of

def show(path, tree):
    for word, command in tree.items():
        if command.module:
            help = parser_of([*path, word], command).format_help()
            print(f"## {' '.join([*path[1:], word])}\\n\\n```text\\n{help.rstrip()}\\n```\\n")
        show([*path, word], command.below if not command.module else {})

show(["tenuto"], all_commands())
"""
"""For the interpreter that Tenuto is installed in; the site's tools have their own."""


def pages(root: Path) -> dict[str, str]:
    """The page's path on the site and its Markdown."""
    environment = {"LC_ALL": "C.UTF-8", "COLUMNS": "100", "PATH": "", "HOME": "/", "NO_COLOR": "1"}
    command = [str(root / ".venv" / "bin" / "python"), "-c", _PRINT]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return {"reference/commands.md": f"# Commands and their options\n\n{done.stdout}"}
