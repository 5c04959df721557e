"""The `tenuto` command: what runs and manages a service; callers' commands are in `tenuto_client.commands`.

Each command runs in a module that `COMMANDS` names, which is imported only then. Results go to stdout,
everything else to stderr; the exit code is 0 for success, 1 for a failure, 2 for a wrong command line.
"""

import sys

from tenuto_client.commands import VERBS, Command, Tree, words

PULL = Command("Download and verify the weights of the models that this machine runs.", "tenuto.cli.models")

ADMIN: Tree = {
    "accounts": Command("Create, list, credit, invite and suspend accounts.", "tenuto.cli.accounts"),
    "keys": Command("Create, list, rotate and revoke API keys.", "tenuto.cli.keys"),
    "models": Command(
        "List the models, add more, and verify their weights.",
        "tenuto.cli.models",
        {
            "add": Command("Download, test and enable a model by its name.", "tenuto.cli.additions"),
            "remove": Command(
                "Disable a model that was added, and delete its weights.", "tenuto.cli.additions"
            ),
            "pull": PULL,
        },
    ),
    "adapters": Command(
        "List engines that can be added, or print the settings for one.", "tenuto.cli.adapters"
    ),
    "voices": Command("List all voices, and import voices for every account.", "tenuto.cli.voices"),
    "doctor": Command("Check everything that the service needs to run.", "tenuto.cli.doctor"),
    "audit": Command("Check that ledger, jobs and stored bytes agree.", "tenuto.cli.audit"),
    "recover": Command("List and resolve jobs that wait for an operator.", "tenuto.cli.recover"),
    "evidence": Command("Show everything that is recorded about a job.", "tenuto.cli.evidence"),
    "backup": Command("Back up records and stored bytes while the service runs.", "tenuto.cli.backup"),
    "restore": Command("Restore a backup into an empty service.", "tenuto.cli.backup"),
    "migrate": Command("Bring the database up to date.", "tenuto.cli.migrate"),
    "database": Command(
        "Accept a database that was restored or moved as the one in use.", "tenuto.cli.database"
    ),
}
"""The operator's commands."""

SERVICE: Tree = {
    "serve": Command(
        "Run the whole service on this machine: API, worker and engines.",
        "tenuto.cli.serve",
        heading="Run a service:",
    ),
    "api": Command("Run only the API.", "tenuto.cli.serve"),
    "worker": Command("Run only a worker.", "tenuto.cli.serve"),
    "admin": Command("Manage a service: accounts, keys, models, backups, repairs.", below=ADMIN),
    "uninstall": Command("Show what lies where on this machine, and remove it.", "tenuto.cli.uninstall"),
}

COMMANDS: Tree = {
    **VERBS,
    "login": VERBS["login"]._replace(heading="Use a service:"),
    "models": VERBS["models"]._replace(below={"pull": PULL}),
    **SERVICE,
}
"""All commands of `tenuto`."""


def main() -> None:
    """The entry point of the `tenuto` command."""
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        # Nothing has been started yet; a command itself reports what it has started.
        sys.exit(130)


def run(line: list[str]) -> int:
    """Run `tenuto LINE`; returns the exit code."""
    from tenuto_client import commands
    from tenuto_client.commands import examples, local, streams

    words.add("tenuto.cli.zh")
    examples.add("tenuto.cli.examples")
    local.add("tenuto.cli.local")
    streams.prepare()
    if line in (["--version"], ["version"]):
        from importlib.metadata import version

        streams.write(version("tenuto") + "\n")
        return 0
    try:
        return commands.main(line, COMMANDS)
    except Exception as error:
        from tenuto.errors import TenutoError, is_of_the_machine

        if isinstance(error, TenutoError):
            message = error.message
        elif is_of_the_machine(error):
            why = " ".join(str(error).split()) or type(error).__name__
            message = f"This command ran out of a system resource: {why}"
        else:
            raise
        print(f"tenuto: {words.translated(message)}", file=sys.stderr)
        return 1
