"""Brings a database up to date: numbered SQL files, each applied once, in one transaction with its row.

A migration that is interrupted leaves nothing behind and is applied again. Migrations only add: an earlier
version of the program still works on a database that a later one has migrated, alongside it and after it.
One that takes something away says so in its name, `0042_breaking_…`. Knows no table but its own.
"""

import hashlib
import re
import threading
import time
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct

from tenuto import failpoints
from tenuto.db.connection_errors import describe
from tenuto.db.database import Collided, Database, Dialect, Transaction
from tenuto.db.sql import statements
from tenuto.db.sqlite import UNDO_IN_MEMORY
from tenuto.errors import OperatorError, Unavailable

_NAME = re.compile(r"\d{4}_[a-z0-9_]+\.sql")
# The first of the migrations from before 0.1.0, whose schema then became the first migration.
_UNRELEASED = "0001_initial"
_BREAKING = re.compile(r"\d{4}_breaking_")
# Any number that nobody else uses: PostgreSQL locks it for the duration of a migration.
_ADVISORY_LOCK = 7_364_680_117
# Whoever needs a table that a migration waits for waits behind it: it gives way soon, and tries again.
_LOCK_WAIT = "1s"
_COLLISION_PATIENCE_S = 120.0
_COLLISION_PAUSE_S = 0.5
_LOCK_NOT_AVAILABLE = "55P03"
_HAS_TABLE: dict[Dialect, str] = {
    "sqlite": "select name from sqlite_master where name = 'migration'",
    "postgresql": "select tablename from pg_tables"
    " where tablename = 'migration' and schemaname = current_schema()",
}
# The time is by the database's own clock, in milliseconds: nothing depends on it.
_RECORD: dict[Dialect, str] = {
    "sqlite": "insert into migration (name, sha256, applied_at)"
    " values (:name, :sha256, cast(strftime('%s', 'now') as bigint) * 1000)",
    "postgresql": "insert into migration (name, sha256, applied_at)"
    " values (:name, :sha256, cast(extract(epoch from now()) * 1000 as bigint))",
}


class Migration(Struct, frozen=True):
    """One file: its name without the ending, its SHA-256 and its text."""

    name: str
    sha256: str
    script: str


def migrate(
    database: Database, *, folder: Traversable | None = None, only: frozenset[str] | None = None
) -> list[str]:
    """Applies what is missing (of `only`, if given) and returns its names, in order.

    Raises OperatorError when a later version has made a change that this program does not understand, or a
    file has changed since it was applied. Two processes may call it at once: one waits for the other.
    """
    known = load(folder or files("tenuto.db") / "migrations")
    done = _done(database)
    check(known, done)
    names = []
    for migration in known:
        if migration.name in done or (only is not None and migration.name not in only):
            continue
        if _applied(database, migration):
            names.append(migration.name)
            failpoints.hit("migration.after_commit")
    return names


def shipped() -> list[Migration]:
    """All migrations of this program, in order."""
    return load(files("tenuto.db") / "migrations")


def pending(database: Database, *, folder: Traversable | None = None) -> list[str]:
    """The names that `migrate` would apply, without applying them; the same errors."""
    known = load(folder or files("tenuto.db") / "migrations")
    done = _done(database)
    check(known, done)
    return [migration.name for migration in known if migration.name not in done]


def check_known(names: dict[str, str]) -> None:
    """Raises OperatorError unless this program has all of these migrations, unchanged."""
    known = shipped()
    check(known, names)
    if unknown := set(names) - {migration.name for migration in known}:
        raise OperatorError(f"It is of a newer version: it has {min(unknown)!r}. Install a newer version.")


def applied(tx: Transaction) -> dict[str, str]:
    """The migrations of a database with the SHA-256 of each, in order."""
    return {row["name"]: row["sha256"] for row in tx.all("select name, sha256 from migration order by name")}


