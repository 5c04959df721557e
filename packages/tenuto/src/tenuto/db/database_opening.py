"""Opens a database from its URL, and reads the clock of its server; only the driver in use is imported."""

from collections.abc import Callable
from pathlib import Path

from tenuto.db.database import Database, Transaction
from tenuto.errors import OperatorError


def open_database(url: str, *, folder: Path | None = None) -> Database:
    """Opens `sqlite:///PATH` (a relative PATH lies in `folder`) or `postgresql://…`; raises OperatorError."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and len(rest) > 1 and rest.startswith("/"):
        from tenuto.db.sqlite import SqliteDatabase

        return SqliteDatabase((folder or Path()) / rest[1:])
    if scheme in ("postgresql", "postgres"):
        from tenuto.db.postgres import PostgresDatabase

        return PostgresDatabase(url)
    raise OperatorError(f"{scheme}://… is not a database URL; write sqlite:///PATH or postgresql://…")


def server_clock(database: Database) -> Callable[[], int] | None:
    """A function that reads the wall clock of the database's server, in ms since 1970, by which machines that
    share it can see that theirs is wrong; None for SQLite, which has the clock of this machine.
    """
    return None if database.dialect == "sqlite" else lambda: database.read(_server_now_ms)


def _server_now_ms(tx: Transaction) -> int:
    row = tx.one("select cast(extract(epoch from clock_timestamp()) * 1000 as bigint) as now_ms")
    assert row is not None, "a select without a table gives a row"
    return int(row["now_ms"])
