"""Moving a stopped service to another database and another store of bytes, compared before it counts.

Bytes first, then all rows in one transaction, then both are read again and compared. A file in the data
folder says where to: while it is unfinished nothing starts there and the same move said again goes on;
afterwards nothing starts on the place that was left. Killed anywhere, it is said again.
"""

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path

from tenuto import failpoints
from tenuto.backup import rows
from tenuto.backup.compare import contents, differences
from tenuto.backup.manifest import ROWS, TableFile, make_folder, open_new, sync
from tenuto.backup.take import wanted
from tenuto.blobs.blob import BlobRecord, BlobStore, check_whole
from tenuto.db import migrations, schema
from tenuto.db.database import Database, Transaction
from tenuto.errors import ArtifactUnavailable, CorruptBlob, OperatorError, StorageFailed, StoreAway

MARK = "move.json"
WORK = "move.unfinished"
THREADS = 4
TELL_S = 5.0
ANY_AGE_MS = 1 << 62
MAX_NAMED = 20
BATCH_BLOBS = 256

_IN_USER = re.compile(r"(://[^/?#:@]*):[^/?#]*@")
_IN_QUERY = re.compile(r"([?&])password=[^&]*")

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Move:
    """From where to where; the addresses are shown without their passwords."""

    from_database: str
    from_blobs: str
    to_database: str
    to_blobs: str
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """A database and the store that its rows speak of."""

    database: Database
    blobs: BlobStore


