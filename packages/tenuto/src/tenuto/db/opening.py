"""Opens a database from its URL; only the driver in use is imported."""

from pathlib import Path

from tenuto.db.database import Database
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