def load(folder: Traversable) -> list[Migration]:
    """The migrations of a folder, in the order of their numbers."""
    named = sorted(
        (file for file in folder.iterdir() if _NAME.fullmatch(file.name)), key=lambda file: file.name
    )
    numbers = [file.name[:4] for file in named]
    assert len(set(numbers)) == len(numbers), "two migrations have the same number"
    return [
        Migration(file.name.removesuffix(".sql"), hashlib.sha256(content).hexdigest(), content.decode())
        for file in named
        for content in [file.read_bytes()]
    ]


def later(database: Database) -> list[str]:
    """What a later version has added, which this program does not know and need not know."""
    known = {migration.name for migration in shipped()}
    return [name for name in database.read(applied) if name not in known]


def check(known: list[Migration], applied: dict[str, str]) -> None:
    """Raises OperatorError unless what was applied is known, unchanged, or only adds to what is known."""
    sha256s = {migration.name: migration.sha256 for migration in known}
    if _UNRELEASED in applied:
        raise OperatorError(
            "These records are of a version before 0.1.0, which no released version reads;"
            " begin with an empty data folder and an empty database."
        )
    for name, sha256 in applied.items():
        if name not in sha256s and _BREAKING.match(name):
            raise OperatorError(
                f"The database is newer than this program: it has {name!r}. Install a newer version."
            )
        if sha256s.get(name, sha256) != sha256:
            raise OperatorError(f"The migration {name!r} has changed since it was applied to this database.")


def _done(database: Database) -> dict[str, str]:
    """`applied`, of a database that may still be empty."""
    has_table = _HAS_TABLE[database.dialect]
    return database.read(lambda tx: applied(tx) if tx.one(has_table) else {})


def _applied(database: Database, migration: Migration) -> bool:
    """`_apply`, retried while it collides with a running service's transactions.

    It locks every table that it changes, in its own order, while each request locks them in another.
    """
    until = time.monotonic() + _COLLISION_PATIENCE_S
    while True:
        try:
            return database.write_long(lambda tx: _apply(tx, database.dialect, migration))
        except Unavailable as error:
            is_in_the_way = isinstance(error, Collided) or _state(error) == _LOCK_NOT_AVAILABLE
            if not is_in_the_way or time.monotonic() >= until:
                raise
            time.sleep(_COLLISION_PAUSE_S)


def _state(error: Unavailable) -> str | None:
    """The SQLSTATE of what PostgreSQL answered."""
    return getattr(error.__cause__, "sqlstate", None)


def _apply(tx: Transaction, dialect: Dialect, migration: Migration) -> bool:
    """True when it was applied, false when another process has done it."""
    _lock(tx, dialect)
    tx.run(
        "create table if not exists migration"
        " (name text primary key, sha256 text not null, applied_at bigint not null)"
    )
    if tx.one("select name from migration where name = :name", name=migration.name):
        return False
    if dialect == "sqlite":
        # A new index of a long table is sorted in a file, not in memory.
        tx.run("pragma temp_store = file")
    for statement in statements(migration.script):
        tx.run(statement)
        failpoints.hit("migration.statement")
    tx.run(_RECORD[dialect], name=migration.name, sha256=migration.sha256)
    if dialect == "sqlite":
        tx.run(UNDO_IN_MEMORY)
    return True


def _lock(tx: Transaction, dialect: Dialect) -> None:
    """Wait for other migrations to end, however long they take; SQLite's writer has the lock already."""
    if dialect == "postgresql":
        tx.run("set local lock_timeout = 0")
        tx.all("select pg_advisory_xact_lock(:number)", number=_ADVISORY_LOCK)
        tx.run(f"set local lock_timeout = '{_LOCK_WAIT}'")


CHECK_S = 1.0


def wait_for_migrations(
    database: Database, *, patience_s: float, stopping: threading.Event, on_wait: Callable[[str], None]
) -> None:
    """Return once nothing is pending; check every second, for `patience_s` at most. `on_wait` gets a reason.

    Raises OperatorError if it is not done by then or `stopping` is set; Unavailable if the database is still
    away. What `pending` refuses is refused at once: waiting fixes no changed file and no newer database.
    """
    until = time.monotonic() + patience_s
    is_reported = False
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
        if not is_reported:
            is_reported = True
            on_wait(why)
        stopping.wait(CHECK_S)
