"""`tenuto migrate`: bring the database up to date before the processes that serve it start."""

from dataclasses import replace

from tenuto import bootstrap
from tenuto.cli.common import Place, say, tell
from tenuto.db.migrations import applied, pending
from tenuto.db.opening import open_database
from tenuto.errors import OperatorError, Unavailable


def bring_up_to_date(place: Place) -> None:
    """Apply what is missing; several that do so at once take turns."""
    bootstrap.arm_failpoints()
    database = bootstrap.open_records(replace(place.settings(), migrations="apply"))
    try:
        names = list(database.read(applied))
    finally:
        database.close()
    say(f"the database is up to date: {len(names)} migrations, the newest is {names[-1]}")


def look(place: Place) -> bool:
    """Whether nothing is missing; what is, is named, a line each."""
    settings = place.settings()
    sqlite = settings.database.removeprefix("sqlite:///")
    if sqlite != settings.database and not (settings.folder / sqlite).exists():
        raise OperatorError(f"there is no database {settings.folder / sqlite}; say: tenuto migrate")
    database = open_database(settings.database, folder=settings.folder)
    try:
        missing = pending(database)
    except Unavailable as error:
        raise bootstrap.database_away(error) from error
    finally:
        database.close()
    for name in missing:
        say(name)
    if missing:
        tell("these are missing; say: tenuto migrate")
    return not missing
