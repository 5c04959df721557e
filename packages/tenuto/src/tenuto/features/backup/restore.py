"""Restoring a backup into an empty place, on either database. All of it is verified before a byte is written.

Bytes first, then all rows in one transaction. Until it is finished, a file marks the data folder: nothing
else starts there, and running the same restore again continues where it stopped.
"""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tenuto import failpoints
from tenuto.db import migrations, schema
from tenuto.db.database import ConstraintFailed, Database, Dialect, Transaction
from tenuto.db.database_opening import open_database
from tenuto.db.schema import Table
from tenuto.errors import ArtifactUnavailable, CorruptBlob, OperatorError, StorageFailed
from tenuto.features.backup import rows
from tenuto.features.backup.manifest import BLOBS, ROWS, Manifest, make_folder, open_new, read_manifest
from tenuto.features.backup.take import wanted
from tenuto.file.blob import BlobRecord, BlobStore, check_whole
from tenuto.file.directory import DirectoryBlobs, sync_folder
from tenuto.process.data_opening import MARK

ANY_AGE_MS = 1 << 62
Tell = Callable[[str], None]


def verify(folder: Path) -> Manifest:
    """Check every row and byte of a backup against its manifest, and return that. Raises OperatorError."""
    manifest = read_manifest(folder)
    migrations.check_known(manifest.migrations)
    tables = _tables(frozenset(manifest.migrations))
    if unknown := sorted(set(manifest.tables) - set(tables)):
        raise OperatorError(f"the backup has a table that this version does not know: {unknown[0]}")
    if "blob" not in manifest.tables:
        raise OperatorError("the backup is damaged: it has no rows of blobs")
    for name, file in manifest.tables.items():
        rows.check(folder / ROWS, tables[name], file)
    source, left_out = DirectoryBlobs(folder / BLOBS), set(manifest.left_out)
    count = size_bytes = 0
    for record in wanted(folder):
        if record.blob_id in left_out:
            continue
        try:
            check_whole(source, record)
        except (ArtifactUnavailable, CorruptBlob) as error:
            raise OperatorError(f"the backup is damaged: {error.message}") from error
        count, size_bytes = count + 1, size_bytes + record.size_bytes
    if (count, size_bytes) != (manifest.blobs, manifest.blob_bytes):
        raise OperatorError("the backup is damaged: it has other blobs than its manifest says")
    return manifest


def _tables(applied: frozenset[str]) -> dict[str, Table]:
    """The tables that a backup with these migrations may have, read from an empty database."""
    with TemporaryDirectory(prefix="tenuto-") as folder:
        database = open_database("sqlite:///empty.db", folder=Path(folder))
        with closing(database):
            migrations.migrate(database, only=applied)
            tables = database.read(lambda tx: schema.tables(tx, database.dialect))
    return {table.name: table for table in tables if table.name not in rows.LEFT_OUT}


def claim(place: Path, manifest: Manifest) -> bool:
    """Claim an empty data folder for this restore; true if an earlier restore of this backup is resumed.

    Raises OperatorError for a folder that holds anything else.
    """
    mark = place / MARK
    if mark.exists():
        if mark.read_text("utf-8").strip() != manifest.backup_id:
            raise OperatorError(
                f"{place} holds an unfinished restore of another backup; remove the folder first"
            )
        return True
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise OperatorError(f"{place} is not empty; a backup is restored into a folder of its own")
    place.parent.mkdir(parents=True, exist_ok=True)
    make_folder(place)
    with open_new(mark) as file:
        file.write(f"{manifest.backup_id}\n".encode())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(place)
    return False


def release(place: Path) -> None:
    """Remove the mark: the folder is ready for use, or empty again."""
    (place / MARK).unlink(missing_ok=True)
    sync_folder(place)


def refuse_others(database: Database, manifest: Manifest, *, resumed: bool) -> None:
    """Raises OperatorError for a database with tables, unless an earlier restore made them."""
    if not resumed:
        if database.read(lambda tx: schema.tables(tx, database.dialect)):
            raise OperatorError("the database is not empty; a backup is restored into a database of its own")
    elif not database.snapshot(
        lambda tx: (
            rows.is_empty(tx, database.dialect) or rows.are_loaded(tx, database.dialect, manifest.tables)
        )
    ):
        raise OperatorError("the database is not empty; restore into the one where this restore was begun")


def refuse_bytes(blobs: BlobStore, *, resumed: bool) -> None:
    """Raises OperatorError for a store with bytes, unless an earlier restore wrote them.

    Two services in one store would each sweep away the bytes that only the other knows.
    """
    if not resumed and (blobs.store_id() is not None or any(True for _ in blobs.ids(ANY_AGE_MS))):
        raise OperatorError("the store of bytes is not empty; a backup is restored into a prefix of its own")


def fill(folder: Path, manifest: Manifest, database: Database, blobs: BlobStore, *, tell: Tell) -> None:
    """Write the bytes, then the rows, of a verified backup. Run again after it was killed, it continues."""
    failpoints.hit("restore.before_blobs")
    _copy(folder, manifest, blobs, tell)
    migrations.migrate(database, only=frozenset(manifest.migrations))
    if database.read(lambda tx: rows.is_empty(tx, database.dialect)):
        failpoints.hit("restore.before_rows")
        try:
            database.write_long(lambda tx: _load(tx, database.dialect, folder, manifest))
        except ConstraintFailed as error:
            raise OperatorError(f"the backup is damaged: its rows do not fit together ({error})") from error
        failpoints.hit("restore.after_rows")
    tell(f"{sum(file.rows for file in manifest.tables.values())} rows of {len(manifest.tables)} tables")
    migrations.migrate(database)


def _load(tx: Transaction, dialect: Dialect, folder: Path, manifest: Manifest) -> None:
    """Load all rows. Events lose their positions, which are transaction numbers of the old database."""
    rows.load(tx, dialect, folder / ROWS, manifest.tables)
    if "0008_webhooks" in manifest.migrations:
        # Events that webhooks have not been sent yet come before all events of this database.
        tx.run(
            """update event set position = 0 where exists (
                   select 1 from webhook_sender s join webhook w on w.account_id = event.account_id
                   where (event.position, event.job_id, event.sequence) > (s.position, s.job_id, s.sequence)
                     and event.position >= w.since_position)"""
        )
        tx.run("update webhook set since_position = 0")
        tx.run("update webhook_sender set holder = '', position = 0, job_id = '', sequence = 0")
    if "0007_events_in_order" in manifest.migrations:
        tx.run("update event set position = null where position > 0")


def _copy(folder: Path, manifest: Manifest, blobs: BlobStore, tell: Tell) -> None:
    source, left_out = DirectoryBlobs(folder / BLOBS), set(manifest.left_out)
    for record in wanted(folder):
        if record.blob_id not in left_out:
            _put(source, blobs, record)
            failpoints.hit("restore.mid_blobs")
    tell(f"{manifest.blobs} blobs, {manifest.blob_bytes >> 20} MiB")


def _put(source: BlobStore, target: BlobStore, record: BlobRecord) -> None:
    try:
        check_whole(target, record)  # A restore that was killed has already written it.
        return
    except ArtifactUnavailable:
        pass
    except CorruptBlob:
        target.delete(record.blob_id)
    try:
        copy = target.write(record.blob_id, source.read(record))
    except StorageFailed as error:
        raise OperatorError(f"the bytes cannot be written: {error.__cause__ or error.message}") from error
    if copy != record:
        raise OperatorError(f"the backup is damaged: {record.blob_id} has changed while it was read")
