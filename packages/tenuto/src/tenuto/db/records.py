"""Rows as records: each field of a struct is read from the column of its name. Knows no tables.

A store gives records away, never rows: a misspelt field is then an error of mypy's, not of some midnight's.
Types are those that the store's author wrote; the database is trusted to hold them (`backup` checks what it
loads, `jobs.audit` what is there). Damaged text arrives as `Row` says.
"""

from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, Generic, TypeVar

import msgspec

from tenuto.db.database import Asking, Deferred, Row, Transaction, Value

R = TypeVar("R", bound=msgspec.Struct)


def one(tx: Transaction, record: type[R], sql: str, /, **parameters: Value) -> R | None:
    """The first row, or None. It is the caller's duty that there is no second."""
    row = tx.one(sql, **parameters)
    return None if row is None else made(record, row)


def all_records(tx: Transaction, record: type[R], sql: str, /, **parameters: Value) -> list[R]:
    """All rows. It is the caller's duty that they are few: write a limit."""
    values = _values(record)
    return [record(*values(row)) for row in tx.all(sql, **parameters)]


class DeferredRecord(msgspec.Struct, Generic[R], frozen=True):
    """The answer to a statement of `ask`, as a record, had when it is looked at."""

    record: type[R]
    asked: Deferred

    def one(self) -> R | None:
        """The first row, or None."""
        row = self.asked.one()
        return None if row is None else made(self.record, row)


def ask(tx: Asking, record: type[R], sql: str, /, **parameters: Value) -> DeferredRecord[R]:
    """Like `one`, for who has more to say before looking: see `Transaction.ask`."""
    return DeferredRecord(record, tx.ask(sql, **parameters))


def made(record: type[R], row: Row) -> R:
    """A record of some of a row's columns: for a statement that gives two records side by side."""
    return record(*_values(record)(row))


def columns(record: type[msgspec.Struct], table: str) -> str:
    """All fields, for a `select`. Never `*`: the table of a later version may have more columns."""
    return ", ".join(f"{table}.{name}" for name in record.__struct_fields__)


@cache
def _values(record: type[msgspec.Struct]) -> Callable[[Row], tuple[Any, ...]]:
    """Reads the columns of all fields at once; of one alone `itemgetter` would not give a tuple."""
    names = record.__struct_fields__
    if len(names) > 1:
        return itemgetter(*names)
    (name,) = names
    return lambda row: (row[name],)
