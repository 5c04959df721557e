"""The `tenuto` command: the operator's commands are here, the caller's verbs are `tenuto_client.commands`.

An operator's command loads settings, opens what it needs, calls operations and prints. Results go to stdout,
everything else to stderr; 0 is success, 1 a failure, 2 a wrong command line.
"""

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


def main() -> None:
    """The entry point of the `tenuto` command."""
    from tenuto_client import commands

    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help") or words[0] in commands.VERBS:
        sys.exit(commands.main(words, others=COMMANDS))
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
        print(f"tenuto: {error} (see tenuto --help)", file=sys.stderr)
        sys.exit(2)
    except TenutoError as error:
        print(f"tenuto: {error.message}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
