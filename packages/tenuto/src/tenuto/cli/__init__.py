"""The `tenuto` command: the operator's commands are here, the caller's verbs are `tenuto_client.commands`.

An operator's command loads settings, opens what it needs, calls operations and prints. Results go to stdout,
everything else to stderr; 0 is success, 1 a failure, 2 a wrong command line.
"""

import errno
import sys

COMMANDS = {
    "serve": "Run everything on this machine.",
    "api": "Run the API alone.",
    "worker": "Run a worker alone.",
    "migrate": "Bring the database up to date.",
    "accounts": "Who calls and who pays.",
    "keys": "API keys: shown once, stored as hashes.",
    "models": "Models and their weights.",
    "voice-library": "Voices that everybody may use, and those of accounts.",
    "recover": "Jobs that wait for an operator.",
    "audit": "Hold balances, jobs and bytes against each other.",
    "backup": "Copy the records and their bytes while the service runs.",
    "restore": "Bring a backup back.",
    "doctor": "Check everything that serving needs.",
}
"""The operator's commands, for the list of all: reading it must not load them."""

CHINESE = {
    "serve": "在这台机器上运行全部服务。",
    "api": "只运行 API。",
    "worker": "只运行一个工作进程。",
    "migrate": "把数据库更新到最新结构。",
    "accounts": "账户：谁在调用，谁付费。",
    "keys": "API 密钥：只显示一次，只存哈希。",
    "models": "模型及其权重。",
    "voice-library": "人人可用的音色，以及各账户的音色。",
    "recover": "等待运营者决定的任务。",
    "audit": "核对余额、任务和数据是否一致。",
    "backup": "在服务运行时备份记录和数据。",
    "restore": "恢复一份备份。",
    "doctor": "检查提供服务所需的一切。",
}
"""The same for whoever reads Chinese; what is said of one command alone is English."""

REMOVED = {
    "migrate-to": "migrate-to was removed: stop the service, run `tenuto backup DIR`, then"
    " `tenuto restore DIR` with the settings of the new place (docs/operations/moving.md)",
}
"""Commands that there were, and what to do instead."""


def main() -> None:
    """The entry point of the `tenuto` command."""
    try:
        _run()
    except KeyboardInterrupt:
        # Nothing was begun yet; a verb tells of what it began.
        sys.exit(130)


def _run() -> None:
    from tenuto_client import commands
    from tenuto_client.commands import streams
    from tenuto_client.commands.words import is_chinese

    streams.prepare()
    words = sys.argv[1:]
    if words and words[0] in REMOVED:
        print(f"tenuto: {REMOVED[words[0]]}", file=sys.stderr)
        sys.exit(2)
    if not words or (words[0] not in COMMANDS and words[0] != "--version"):
        others = {
            name: CHINESE.get(name, about) if is_chinese() else about for name, about in COMMANDS.items()
        }
        sys.exit(commands.main(words, others=others))
    _operate()


def _operate() -> None:
    """An operator's command."""
    from cyclopts import CycloptsError

    from tenuto.cli.app import app
    from tenuto.errors import TenutoError

    try:
        # Its own way of telling an error is a box of several lines, cut to the width of the terminal.
        app(exit_on_error=False, print_error=False)
    except CycloptsError as error:
        command = " ".join(["tenuto", *(error.command_chain or ())])
        print(f"tenuto: {error} (see {command} -h)", file=sys.stderr)
        sys.exit(2)
    except TenutoError as error:
        print(f"tenuto: {error.message}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        # The help is printed by a library: what it cannot write is told here.
        if error.errno != errno.ENOSPC:
            raise
        print(f"tenuto: {error.filename or 'stdout'}: {error.strerror}", file=sys.stderr)
        sys.exit(1)
