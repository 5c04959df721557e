"""Retries of writes whose outcome is unknown, so that the caller gets a definite result.

For idempotent operations: they look up an id that was made before the first try, or have the same effect when
run twice. Knows nothing of what they write.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from tenuto.db.database import Database, Transaction
from tenuto.errors import ActUnknown, CommitUnknown, Unavailable

T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0


def write_known(database: Database, operation: Callable[[Transaction], T], *, patience_s: float) -> T:
    """Write, and after a lost response retry until the outcome is known or `patience_s` has passed.

    Raises CommitUnknown if it is still unknown then; Unavailable, at once, if the database was away from the
    start.
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


async def write_known_async(
    database: Database,
    operation: Callable[[Transaction], T],
    *,
    account_id: str = "",
    is_repeatable: bool = True,
) -> T:
    """The same for the event loop, with a single retry: clients send the same request again.

    If that would do the same twice (not `is_repeatable`), raises ActUnknown, which tells them not to.
    """
    try:
        return await database.write_async(operation, account_id=account_id)
    except CommitUnknown as unknown:
        try:
            return await database.write_async(operation, account_id=account_id)
        except Unavailable:
            raise unknown if is_repeatable else ActUnknown() from None
