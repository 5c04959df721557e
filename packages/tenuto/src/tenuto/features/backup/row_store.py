"""Reads the rows of any table, as the database itself writes them as JSON."""

from collections.abc import Iterator, Mapping

from tenuto.db.database import Dialect, Transaction
from tenuto.db.schema import Table, quoted

PAGE_ROWS = 250
"""A row may take a few hundred kilobytes."""

_AS_JSON: Mapping[Dialect, tuple[str, str]] = {
    "sqlite": ("iif(typeof({0}) = 'blob', cast({0} as text), {0})", "json_array({})"),
    "postgresql": ("{0}", "cast(json_build_array({}) as text)"),
}
"""The expressions for a column of text and for a row. A damaged SQLite column of text may hold bytes."""


def rows_as_json(tx: Transaction, dialect: Dialect, table: Table) -> Iterator[list[str]]:
    """The rows as JSON arrays of their columns' values, page by page, in the order of the primary key.

    The database makes the JSON, which takes less processor time than making it here. Use it on a snapshot.
    """
    assert table.key, f"{table.name} has no primary key to continue from"
    key = ", ".join(map(quoted, table.key))
    after = ", ".join(f":k{number}" for number in range(len(table.key)))
    text, line = _AS_JSON[dialect]
    columns = ((quoted(name), "{0}" if name in table.integers else text) for name in table.columns)
    line = line.format(", ".join(shape.format(column) for column, shape in columns))
    # The names come from the database's own catalogue, and are quoted.
    source = quoted(table.name)
    query = f"select {line} as line, {key} from {source} {{}} order by {key} limit {PAGE_ROWS}"  # noqa: S608
    page = tx.all(query.format(""))
    while page:
        yield [row["line"] for row in page]
        if len(page) < PAGE_ROWS:
            return
        last = {f"k{number}": page[-1][name] for number, name in enumerate(table.key)}
        page = tx.all(query.format(f"where ({key}) > ({after})"), **last)
