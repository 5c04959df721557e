"""Checks the database's own structure: indexes hold every row, in order; pages are valid.

A row that its index does not find is worse than one that is gone: a resent request finds no idempotency key
and makes a second job. SQLite checks itself, and so does PostgreSQL with its extension amcheck; without it,
every row is looked up by each unique index. Knows no table by name.
"""

import sqlite3
from collections.abc import Callable, Iterator

from msgspec import Struct

from tenuto.db import schema
from tenuto.db.database import Database, Row, Transaction
from tenuto.errors import Unavailable

MAX_FAULTS = 100
"""The most that are listed, for all tables together."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BTREES = """select c.relname as name from pg_index i
    join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
    where m.amname = 'btree' and c.relnamespace = current_schema()::regnamespace and i.indisvalid
    order by c.relname"""
_UNIQUE = """select c.relname as name, t.relname as table_name,
        pg_get_expr(i.indpred, i.indrelid) as predicate,
        (select string_agg(format('b.%I = a.%I', a.attname, a.attname), ' and ' order by k.place)
         from unnest(i.indkey::int2[]) with ordinality as k (number, place)
         join pg_attribute a on a.attrelid = t.oid and a.attnum = k.number) as same,
        (select string_agg(format('a.%I is not null', a.attname), ' and ')
         from unnest(i.indkey::int2[]) as k (number)
         join pg_attribute a on a.attrelid = t.oid and a.attnum = k.number) as has_key
    from pg_index i
    join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
    join pg_am m on m.oid = c.relam
    where i.indisunique and i.indisvalid and i.indexprs is null and m.amname = 'btree'
      and c.relnamespace = current_schema()::regnamespace
    order by c.relname"""


class Fault(Struct, frozen=True):
    """One thing that is damaged: a table or an index, and what the database says about it."""

    subject: str
    what: str


def faults(
    database: Database, *, deep: bool, stopping: Callable[[], bool] = lambda: False
) -> Iterator[Fault]:
    """Every fault, as it is found. `deep` is slower; it adds foreign keys (SQLite), lost rows (PostgreSQL).

    It reads on connections of its own and blocks nobody; one table or index at a time, so that no snapshot is
    held for long. Raises Unavailable when the database is away.
    """
    faults_of = _sqlite if database.dialect == "sqlite" else _postgres
    for number, fault in enumerate(faults_of(database, deep, stopping)):
        if number == MAX_FAULTS:
            return
        yield fault


def has_amcheck(tx: Transaction) -> bool:
    """Whether PostgreSQL can check its indexes by itself."""
    return tx.one("select 1 as one from pg_extension where extname = 'amcheck'") is not None


def _sqlite(database: Database, deep: bool, stopping: Callable[[], bool]) -> Iterator[Fault]:
    if deep:
        yield from _pragma(database, "", f"integrity_check({MAX_FAULTS})")
        yield from _references(database)
        return
    try:
        tables = database.read(lambda tx: schema.tables(tx, "sqlite"))
    except Unavailable as error:
        yield _malformed("schema", error)
        return
    for table in tables:
        if stopping():
            return
        yield from _pragma(database, table.name, f'integrity_check("{table.name}")')


def _pragma(database: Database, subject: str, pragma: str) -> Iterator[Fault]:
    try:
        rows = database.snapshot(lambda tx: tx.all(f"pragma {pragma}"))
    except Unavailable as error:
        yield _malformed(subject, error)
        return
    for row in rows:
        if row["integrity_check"] != "ok":
            yield Fault(subject or "database", row["integrity_check"])


def _references(database: Database) -> Iterator[Fault]:
    try:
        rows = database.snapshot(lambda tx: tx.all("pragma foreign_key_check"))
    except Unavailable as error:
        yield _malformed("database", error)
        return
    for row in rows:
        yield Fault(row["table"], f"row {row['rowid']} refers to a row of {row['parent']} that is not there")


def _malformed(subject: str, error: Unavailable) -> Fault:
    """What SQLite says about a file that it cannot even traverse. Any other error is raised again."""
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error) and (getattr(cause, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED:
        return Fault(subject or "database", str(cause))
    raise error


def _postgres(database: Database, deep: bool, stopping: Callable[[], bool]) -> Iterator[Fault]:
    if database.read(has_amcheck):
        for name in [row["name"] for row in database.read(lambda tx: tx.all(_BTREES))]:
            if stopping():
                return
            yield from _check_btree(database, name, deep)
    elif deep:
        for row in database.read(lambda tx: tx.all(_UNIQUE)):
            yield from _check_index(database, row)


def _check_btree(database: Database, name: str, deep: bool) -> Iterator[Fault]:
    import psycopg  # A service on SQLite does without the driver, and starts 75 ms faster.

    def check(tx: Transaction) -> None:
        tx.all(
            "select bt_index_check(cast(cast(:name as text) as regclass), :deep = 1)",
            name=name,
            deep=int(deep),
        )

    try:
        database.snapshot(check)
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith("XX"):
            raise
        yield Fault(name, str(error).splitlines()[0])


def _check_index(database: Database, index: Row) -> Iterator[Fault]:
    """Every row of the table, read in the order of its pages, must be found by its own key in the index.

    A key that contains a null equals no key, not even itself: such rows are skipped.
    """
    name, table, same = index["name"], index["table_name"], index["same"]
    also = f"and ({index['predicate']})" if index["predicate"] else ""
    # All names come from the server's catalogue, quoted by it. A range of ctid uses no index.
    query = f"""select count(*) as lost from "{table}" a where a.ctid >= '(0,0)' and {index["has_key"]} {also}
        and not exists (select 1 from "{table}" b where {same} {also})"""  # noqa: S608

    def find(tx: Transaction) -> int:
        for setting in ("seqscan", "hashjoin", "mergejoin", "bitmapscan", "material", "memoize"):
            tx.do(f"set local enable_{setting} = off")
        row = tx.one(query)
        return 0 if row is None else int(row["lost"])

    if lost := database.snapshot(find):
        yield Fault(name, f"{lost} rows of {table} are not found by this index")
