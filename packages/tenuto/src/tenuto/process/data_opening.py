"""Opens the data folder, the database and the store of bytes."""

import os
import shlex
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tenuto.account import operations as accounts
from tenuto.config import Settings
from tenuto.db.connection_errors import describe, remedy
from tenuto.db.database import Database
from tenuto.db.migrations import later, migrate, pending, shipped, wait_for_migrations
from tenuto.errors import OperatorError, Unavailable
from tenuto.file.blob import BlobStore
from tenuto.file.blob_store_opening import open_store
from tenuto.process.local_services import live_services
from tenuto.process.newest_copy import Waiting, open_compared
from tenuto.process.runtime import log

MIGRATIONS_PATIENCE_S = 300.0
"""How long a process waits for `tenuto admin migrate` before it exits; its supervisor restarts it."""


MARK = "restore.unfinished"
"""The file in a data folder that says that a restore into it was begun and is not finished."""

LITTLE_SPACE_BYTES = 1 << 30
"""Free space that should last a service for some days; `tenuto admin doctor` warns below it too."""


def open_records(
    settings: Settings,
    *,
    patience_s: float = 0.0,
    stopping: threading.Event | None = None,
    waiting: Waiting = nullcontext,
) -> Database:
    """The database, migrated; if another process migrates it, waits for that up to `patience_s`.

    `stopping`, `waiting`: those of `open_compared`.
    """
    make_folder(settings.folder)
    refuse_unfinished(settings.folder)
    if patience_s:
        stopping = stopping or threading.Event()
    database = open_compared(settings, stopping, waiting)
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
    """The database of an existing service, migrated as at any start; a missing one is not created."""
    if settings.folder.exists():
        make_folder(settings.folder)  # Refuses anything but a folder.
    refuse_missing(settings)
    return open_records(settings)


def open_as_it_is(settings: Settings) -> Database:
    """The database of an existing service: nothing is created, no migration is applied."""
    refuse_missing(settings)
    database = open_compared(settings)
    with _closed_when_refused(database):
        if lacking := pending(database):
            what = "is empty" if len(lacking) == len(shipped()) else "is an older version's"
            raise OperatorError(f"the database {what}; `tenuto admin migrate` brings it up to date")
    return database


def refuse_missing(settings: Settings) -> None:
    """Raise OperatorError if the data folder or the database file is missing, so that none is created, or a
    restore into the folder is unfinished: what is there would look like a service without accounts.
    """
    refuse_unfinished(settings.folder)
    file = settings.database.removeprefix("sqlite:///")
    if file != settings.database and not (settings.folder / file).exists():
        nothing = f"there is no Tenuto data in {settings.folder.resolve()}"
        if served := [shlex.quote(service.folder) for service in live_services()]:
            raise OperatorError(
                f"{nothing}; a service of yours has its data in another folder: --data {' or '.join(served)}"
            )
        raise OperatorError(f"{nothing}; name its folder with --data, or begin there with `tenuto serve`")


def refuse_unfinished(place: Path) -> None:
    """Raises OperatorError for a data folder that holds an unfinished restore."""
    if (place / MARK).exists():
        raise OperatorError(
            f"{place} holds an unfinished restore; run `tenuto admin restore` with the same backup again"
        )


def database_unreachable(error: Unavailable) -> OperatorError:
    """The error for an unreachable database: what it does, why, and how to correct it."""
    return OperatorError(f"the database {describe(error)}; {remedy(error)}")


def open_blobs(settings: Settings) -> BlobStore:
    """The store of bytes, in the data folder or a bucket."""
    return open_store(settings, os.environ)


def is_first_run(database: Database) -> bool:
    """Whether there is no account yet."""
    return not database.read(accounts.list_accounts)


def warn_of_little_space(folder: Path) -> None:
    """Warn before anything starts. It starts anyway, so that content can be erased; only SQLite needs
    a little room for that.
    """
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
    """Make the data folder, readable by its owner alone; OperatorError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OperatorError(
            f"{folder} cannot be the data folder: {error.strerror}; choose another with --data"
        ) from error


@contextmanager
def _closed_when_refused(database: Database) -> Iterator[None]:
    """Close the database again if it cannot be used, whatever the reason."""
    try:
        yield
    except Unavailable as error:
        database.close()
        raise database_unreachable(error) from error
    except BaseException:
        database.close()
        raise
