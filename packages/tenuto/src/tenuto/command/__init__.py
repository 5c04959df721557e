"""The `tenuto` command: what runs and manages a service; callers' commands are in `tenuto_client.commands`.

Each command runs in a module that `all_commands` names, which is imported only then. Results go to stdout,
everything else to stderr; the exit code is 0 for success, 1 for a failure, 2 for a wrong command line.
"""

import sys
from collections.abc import Sequence
from graphlib import TopologicalSorter

from tenuto.feature import features
from tenuto_client.commands import VERBS, Command, Tree, words

ADMIN: Tree = {
    "accounts": Command("Create, list, credit, invite and suspend accounts.", "tenuto.command.accounts"),
    "keys": Command("Create, list, rotate and revoke API keys.", "tenuto.command.keys"),
    "recover": Command("List and resolve jobs that wait for an operator.", "tenuto.command.recover"),
    "migrate": Command("Bring the database up to date.", "tenuto.command.migrate"),
}
"""The operator's commands of the core."""

SERVICE: Tree = {
    "serve": Command(
        "Run the whole service on this machine: API, worker and engines.",
        "tenuto.command.serve",
        heading="Run a service:",
    ),
    "api": Command("Run only the API.", "tenuto.command.serve"),
    "worker": Command("Run only a worker.", "tenuto.command.serve"),
    "admin": Command("Manage a service: accounts, keys, models, backups, repairs.", below=ADMIN),
}


def all_commands() -> Tree:
    """All commands of `tenuto`: the callers', the core's, and those of the features."""
    tree: Tree = {**VERBS, "login": VERBS["login"]._replace(heading="Use a service:"), **SERVICE}
    added = {line: one for feature in features().values() for line, one in feature.commands.items()}
    # A command comes after its group, and after the one that it follows.
    before: dict[str, tuple[str, str]] = {}
    for line, command in added.items():
        group = line.rpartition(" ")[0]
        before[line] = (group, f"{group} {command.after}".strip() if command.after else group)
    for line in TopologicalSorter(before).static_order():
        if line in added:
            tree = _with(tree, line.split(), added[line])
    return tree


def _with(tree: Tree, line: Sequence[str], command: Command) -> Tree:
    """The tree and one command more, where it says."""
    name, *below = line
    if below:
        return {**tree, name: tree[name]._replace(below=_with(tree[name].below, below, command))}
    names = [one for one in tree if one != name]
    names.insert(names.index(command.after) + 1 if command.after in names else len(names), name)
    return {one: command if one == name else tree[one] for one in names}


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
    from tenuto_client.commands import streams

    streams.prepare()
    if line in (["--version"], ["version"]):
        from importlib.metadata import version

        streams.write(version("tenuto") + "\n")
        return 0
    try:
        for feature in features().values():
            if feature.console:
                feature.part(feature.console)()
        return commands.main(line, all_commands())
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
