"""Taking a backup while the service runs: the rows of one moment first, then the bytes that they refer to.

It is built in `DIR.unfinished`, by one process at a time, and renamed when it is complete and durable. A
backup that was killed starts over; the bytes that it had copied, which never change, are checked and reused.
While it runs, erased bytes stay where they are (`features.backup.backups`).
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from tenuto import failpoints
from tenuto.db import migrations
from tenuto.db.database import Database, Transaction
from tenuto.errors import (
    ArtifactUnavailable,
    CorruptBlob,
    OperatorError,
    StorageFailed,
    StoreUnreachable,
    Unavailable,
)
from tenuto.features.backup import backups, rows
from tenuto.features.backup.manifest import BLOBS, NAME, ROWS, Manifest, TableFile, lock, make_folder
from tenuto.file.blob import BlobRecord, BlobStore, check_whole, is_well_formed
from tenuto.file.directory import DirectoryBlobs, sync_folder
from tenuto.ids import Clock, Ids

UNFINISHED = ".unfinished"
LOCK = "lock"
SEEN_S = 5.0
TELL_S = 5.0
MAX_NAMED = 20
MAX_LEFT_OUT = 100_000
"""The most missing or damaged blobs that a manifest names; if there are more, the store is the wrong one."""
KNOWN_AT_ONCE = 500_000
"""The most blob names held in memory: 60 MiB."""
ANY_AGE_MS = 1 << 62

Tell = Callable[[str], None]


class _Copied(Struct):
    """How many blobs and bytes are in the backup so far."""

    blobs: int = 0
    size_bytes: int = 0


def take(
    database: Database,
    blobs: BlobStore,
    folder: Path,
    *,
    ids: Ids,
    clock: Clock,
    program: str,
    tell: Tell,
    leave_out_damaged: bool = False,
) -> Manifest:
    """Take a complete backup into a folder that does not exist yet. After an OperatorError there is none."""
    place, held = _prepare(folder)
    is_resumed = (place / BLOBS).exists()
    backup_id = ids.new("backup")
    began_ms = clock()
    database.write(lambda tx: backups.begin(tx, backup_id, now_ms=began_ms))
    watch = _Watch(database, backup_id, clock)
    try:
        failpoints.hit("backup.before_rows")
        created_at = clock()
        applied, tables, not_text = database.snapshot(lambda tx: _dump(database, tx, place))
        tell(f"{sum(table.rows for table in tables.values())} rows of {len(tables)} tables")
        if not_text:
            tell(f"rows with text that is not UTF-8: {not_text}; each invalid byte was replaced by U+FFFD")
        failpoints.hit("backup.after_rows")
        copied, damaged = _copy_all(blobs, place, watch, tell)
        _refuse_damaged(damaged, leave_out_damaged)
        if is_resumed:
            _forget_strangers(place, copied.blobs)
        watch.check()
        manifest = Manifest(
            backup_id=backup_id,
            created_at=created_at,
            program=program,
            dialect=database.dialect,
            migrations=applied,
            tables=tables,
            blobs=copied.blobs,
            blob_bytes=copied.size_bytes,
            left_out=damaged,
        )
        manifest.write(place)
        failpoints.hit("backup.before_name")
        _name(place, folder)
        return manifest
    except OSError as error:
        raise OperatorError(
            f"{place} cannot be written: {error.strerror}; the backup was not made"
        ) from error
    finally:
        watch.stop()
        os.close(held)


def wanted(folder: Path) -> Iterator[BlobRecord]:
    """The blobs that a backup's rows may refer to: all that were not condemned."""
    for row in rows.records(folder / ROWS, "blob"):
        if row["condemned_at"] is None:
            record = BlobRecord(row["id"], row["size_bytes"], row["sha256"], row["block_crcs"])
            if not is_well_formed(record):
                raise OperatorError(f"{record.blob_id!r:.80} in the rows of blobs is not a record of a blob")
            yield record


