"""Rows as records: each field of a struct is read from the column of the same name. Knows no tables.

A store returns records, never rows, so that mypy finds a misspelt field and not production. Types are those
that the store's author wrote; the database is trusted to hold them (`backup` checks what it loads,
an audit what is there). Damaged text arrives as described for `Row`.
"""

from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, Generic, TypeVar

import msgspec

from tenuto.db.database import Asking, Deferred, Row, Transaction, Value

R = TypeVar("R", bound=msgspec.Struct)


def one(tx: Transaction, record: type[R], sql: str, /, **parameters: Value) -> R | None:
    """The first row, or None. The caller makes sure that there is no second."""
    row = tx.one(sql, **parameters)
    return None if row is None else made(record, row)


def all_records(tx: Transaction, record: type[R], sql: str, /, **parameters: Value) -> list[R]:
    """All rows. The caller makes sure that they are few: write a limit."""
    values = _values(record)
    return [record(*values(row)) for row in tx.all(sql, **parameters)]


class DeferredRecord(msgspec.Struct, Generic[R], frozen=True):
    """The result of a statement sent with `ask`, as a record; fetched when it is first read."""

    record: type[R]
    asked: Deferred

    def one(self) -> R | None:
        """The first row, or None."""
        row = self.asked.one()
        return None if row is None else made(self.record, row)


def ask(tx: Asking, record: type[R], sql: str, /, **parameters: Value) -> DeferredRecord[R]:
    """Like `one`, for callers that send more statements before they read: see `Transaction.ask`."""
    return DeferredRecord(record, tx.ask(sql, **parameters))


def made(record: type[R], row: Row) -> R:
    """A record of some of a row's columns: for a statement that returns two records side by side."""
    return record(*_values(record)(row))


def columns(record: type[msgspec.Struct], table: str) -> str:
    """All fields, for a `select`. Never `*`: the table of a later version may have more columns."""
    return ", ".join(f"{table}.{name}" for name in record.__struct_fields__)


@cache
def _values(record: type[msgspec.Struct]) -> Callable[[Row], tuple[Any, ...]]:
    """Reads the columns of all fields at once; for a single one `itemgetter` would not return a tuple."""
    names = record.__struct_fields__
    if len(names) > 1:
        return itemgetter(*names)
    (name,) = names
    return lambda row: (row[name],)
