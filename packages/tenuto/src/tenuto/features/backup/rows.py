"""Tables as files: a line of column names, then a line of values for each row. Knows no table by name.

Exceptions are the tables about one installation's processes, which mean nothing elsewhere.
"""

import hashlib
import itertools
import json
import operator
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tenuto.db import schema
from tenuto.db.database import Database, Dialect, Transaction, Value
from tenuto.db.schema import Table
from tenuto.errors import OperatorError
from tenuto.features.backup import row_store
from tenuto.features.backup.manifest import TableFile, open_new, open_regular

LEFT_OUT = frozenset(
    {"migration", "worker", "worker_model", "backup", "queue_room", "store", "generation", "span_export"}
    | {"login_try"}
)
"""Migrations are in the manifest; workers, backups and exports belong to processes; store and generation
are those of the old place; the room in queues and tries of passwords are counted again."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""No row that the service writes comes close to this."""
BATCH_ROWS = 500
BATCH_BYTES = 4 * 1024 * 1024
"""How much one statement of a restore writes: this many rows or bytes, whichever is reached first."""


def dump(database: Database, tx: Transaction, folder: Path) -> tuple[dict[str, TableFile], int]:
    """Write every table to a file of its own, durably; `tx` is a snapshot.

    Also returns the number of rows with text that is not UTF-8, in which U+FFFD replaces each invalid byte.
    """
    files: dict[str, TableFile] = {}
    damaged = 0
    for table in schema.tables(tx, database.dialect):
        if table.name not in LEFT_OUT:
            pages = row_store.rows_as_json(tx, database.dialect, table)
            files[table.name], count = _dump_table(pages, table, path_of(folder, table.name))
            damaged += count
    return files, damaged


def load(tx: Transaction, dialect: Dialect, folder: Path, files: dict[str, TableFile]) -> None:
    """Write every row of the files into empty tables, in an order that references allow."""
    tables = [table for table in schema.tables(tx, dialect) if table.name not in LEFT_OUT]
    unknown = set(files) - {table.name for table in tables}
    if unknown:
        raise OperatorError(f"the backup has tables that are not known here: {', '.join(sorted(unknown))}")
    for table in tables:
        if table.name in files:
            _load_table(tx, dialect, table, path_of(folder, table.name))


def is_empty(tx: Transaction, dialect: Dialect) -> bool:
    """Whether no table has a row."""
    tables = [table for table in schema.tables(tx, dialect) if table.name not in LEFT_OUT]
    return not any(schema.has_rows(tx, table) for table in tables)


def are_loaded(tx: Transaction, dialect: Dialect, files: Mapping[str, TableFile]) -> bool:
    """Whether every file has its table, with as many rows."""
    here = {table.name for table in schema.tables(tx, dialect)}
    return files.keys() <= here and all(
        schema.count_rows(tx, name) == file.rows for name, file in files.items()
    )


def records(folder: Path, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table's file, each by column."""
    with path_of(folder, table).open("rb") as file:
        columns = json.loads(file.readline())
        for line in file:
            yield dict(zip(columns, json.loads(line), strict=True))


def check(folder: Path, table: Table, expected: TableFile) -> None:
    """Raises OperatorError unless the file is as in the manifest, and its rows are what the table takes.

    A tampered backup may have matching checksums, so they alone prove nothing.
    """
    path = path_of(folder, table.name)
    digest, lines, size_bytes = hashlib.sha256(), 0, 0
    columns: list[str] = []
    try:
        with open_regular(path) as file:
            while line := file.readline(MAX_LINE_BYTES):
                digest.update(line)
                size_bytes += len(line)
                if lines == 0:
                    columns = _read_columns(line, table)
                else:
                    _check_row(line, columns, table)
                lines += 1
    except OSError as error:
        raise OperatorError(f"{path} cannot be read ({error.strerror}): the backup is damaged") from error
    except ValueError as error:
        raise OperatorError(f"{path}, line {lines + 1}: {error}: the backup is damaged") from error
    if TableFile(lines - 1, size_bytes, digest.hexdigest()) != expected:
        raise OperatorError(f"{path} is not what the manifest says: the backup is damaged")


def _read_columns(line: bytes, table: Table) -> list[str]:
    columns = msgspec.json.decode(line, type=list[str])
    if unknown := sorted(set(columns) - set(table.columns)):
        raise ValueError(f"{table.name} has no column {unknown[0]!r:.80}")
    if len(set(columns)) != len(columns):
        raise ValueError("a column comes twice")
    return columns


def _check_row(line: bytes, columns: list[str], table: Table) -> None:
    if not line.endswith(b"\n"):
        raise ValueError("the line is cut off, or longer than a row can be")
    values = msgspec.json.decode(line, type=list[str | int | None])
    for column, value in zip(columns, values, strict=True):
        if isinstance(value, int):
            is_fine = column in table.integers and -(1 << 63) <= value < 1 << 63
        else:
            is_fine = value is None or (column not in table.integers and "\0" not in value)
        if not is_fine:
            raise ValueError(f"{column} cannot hold what it has")


def path_of(folder: Path, table: str) -> Path:
    return folder / f"{table}.jsonl"


def _dump_table(pages: Iterator[list[str]], table: Table, path: Path) -> tuple[TableFile, int]:
    digest, count, size_bytes, damaged = hashlib.sha256(), 0, 0, 0
    with open_new(path) as file:
        for page in itertools.chain([[json.dumps(table.columns)]], pages):
            try:
                content = "".join(f"{line}\n" for line in page).encode()
            except UnicodeEncodeError:
                whole = [line.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for line in page]
                damaged += sum(map(operator.ne, page, whole))
                content = "".join(f"{line}\n" for line in whole).encode()
            file.write(content)
            digest.update(content)
            size_bytes += len(content)
            count += len(page)
        file.flush()
        os.fsync(file.fileno())
    return TableFile(count - 1, size_bytes, digest.hexdigest()), damaged


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