class _Watch:
    """Reports every few seconds that the backup is alive, and notices if it was presumed dead."""

    def __init__(self, database: Database, backup_id: str, clock: Clock) -> None:
        self._database, self._backup_id, self._clock = database, backup_id, clock
        self._lost = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="backup", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises OperatorError if bytes may have been removed meanwhile."""
        now_ms = self._clock()
        if self._lost or not self._database.write(lambda tx: backups.see(tx, self._backup_id, now_ms=now_ms)):
            raise OperatorError("the backup stood still for too long and was given up; take it again")

    def stop(self) -> None:
        """Allow bytes to be removed again; if the database is unavailable, upkeep finds out by itself."""
        self._stopping.set()
        self._thread.join(timeout=30)
        try:
            self._database.write(lambda tx: backups.end(tx, self._backup_id))
        except Unavailable:
            return

    def _run(self) -> None:
        while not self._stopping.wait(SEEN_S):
            now_ms = self._clock()
            try:
                self._lost = self._lost or not self._database.write(
                    lambda tx, now=now_ms: backups.see(tx, self._backup_id, now_ms=now)  # type: ignore[misc]
                )
            except Unavailable:
                continue  # It is checked once more before the backup gets its name.


def _prepare(folder: Path) -> tuple[Path, int]:
    """The folder to build in, without the rows that an earlier backup left there, and its lock."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OperatorError(f"{folder} is there already; name a folder that is not")
    if folder.name in ("", "..") or folder.is_mount():
        # The finished backup is renamed to it, which the system would refuse at the very end.
        raise OperatorError(f"{folder} cannot become a backup itself; name a folder in it")
    place = folder.with_name(folder.name + UNFINISHED)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        make_folder(place)
        held = lock(place / LOCK)
        shutil.rmtree(place / ROWS, ignore_errors=True)
        (place / NAME).unlink(missing_ok=True)
        make_folder(place / ROWS)
    except OSError as error:
        raise OperatorError(f"{place} cannot be written: {error.strerror}") from error
    return place, held


def _dump(
    database: Database, tx: Transaction, place: Path
) -> tuple[dict[str, str], dict[str, TableFile], int]:
    shutil.rmtree(place / ROWS)
    make_folder(place / ROWS)
    tables, not_text = rows.dump(database, tx, place / ROWS)
    sync_folder(place / ROWS)
    return migrations.applied(tx), tables, not_text


def _copy_all(blobs: BlobStore, place: Path, watch: _Watch, tell: Tell) -> tuple[_Copied, list[str]]:
    target, copied, damaged = DirectoryBlobs(place / BLOBS), _Copied(), []
    told_at = time.monotonic()
    for record in wanted(place):
        try:
            _copy(blobs, target, record)
        except StoreUnreachable as error:
            raise OperatorError(f"the backup was not made: {error.message}") from error
        except (ArtifactUnavailable, CorruptBlob):
            damaged.append(record.blob_id)
            if len(damaged) > MAX_LEFT_OUT:
                raise OperatorError(_too_many_damaged(damaged)) from None
            continue
        copied.blobs += 1
        copied.size_bytes += record.size_bytes
        failpoints.hit("backup.mid_blobs")
        if time.monotonic() - told_at > TELL_S:
            told_at = time.monotonic()
            watch.check()
            tell(f"{copied.blobs} blobs, {copied.size_bytes >> 20} MiB")
    return copied, damaged


def _copy(source: BlobStore, target: DirectoryBlobs, record: BlobRecord) -> None:
    """Copy a blob and check it, unless an earlier backup that was killed has copied it."""
    try:
        check_whole(target, record)
        return
    except (ArtifactUnavailable, CorruptBlob):
        target.delete(record.blob_id)
    try:
        copy = target.write(record.blob_id, source.read(record))
    except StorageFailed as error:
        raise OperatorError(f"the backup could not be written: {error.__cause__ or error.message}") from error
    if copy != record:
        target.delete(record.blob_id)
        raise CorruptBlob(f"{record.blob_id} is not what was recorded")


def _refuse_damaged(damaged: list[str], leave_out: bool) -> None:
    if damaged and not leave_out:
        raise OperatorError(
            f"{_too_many_damaged(damaged)}; --leave-out-damaged takes the backup without them"
        )


def _too_many_damaged(damaged: list[str]) -> str:
    more = "" if len(damaged) <= MAX_NAMED else f" and {len(damaged) - MAX_NAMED} more"
    return (
        f"{len(damaged)} blobs are missing or damaged: {', '.join(damaged[:MAX_NAMED])}{more};"
        " `tenuto admin audit --deep` says whose they are"
    )


def _forget_strangers(place: Path, count: int) -> None:
    """Delete bytes left by an earlier, killed backup that are not in these rows.

    There may be millions of names, so each of several passes takes a share of them.
    """
    target, passes = DirectoryBlobs(place / BLOBS), 1 + count // KNOWN_AT_ONCE
    for number in range(passes):
        names = (record.blob_id for record in wanted(place))
        known = {name for name in names if crc32(name.encode()) % passes == number}
        for name in target.ids(ANY_AGE_MS):
            if crc32(name.encode()) % passes == number and name not in known:
                target.delete(name)


def _name(place: Path, folder: Path) -> None:
    """Give the folder its final name: from here on it is a backup."""
    place.rename(folder)
    (folder / LOCK).unlink(missing_ok=True)
    sync_folder(folder)
    sync_folder(folder.parent)