@dataclass(slots=True)
class _Seen:
    """How many blobs were looked at, and those that were not as they should be."""

    blobs: int = 0
    size_bytes: int = 0
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved and found to be the same."""

    rows: int
    tables: int
    blobs: int
    blob_bytes: int
    left_out: list[str]


def shown(database_url: str) -> str:
    """The address of a database without its password."""
    without = _IN_USER.sub(r"\1@", database_url)
    return _IN_QUERY.sub(r"\1password=…", without)


def refuse_moved(folder: Path, database_url: str, blobs: str) -> None:
    """Raises OperatorError for a place that is being moved, or that a service has left."""
    move = _read(folder)
    if move is None:
        return
    if not move.is_done:
        raise OperatorError(
            f"this service is being moved to {move.to_database} and {move.to_blobs};"
            f" say the same `tenuto migrate-to` again, or remove {folder / MARK} to stay here"
        )
    if (shown(database_url), blobs) == (move.from_database, move.from_blobs):
        raise OperatorError(
            f"this service was moved: set database to {move.to_database} and blobs to {move.to_blobs};"
            f" to go back and lose what was done since, remove {folder / MARK}"
        )


def begin(folder: Path, move: Move, target: Side) -> None:
    """Says in the data folder that this move goes on. Raises OperatorError for a target that is not empty,
    or not that of the move that goes on.
    """
    begun = _read(folder)
    if begun is not None and begun.is_done and begun.from_database == move.from_database:
        raise OperatorError(f"this service was moved to {begun.to_database} and {begun.to_blobs} already")
    if begun is not None and not begun.is_done:
        if begun != move:
            raise OperatorError(
                f"a move to {begun.to_database} and {begun.to_blobs} is unfinished: say that one again,"
                f" or remove {folder / MARK} and what it has written there"
            )
        return
    if target.database.read(lambda tx: schema.tables(tx, target.database.dialect)):
        raise OperatorError(f"{move.to_database} is not empty; a service is moved to a database of its own")
    if next(iter(target.blobs.ids(ANY_AGE_MS)), None) is not None:
        raise OperatorError(f"{move.to_blobs} is not empty; a service is moved to a prefix of its own")
    _write(folder, move)


def carry_out(
    folder: Path, source: Side, target: Side, *, tell: Tell, leave_out_damaged: bool = False
) -> Moved:
    """All bytes, all rows, and the proof that they are the same. Raises OperatorError."""
    work = folder / WORK
    tables = _dump(source.database, work)
    row_count = sum(table.rows for table in tables.values())
    tell(f"{row_count} rows of {len(tables)} tables")

    def bring(record: BlobRecord) -> bool:
        return _bring(source.blobs, target.blobs, record)

    brought = _each(wanted(work), bring, "brought", tell)
    damaged = set(brought.refused)
    if damaged and not leave_out_damaged:
        raise OperatorError(
            f"{len(damaged)} blobs are missing or damaged: {', '.join(sorted(damaged)[:MAX_NAMED])};"
            " `tenuto audit --deep` says whose they are, --leave-out-damaged moves without them"
        )
    _load(source.database, target.database, work, tables)
    tell("all rows are there; everything is read again and compared")
    if other := differences(contents(source.database), contents(target.database)):
        raise OperatorError(
            f"these tables differ: {', '.join(other)}; does something still write to one of the places?"
        )
    whole = (record for record in wanted(work) if record.blob_id not in damaged)
    again = _each(whole, lambda record: _is_whole(target.blobs, record), "read again", tell)
    if again.refused:
        raise OperatorError(f"{len(again.refused)} blobs did not arrive whole; say the same again")
    shutil.rmtree(work, ignore_errors=True)
    return Moved(row_count, len(tables), again.blobs, again.size_bytes, sorted(damaged))


def finish(folder: Path, move: Move) -> None:
    """From here on the service is where it was moved to."""
    failpoints.hit("move.before_done")
    _write(folder, replace(move, is_done=True))


def _dump(database: Database, work: Path) -> dict[str, TableFile]:
    shutil.rmtree(work, ignore_errors=True)
    try:
        make_folder(work)
        make_folder(work / ROWS)
        return database.snapshot(lambda tx: rows.dump(database, tx, work / ROWS))
    except OSError as error:
        raise OperatorError(f"{work} cannot be written: {error.strerror}; nothing was moved") from error


def _load(source: Database, target: Database, work: Path, tables: dict[str, TableFile]) -> None:
    migrations.migrate(target, only=frozenset(source.read(migrations.applied)))
    if not target.read(lambda tx: rows.is_empty(tx, target.dialect)):
        return  # An earlier try brought them; they are compared in any case.

    def load(tx: Transaction) -> None:
        rows.load(tx, target.dialect, work / ROWS, tables)

    failpoints.hit("move.before_rows")
    target.write(load)
    failpoints.hit("move.after_rows")


def _each(records: Iterator[BlobRecord], look: Callable[[BlobRecord], bool], done: str, tell: Tell) -> _Seen:
    """Does it to every blob, a few at a time."""
    seen, told_at, stopping = _Seen(), time.monotonic(), threading.Event()

    def unless_stopped(record: BlobRecord) -> bool:
        return stopping.is_set() or look(record)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="move") as threads:
        try:
            while batch := list(islice(records, BATCH_BLOBS)):
                for record, is_fine in zip(batch, threads.map(unless_stopped, batch), strict=True):
                    seen.blobs += 1
                    seen.size_bytes += record.size_bytes
                    if not is_fine:
                        seen.refused.append(record.blob_id)
                    if time.monotonic() - told_at > TELL_S:
                        told_at = time.monotonic()
                        tell(f"{seen.blobs} blobs {done}, {seen.size_bytes >> 20} MiB")
        except BaseException:
            stopping.set()
            raise
    tell(f"{seen.blobs} blobs {done}, {seen.size_bytes >> 20} MiB")
    return seen


def _bring(source: BlobStore, target: BlobStore, record: BlobRecord) -> bool:
    """False for a blob that is missing or damaged where it comes from."""
    if _is_whole(target, record):
        return True  # A move that was killed had brought it.
    try:
        copy = target.write(record.blob_id, source.read(record))
    except StoreAway as error:
        raise OperatorError(f"the bytes cannot be read: {error.message}; say the same again") from error
    except (ArtifactUnavailable, CorruptBlob):
        return False
    except StorageFailed as error:
        raise OperatorError(f"the bytes cannot be written: {error.message} Say the same again.") from error
    failpoints.hit("move.mid_blobs")
    if copy != record:
        target.delete(record.blob_id)
    return copy == record


def _is_whole(store: BlobStore, record: BlobRecord) -> bool:
    try:
        check_whole(store, record)
    except StoreAway as error:
        raise OperatorError(f"the bytes cannot be read: {error.message}; say the same again") from error
    except ArtifactUnavailable:
        return False
    except CorruptBlob:
        store.delete(record.blob_id)
        return False
    return True


def _read(folder: Path) -> Move | None:
    try:
        return Move(**json.loads((folder / MARK).read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise OperatorError(f"{folder / MARK} cannot be understood; remove it if no move goes on") from error


def _write(folder: Path, move: Move) -> None:
    unfinished = folder / (MARK + ".tmp")
    unfinished.unlink(missing_ok=True)
    with open_new(unfinished) as file:
        file.write((json.dumps(asdict(move), indent=1) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(folder / MARK)
    sync(folder)
