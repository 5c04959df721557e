"""Running a write again whose outcome is unknown, so that its caller gets an answer and not a riddle.

For operations that find out by themselves whether they were carried out before: by an id that was made before
the first try and is looked up, or because twice is the same as once. It knows nothing of what they write.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from tenuto.db.database import Database, Transaction
from tenuto.errors import CommitUnknown, Unavailable

T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0


def write_known(database: Database, operation: Callable[[Transaction], T], *, patience_s: float) -> T:
    """Write, and after a lost answer write again until the outcome is known or the patience is over.

    Raises CommitUnknown when it is still unknown then; a database that was away from the start is Unavailable
    at once.
    """
    try:
        return database.write(operation)
    except CommitUnknown as error:
        unknown = error
    until, pause_s = time.monotonic() + patience_s, FIRST_PAUSE_S
    while time.monotonic() < until:
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        try:
            return database.write(operation)
        except Unavailable as error:
            unknown.__cause__ = error
    raise unknown


async def write_known_async(database: Database, operation: Callable[[Transaction], T]) -> T:
    """The same for the event loop, once more and no longer: callers send the same again."""
    try:
        return await database.write_async(operation)
    except CommitUnknown as unknown:
        try:
            return await database.write_async(operation)
        except Unavailable:
            raise unknown from None
