"""Waiting until somebody who may change tables has brought the database up to date, by `tenuto migrate`.

It changes nothing itself, so that the processes that serve need no right to.
"""

import threading
import time
from collections.abc import Callable

from tenuto.db.database import Database
from tenuto.db.migrations import pending
from tenuto.errors import OperatorError, Unavailable

LOOK_S = 1.0


def await_migrations(
    database: Database, *, patience_s: float, stopping: threading.Event, on_wait: Callable[[], None]
) -> None:
    """Return when nothing is pending; look once a second, for `patience_s` at most. `on_wait` is told once.

    Raises OperatorError when it is not done by then, or we are to stop; Unavailable when the database is away
    still. What `pending` refuses is refused at once: waiting mends no changed file and no newer database.
    """
    until = time.monotonic() + patience_s
    told = False
    while True:
        try:
            missing = pending(database)
        except Unavailable:
            if time.monotonic() >= until:
                raise
            missing = ["the database"]
        if not missing:
            return
        if stopping.is_set() or time.monotonic() >= until:
            raise OperatorError(f"the database is not up to date, it lacks {missing[0]}; say: tenuto migrate")
        if not told:
            told = True
            on_wait()
        stopping.wait(LOOK_S)
