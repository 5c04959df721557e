"""A database's tables, read from its own catalogue; writes rows of any of them as JSON values.

For backups, which copy tables that they know nothing about. All other code names its tables.
"""

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from tenuto.db.database import Dialect, Transaction, Value

_TABLES: Mapping[Dialect, str] = {
    "sqlite": """select name from sqlite_master
        where type = 'table' and name not like 'sqlite_%' order by rowid""",
    "postgresql": """select c.relname as name from pg_class c
        where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace order by c.oid""",
}
"""In the order in which they were created: a table refers only to older ones."""

_COLUMNS: Mapping[Dialect, str] = {
    "sqlite": "select name, pk as key, lower(type) as type from pragma_table_info(:table) order by cid",
    "postgresql": """select a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
            coalesce(array_position(i.indkey::int2[], a.attnum) + 1, 0) as key
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        left join pg_index i on i.indrelid = c.oid and i.indisprimary
        where c.relname = :table and c.relnamespace = current_schema()::regnamespace order by a.attnum""",
}
"""`key` is the column's place in the primary key, from 1; 0: it is not in it."""


class Table(Struct, frozen=True):
    """A table: its columns in order, those of its primary key, and those that hold integers, not text."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    integers: frozenset[str] = frozenset()


def tables(tx: Transaction, dialect: Dialect) -> list[Table]:
    """All tables, each after those that it refers to."""
    return [_table(tx, dialect, row["name"]) for row in tx.all(_TABLES[dialect])]


def insert(
    tx: Transaction, dialect: Dialect, table: Table, columns: Sequence[str], page: list[list[Value]]
) -> None:
    """Write a page of rows with one statement. A column that the table lacks is a bug in the caller."""
    assert set(columns) <= set(table.columns), f"{table.name} lacks {set(columns) - set(table.columns)}"
    encoded = json.dumps([dict(zip(columns, row, strict=True)) for row in page], ensure_ascii=False)
    name, into = quoted(table.name), ", ".join(map(quoted, columns))
    if dialect == "sqlite":
        values = ", ".join(f"json_extract(value, '$.{column}')" for column in columns)
        source = "json_each(:rows)"
    else:
        values, source = into, f"json_populate_recordset(null::{name}, cast(:rows as json))"
    tx.run(f"insert into {name} ({into}) select {values} from {source}", rows=encoded)  # noqa: S608


def has_rows(tx: Transaction, table: Table) -> bool:
    return tx.one(f"select 1 as one from {quoted(table.name)} limit 1") is not None  # noqa: S608


def count_rows(tx: Transaction, table: str) -> int:
    row = tx.one(f"select count(*) as n from {quoted(table)}")  # noqa: S608
    assert row is not None, "a count is always one row"
    return int(row["n"])


def quoted(name: str) -> str:
    """A name of the database's own catalogue, as statements take it."""
    assert name.replace("_", "").isalnum(), name
    return f'"{name}"'


def _table(tx: Transaction, dialect: Dialect, name: str) -> Table:
    columns = tx.all(_COLUMNS[dialect], table=name)
    key = sorted((row["key"], row["name"]) for row in columns if row["key"])
    integers = frozenset(row["name"] for row in columns if row["type"] in ("bigint", "integer"))
    return Table(name, tuple(row["name"] for row in columns), tuple(column for _, column in key), integers)
