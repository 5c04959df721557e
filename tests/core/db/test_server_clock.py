"""The clock of the database's server, as workers read it."""

import time

from tenuto.db.database import Database
from tenuto.db.database_opening import server_clock


def test_it_is_read_where_there_is_a_server(database: Database) -> None:
    """In milliseconds, as it is and not as it was when a transaction began; SQLite has none."""
    clock = server_clock(database)
    if database.dialect == "sqlite":
        assert clock is None
        return
    assert clock is not None
    first = clock()
    time.sleep(0.05)

    assert abs(first - time.time() * 1000) < 60_000
    assert clock() >= first + 50
