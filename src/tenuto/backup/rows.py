"""Tables as files: a line of column names, then a line of values for each row. It knows no table by name.

But for those that speak of processes of a machine, which mean nothing in another place.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tenuto.backup.manifest import TableFile, open_new
from tenuto.db import schema
from tenuto.db.database import Database, Dialect, Transaction, Value
from tenuto.db.schema import Table
from tenuto.errors import OperatorError

LEFT_OUT = frozenset({"migration", "worker", "worker_model", "backup"})
"""Migrations are in the manifest; workers and backups are processes."""

BATCH_ROWS = 500
BATCH_BYTES = 4 * 1024 * 1024
"""So much one statement of a restore writes: as many rows, or as many bytes, whichever comes first."""


def dump(database: Database, tx: Transaction, folder: Path) -> dict[str, TableFile]:
    """Write every table to a file of its own, durably; `tx` is a snapshot."""
    return {
        table.name: _dump_table(tx, table, path_of(folder, table.name))
        for table in schema.tables(tx, database.dialect)
        if table.name not in LEFT_OUT
    }


def load(tx: Transaction, dialect: Dialect, folder: Path, files: dict[str, TableFile]) -> None:
    """Write every row of the files into tables that are empty, in an order that references allow."""
    tables = [table for table in schema.tables(tx, dialect) if table.name not in LEFT_OUT]
    unknown = set(files) - {table.name for table in tables}
    if unknown:
        raise OperatorError(f"the backup has tables that there are not: {', '.join(sorted(unknown))}")
    for table in tables:
        if table.name in files:
            _load_table(tx, dialect, table, path_of(folder, table.name))


def is_empty(tx: Transaction, dialect: Dialect) -> bool:
    """Whether no table has a row."""
    kept = [table for table in schema.tables(tx, dialect) if table.name not in LEFT_OUT]
    return not any(schema.has_rows(tx, table) for table in kept)


def records(folder: Path, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a file, by column."""
    with path_of(folder, table).open("rb") as file:
        columns = json.loads(file.readline())
        for line in file:
            yield dict(zip(columns, json.loads(line), strict=True))


def check(folder: Path, name: str, expected: TableFile) -> None:
    """Raises OperatorError unless the file is what the manifest says."""
    path = path_of(folder, name)
    digest, lines, size_bytes = hashlib.sha256(), 0, 0
    try:
        with path.open("rb") as file:
            for line in file:
                digest.update(line)
                size_bytes += len(line)
                lines += 1
    except OSError as error:
        raise OperatorError(f"{path} cannot be read ({error.strerror}): the backup is damaged") from error
    if TableFile(lines - 1, size_bytes, digest.hexdigest()) != expected:
        raise OperatorError(f"{path} is not what the manifest says: the backup is damaged")


def path_of(folder: Path, table: str) -> Path:
    return folder / f"{table}.jsonl"


def _dump_table(tx: Transaction, table: Table, path: Path) -> TableFile:
    digest, count, size_bytes = hashlib.sha256(), -1, 0
    with open_new(path) as file:
        for values in _lines(tx, table):
            line = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            file.write(line)
            digest.update(line)
            size_bytes += len(line)
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return TableFile(count, size_bytes, digest.hexdigest())


def _lines(tx: Transaction, table: Table) -> Iterator[list[Value]]:
    yield list(table.columns)
    yield from schema.rows(tx, table)


def _load_table(tx: Transaction, dialect: Dialect, table: Table, path: Path) -> None:
    with path.open("rb") as file:
        columns = json.loads(file.readline())
        page: list[list[Value]] = []
        size_bytes = 0
        for line in file:
            page.append(json.loads(line))
            size_bytes += len(line)
            if len(page) == BATCH_ROWS or size_bytes >= BATCH_BYTES:
                schema.insert(tx, dialect, table, columns, page)
                page, size_bytes = [], 0
        if page:
            schema.insert(tx, dialect, table, columns, page)
