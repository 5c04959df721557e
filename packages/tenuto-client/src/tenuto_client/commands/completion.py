"""`tenuto completion`: the script that shtab makes from the parsers, and the values that it requests."""

from __future__ import annotations

import argparse
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenuto_client import settings
from tenuto_client.commands import Tree, fill, local
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t
from tenuto_client.errors import TenutoError

SHELLS = ("bash", "zsh", "fish")
VALUES = ("voices", "voice-ids", "models", "jobs", "webhooks", "accounts")
OF_ARGUMENT = {
    "VOICE": "voices",
    "VOICE_ID": "voice-ids",
    "MODEL": "models",
    "JOB": "jobs",
    "WEBHOOK": "webhooks",
    "ACCOUNT": "accounts",
}
"""The values that complete an argument with this name in the help."""
PATIENCE_S = 1.0
"""The longest wait after Tab, whatever fails to answer."""
_ONE_WORD = re.compile(r"[\w./@+-]+")
"""What every shell accepts unquoted."""


def add(parser: Parser, verb: str) -> None:
    """Declare the arguments."""
    parser.set_defaults(run=run)
    parser.add_argument("shell", nargs="?", choices=SHELLS, help=t("the shell (default: that of SHELL)"))
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--install", action="store_true", help=t("save the script where the shell looks for it")
    )
    group.add_argument(
        "--values", choices=VALUES, help=t("print what the script completes with, and nothing but that")
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """Print or save the script, or print values."""
    if options.values:
        return _print_values(options.values, console)
    shell = options.shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise TenutoError(t("say which shell: {shells}", shells=", ".join(SHELLS)))
    if not options.install:
        console.say(_script(options.tree, shell))
        return 0
    file = script_file(shell)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(_script(options.tree, shell) + "\n", "utf-8")
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    console.say(str(file))
    if shell == "zsh":
        line = f"fpath=({file.parent} $fpath); autoload -Uz compinit; compinit"
        console.tell(t("once, in ~/.zshrc, if that folder is not in $fpath: {line}", line=line))
    console.tell(t("it works in every shell that is started from now on"))
    return 0


def script_file(shell: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Where `--install` saves the script of a shell."""
    home = Path(environment.get("HOME") or Path.home())
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local/share")
    if shell == "fish":
        return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/tenuto.fish"
    if shell == "zsh":
        return data / "zsh/site-functions/_tenuto"
    return (
        Path(environment.get("BASH_COMPLETION_USER_DIR") or data / "bash-completion") / "completions/tenuto"
    )


def _script(tree: Tree, shell: str) -> str:
    # Imported here because only this command needs it.
    import shtab

    whole = Parser(prog="tenuto")
    for name, command in tree.items():
        fill(whole.add_verb(name, command.about), name, command)
    asked = {
        name: shtab.cmd(f"tenuto completion --values {values} 2>/dev/null")
        for name, values in OF_ARGUMENT.items()
    }
    _complete(whole, {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY, **asked})
    return str(shtab.complete(whole, shell))


def _complete(parser: argparse.ArgumentParser, how: Mapping[str, Any]) -> None:
    """Let the shell complete arguments that are files, folders, voices, models, jobs or accounts."""
    for action in parser._actions:
        name = str(action.metavar)
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete(inner, how)
        elif "FILE" in name or name in how:
            action.complete = how["FILE" if "FILE" in name else name]  # type: ignore[attr-defined]


def _print_values(kind: str, console: Console) -> int:
    """Print one value per line, and nothing if there is no answer: pressing Tab must print no messages."""
    end = threading.Timer(PATIENCE_S, os._exit, (0,))
    end.daemon = True
    end.start()
    with suppress(Exception):
        values = local.names(kind) if kind == "accounts" else _of_service(kind)
        for value in values:
            if _ONE_WORD.fullmatch(value):
                console.say(value)
    end.cancel()
    return 0


def _of_service(kind: str) -> Iterable[str]:
    """Ids or, for voices, names that a shell takes as one word."""
    from tenuto_client.commands.status import answer

    path = {"voice-ids": "voices", "models": "models"}.get(kind, kind)
    limit = "" if path in ("models", "webhooks") else "?limit=100"
    _, document = answer(settings.credentials(), f"/v1/{path}{limit}", PATIENCE_S)
    return _named(document["data"], kind)


def _named(records: Iterable[Mapping[str, Any]], kind: str) -> Iterator[str]:
    for record in records:
        name = str(record["name"]) if kind == "voices" else ""
        yield name if _ONE_WORD.fullmatch(name) else str(record.get("voice_id") or record["id"])
