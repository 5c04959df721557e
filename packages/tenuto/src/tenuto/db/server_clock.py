"""The wall clock of the database's server, by which machines that share it can see that theirs is wrong."""

from collections.abc import Callable

from tenuto.db.database import Database, Transaction

_NOW = "select cast(extract(epoch from clock_timestamp()) * 1000 as bigint) as now_ms"


def server_clock(database: Database) -> Callable[[], int] | None:
    """A function that reads it, in ms since 1970; None for SQLite, which has the clock of this machine."""
    return None if database.dialect == "sqlite" else lambda: database.read(_read)


def _read(tx: Transaction) -> int:
    row = tx.one(_NOW)
    assert row is not None, "a select without a table gives a row"
    return int(row["now_ms"])
