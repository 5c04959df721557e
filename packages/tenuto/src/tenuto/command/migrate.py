"""`tenuto admin migrate`: bring the database up to date before the processes that serve it start."""

import argparse
from contextlib import closing

from msgspec.structs import replace

from tenuto.command.common import say, tell
from tenuto.command.options import ServiceLocation, add_location, location_of
from tenuto.errors import OperatorError, Unavailable
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument(
        "--check", action="store_true", help=t("only list what is missing, and fail if anything is")
    )
    add_location(parser)
    parser.set_defaults(run=_migrate)


def _migrate(options: argparse.Namespace, console: Console) -> int:
    """Bring the database up to date, or check whether it is; concurrent runs take turns."""
    from tenuto.db.migrations import applied
    from tenuto.process.data_opening import open_records
    from tenuto.process.runtime import arm_failpoints

    location = location_of(options)
    if options.check:
        return 0 if _is_up_to_date(location) else 1
    arm_failpoints()
    with closing(open_records(replace(location.settings(), migrations="apply"))) as database:
        names = list(database.read(applied))
    say(f"the database is up to date: {len(names)} migrations, the newest is {names[-1]}")
    return 0


def _is_up_to_date(location: ServiceLocation) -> bool:
    """Whether no migration is missing; prints the missing ones, one per line."""
    from tenuto.db.migrations import pending
    from tenuto.process.data_opening import database_unreachable, refuse_unfinished
    from tenuto.process.newest_copy import open_compared

    settings = location.settings()
    refuse_unfinished(settings.folder)
    sqlite = settings.database.removeprefix("sqlite:///")
    if sqlite != settings.database and not (settings.folder / sqlite).exists():
        raise OperatorError(f"there is no database {settings.folder / sqlite}; run: tenuto admin migrate")
    with closing(open_compared(settings)) as database:
        try:
            missing = pending(database)
        except Unavailable as error:
            raise database_unreachable(error) from error
    for name in missing:
        say(name)
    if missing:
        tell("these are missing; run: tenuto admin migrate")
    return not missing
