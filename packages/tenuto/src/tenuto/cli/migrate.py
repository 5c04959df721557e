"""`tenuto admin migrate`: bring the database up to date before the processes that serve it start."""

import argparse
from dataclasses import replace

from tenuto import bootstrap
from tenuto.cli.common import say, tell
from tenuto.cli.options import ServiceLocation, add_place, place_of
from tenuto.db.migrations import applied, pending
from tenuto.db.opening import open_database
from tenuto.errors import OperatorError, Unavailable
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument(
        "--check", action="store_true", help=t("only list what is missing, and fail if anything is")
    )
    add_place(parser)
    parser.set_defaults(run=_migrate)


def _migrate(options: argparse.Namespace, console: Console) -> int:
    """Bring the database up to date, or look whether it is."""
    place = place_of(options)
    if options.check:
        return 0 if _is_up_to_date(place) else 1
    _bring_up_to_date(place)
    return 0


def _bring_up_to_date(place: ServiceLocation) -> None:
    """Apply what is missing; several that do so at once take turns."""
    bootstrap.arm_failpoints()
    database = bootstrap.open_records(replace(place.settings(), migrations="apply"))
    try:
        names = list(database.read(applied))
    finally:
        database.close()
    say(f"the database is up to date: {len(names)} migrations, the newest is {names[-1]}")


def _is_up_to_date(place: ServiceLocation) -> bool:
    """Whether nothing is missing; what is, is named, a line each."""
    settings = place.settings()
    sqlite = settings.database.removeprefix("sqlite:///")
    if sqlite != settings.database and not (settings.folder / sqlite).exists():
        raise OperatorError(f"there is no database {settings.folder / sqlite}; run: tenuto admin migrate")
    database = open_database(settings.database, folder=settings.folder)
    try:
        missing = pending(database)
    except Unavailable as error:
        raise bootstrap.database_unreachable(error) from error
    finally:
        database.close()
    for name in missing:
        say(name)
    if missing:
        tell("these are missing; run: tenuto admin migrate")
    return not missing
