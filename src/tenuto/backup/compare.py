"""Are the rows of two databases the same? By table: how many, and a digest that knows no order.

Two databases may sort one text in two ways, so a table's digest is the sum of its rows' digests. What speaks
of processes of a machine is left out, as from a backup.
"""

import hashlib
import json
from dataclasses import dataclass

from tenuto.backup.rows import LEFT_OUT
from tenuto.db import schema
from tenuto.db.database import Database, Dialect, Transaction

_MODULUS = 1 << 256


@dataclass(frozen=True, slots=True)
class Contents:
    """What a table holds."""

    rows: int
    digest: str


def contents(database: Database) -> dict[str, Contents]:
    """Every table of one moment."""
    return database.snapshot(lambda tx: _contents(tx, database.dialect))


def differences(ours: dict[str, Contents], theirs: dict[str, Contents]) -> list[str]:
    """The tables that are not the same, with how many rows each side has."""
    return [
        f"{name} ({_rows(ours.get(name))} and {_rows(theirs.get(name))} rows)"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def _contents(tx: Transaction, dialect: Dialect) -> dict[str, Contents]:
    return {table.name: _of(tx, table) for table in schema.tables(tx, dialect) if table.name not in LEFT_OUT}


def _of(tx: Transaction, table: schema.Table) -> Contents:
    count = total = 0
    for values in schema.rows(tx, table):
        row = dict(zip(table.columns, values, strict=True))
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        total += int.from_bytes(hashlib.sha256(line.encode()).digest())
        count += 1
    return Contents(count, f"{total % _MODULUS:064x}")


def _rows(found: Contents | None) -> str:
    return "no" if found is None else str(found.rows)
