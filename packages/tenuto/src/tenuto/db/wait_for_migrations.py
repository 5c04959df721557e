"""Waiting until somebody who may change tables has brought the database up to date.

It changes nothing itself, so that the processes that serve need no right to.
"""

import threading
import time
from collections.abc import Callable

from tenuto.db.connection_errors import describe
from tenuto.db.database import Database
from tenuto.db.migrations import pending
from tenuto.errors import OperatorError, Unavailable

LOOK_S = 1.0


def wait_for_migrations(
    database: Database, *, patience_s: float, stopping: threading.Event, on_wait: Callable[[str], None]
) -> None:
    """Return when nothing is pending; look once a second, for `patience_s` at most; once tell `on_wait` why.

    Raises OperatorError when it is not done by then, or we are to stop; Unavailable when the database is away
    still. What `pending` refuses is refused at once: waiting mends no changed file and no newer database.
    """
    until = time.monotonic() + patience_s
    is_told = False
    while True:
        try:
            missing = pending(database)
            why = f"{len(missing)} migrations are missing; run: tenuto admin migrate"
        except Unavailable as error:
            if time.monotonic() >= until:
                raise
            missing, why = ["the database"], f"the database {describe(error)}"
        if not missing:
            return
        if stopping.is_set() or time.monotonic() >= until:
            raise OperatorError(
                f"the database is not up to date, it lacks {missing[0]}; run: tenuto admin migrate"
            )
        if not is_told:
            is_told = True
            on_wait(why)
        stopping.wait(LOOK_S)
