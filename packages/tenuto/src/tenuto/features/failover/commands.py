"""`tenuto admin database`: make another copy of the database the one in use, as after a restore."""

import argparse
from contextlib import closing

from tenuto.command.common import own_blobs, report
from tenuto.command.options import add_location, location_of
from tenuto.errors import OperatorError, Unavailable
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser


def add(parser: Parser, name: str) -> None:
    """Its options."""
    command = parser.add_verb(
        "accept", "Use the database in the settings from now on, and no other copy of it."
    )
    add_location(command)
    command.set_defaults(run=_accept)


def _accept(options: argparse.Namespace, console: Console) -> int:
    """Accept the one server that answers. Running processes leave any other within seconds."""
    from tenuto.db.database_opening import open_database
    from tenuto.features.failover.accept import accept
    from tenuto.process.data_opening import database_unreachable

    settings = location_of(options).settings()
    with closing(open_database(settings.database, folder=settings.folder)) as database:
        if database.servers is None:
            raise OperatorError("a SQLite file has no other copy; there is nothing to accept")
        try:
            host = accept(database, lambda: own_blobs(settings, database))
        except Unavailable as error:
            raise database_unreachable(error) from error
    report(
        f"the database of {host} is the one in use now; every process leaves other copies within 10 seconds"
    )
    return 0
