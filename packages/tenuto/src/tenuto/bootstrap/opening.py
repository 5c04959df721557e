"""Opening what is kept: the data folder, the database, the bytes, and in both the voices we ship with."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenuto import failpoints
from tenuto.accounts import operations as accounts
from tenuto.backup.restore import refuse_unfinished
from tenuto.blobs.blob import BlobStore
from tenuto.blobs.opening import open_store
from tenuto.blobs.reasons import reason
from tenuto.bootstrap.process import clock, log
from tenuto.config import Settings
from tenuto.db.connection_errors import describe
from tenuto.db.database import Database
from tenuto.db.migrations import later, migrate, pending, shipped, wait_for_migrations
from tenuto.db.opening import open_database
from tenuto.errors import OperatorError, StorageFailed, Unavailable
from tenuto.ids import Ids

MIGRATIONS_PATIENCE_S = 300.0
"""How long a process waits for `tenuto admin migrate`; whoever supervises it starts it again."""


LITTLE_SPACE_BYTES = 1 << 30
"""What a service should have for some days; `tenuto admin doctor` says so, too."""


def open_records(
    settings: Settings, *, patience_s: float = 0.0, stopping: threading.Event | None = None
) -> Database:
    """The database, migrated; where others migrate it, `patience_s` is how long that is waited for."""
    make_folder(settings.folder)
    refuse_unfinished(settings.folder)
    database = open_database(settings.database, folder=settings.folder)
    with _closed_when_refused(database):
        if settings.migrations == "wait":
            wait_for_migrations(
                database,
                patience_s=patience_s,
                stopping=stopping or threading.Event(),
                on_wait=lambda why: log().info("database.awaited", reason=why),
            )
        else:
            migrate(database)
        if newer := later(database):
            log().warning("database.newer", migrations=newer)
    return database


def open_existing(settings: Settings) -> Database:
    """The database of a service that was here before, migrated like any start does; nothing is made."""
    if settings.folder.exists():
        make_folder(settings.folder)  # Refuses what is no folder.
    refuse_missing(settings)
    return open_records(settings)


def open_as_it_is(settings: Settings) -> Database:
    """The database of a service that was here before: nothing is made, no migration is applied."""
    refuse_missing(settings)
    database = open_database(settings.database, folder=settings.folder)
    with _closed_when_refused(database):
        if lacking := pending(database):
            what = "is empty" if len(lacking) == len(shipped()) else "is an older version's"
            raise OperatorError(f"the database {what}; `tenuto admin migrate` brings it up to date")
    return database


def refuse_missing(settings: Settings) -> None:
    """OperatorError where the data folder or the database's file is not there, and so none is made."""
    file = settings.database.removeprefix("sqlite:///")
    if file != settings.database and not (settings.folder / file).exists():
        raise OperatorError(
            f"there is no Tenuto data in {settings.folder.resolve()}; name its folder with --data,"
            " or begin there with `tenuto serve`"
        )


def database_unreachable(error: Unavailable) -> OperatorError:
    """For whoever started us: what the database does, why, and what would be right."""
    return OperatorError(f"the database {describe(error)}; start it, or correct the setting database")


def open_blobs(settings: Settings) -> BlobStore:
    """The bytes, in the data folder or a bucket."""
    return open_store(settings, os.environ)


def install_voices(database: Database, blobs: BlobStore) -> None:
    """The voices that ship with the program: bytes first, then the rows. Done when they are all there."""
    from tenuto.voices import builtin

    voices = builtin.built_in_voices()
    lacking = database.read(lambda tx: builtin.missing(tx, voices))
    ids = Ids(clock)
    try:
        recordings = {voice.voice_id: blobs.write(ids.new("blob"), voice.content()) for voice in lacking}
    except StorageFailed as error:
        why = reason(error.__cause__ or error)
        raise OperatorError(f"the store of bytes {why}; fix that, or correct its settings") from error
    failpoints.hit("install.after_bytes")
    now_ms = clock()
    database.write(lambda tx: builtin.install(tx, voices, recordings, now_ms=now_ms))


def is_first_run(database: Database) -> bool:
    """Whether no account was made yet."""
    return not database.read(accounts.list_accounts)


def warn_of_little_space(folder: Path) -> None:
    """Before anything starts. A full disk is no reason not to: whoever wants to erase something comes in."""
    free = shutil.disk_usage(folder).free
    if free < LITTLE_SPACE_BYTES:
        log().warning(
            "disk.low",
            folder=str(folder),
            free_mib=free >> 20,
            needed_mib=LITTLE_SPACE_BYTES >> 20,
            reason="jobs wait once the disk is full; free some space, or choose another folder with --data",
        )


def make_folder(folder: Path) -> None:
    """The data folder, which its owner alone may read; OperatorError where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OperatorError(
            f"{folder} cannot be the data folder: {error.strerror}; choose another with --data"
        ) from error


@contextmanager
def _closed_when_refused(database: Database) -> Iterator[None]:
    """A database that cannot be used is closed again, whatever the reason."""
    try:
        yield
    except Unavailable as error:
        database.close()
        raise database_unreachable(error) from error
    except BaseException:
        database.close()
        raise
