"""Keeps in the store of bytes which copy of the database is in use, for servers to be compared with.

The store outlives a failover, and is the same for all processes: whoever has not seen a promotion, or starts
after it, learns of it there before anything is written to an old primary.
"""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import msgspec

from tenuto.config import Settings
from tenuto.config.storage import bucket_of
from tenuto.db import generation_row as row
from tenuto.db.database import Database, Transaction
from tenuto.db.database_copy import Copy, Outdated
from tenuto.db.database_opening import open_database
from tenuto.errors import BucketMissing, OperatorError, StoreUnreachable, TenutoError, Unavailable
from tenuto.file.blob import NEWEST, BlobStore
from tenuto.file.blob_store_opening import open_store
from tenuto.file.pairing import known_id

PATIENCE_S = 5.0
"""How long a start waits for the store, if there is only one database that it could mean."""
PAUSE_S = 1.0
UNKNOWN = (
    "the store of bytes does not answer, and only it knows which of the hosts in the setting database has the"
    " newest copy"
)

Waiting = Callable[[], AbstractContextManager[object]]


def open_compared(
    settings: Settings, stopping: threading.Event | None = None, waiting: Waiting = nullcontext
) -> Database:
    """The database that the settings name, which refuses servers with another copy than the newest.

    If only the store knows which that is, because there are several hosts, and it does not answer: waits for
    it in `waiting` until `stopping`; without `stopping`, raises OperatorError.
    """
    database = open_database(settings.database, folder=settings.folder)
    if database.servers is not None:
        log()
    try:
        _recall(settings, database, stopping, waiting)
    except BaseException:
        database.close()
        raise
    return database


def begin(database: Database) -> None:
    """Say in the database that a process starts with it: any copy that was made before has a lower epoch.

    Raises Unavailable if another copy has become the newest since the connection was compared.
    """
    if (servers := database.servers) is None:
        return

    from tenuto.db.postgres import AWAY

    def raise_epoch(tx: Transaction) -> Copy:
        newest = servers.newest
        assert newest is not None, "this connection was compared"
        compared = servers.held_by(row.process(tx))
        own = None if compared is None else row.now(tx, compared)
        if own is None or (fault := own.fault(newest)):
            raise Unavailable(AWAY) from Outdated(fault if own else "the copy of another server")
        return row.begin(tx, own, newest)

    servers.learn(database.write(raise_epoch))


def exchange(database: Database, blobs: BlobStore) -> None:
    """Learn from the store, and tell it what is newer. StoreUnreachable, StorageFailed, Unavailable."""
    if (servers := database.servers) is None:
        return
    recorded = recorded_in(blobs)
    if recorded is not None:
        servers.learn(recorded)
        newest = servers.newest
        if newest is not None and newest.generation[:2] > recorded.generation[:2]:
            # A promotion: another server may be promoted to the same timeline, and lack what this one holds.
            begin(database)
    newest = servers.newest
    if newest is not None and (recorded is None or newest.generation > recorded.generation):
        # Of two that write at once, the lower one may be last: the higher one repeats it when it looks again.
        blobs.record_newest(msgspec.json.encode(newest))


def recorded_in(blobs: BlobStore) -> Copy | None:
    """What the store knows. OperatorError says that it is damaged."""
    try:
        content = blobs.newest()
        return None if content is None else msgspec.json.decode(content, type=Copy)
    except BucketMissing:  # Some stores create a bucket with its first object.
        return None
    except msgspec.DecodeError as error:
        raise OperatorError(
            f"{NEWEST} in the store of bytes is damaged; write it anew with: tenuto admin database accept"
        ) from error


def log() -> Any:
    """The logger; what connections log goes to stderr, though a short command has set up no log."""
    from tenuto import logs

    logs.set_up_once()
    return logs.get_logger("tenuto")


def _recall(
    settings: Settings, database: Database, stopping: threading.Event | None, waiting: Waiting
) -> None:
    servers = database.servers
    if servers is None or (bucket_of(settings.blobs) is None and not (settings.folder / "blobs").is_dir()):
        return
    known: list[Copy] = []

    def ask() -> bool:
        try:
            recorded = recorded_in(open_store(settings, os.environ))
        except StoreUnreachable:
            return False
        if recorded is not None:
            servers.learn(recorded)
            known.append(recorded)
        return True

    def ask_quietly() -> None:
        with suppress(TenutoError):  # Whoever needs the store reports it.
            ask()

    if servers.number == 1:
        # Nothing waits for a store that hangs: it is asked again while the process runs.
        asking = threading.Thread(target=ask_quietly, name="newest-copy", daemon=True)
        asking.start()
        asking.join(PATIENCE_S)
    elif not ask():
        if stopping is None:
            raise OperatorError(UNKNOWN)
        log().error("database.unknown", reason=UNKNOWN)
        with waiting():
            while not ask():
                if stopping.wait(PAUSE_S):
                    raise OperatorError(UNKNOWN)
    servers.ask_all()
    newest = servers.newest
    if known and newest is not None and newest.generation > known[0].generation:
        with suppress(TenutoError):  # Whoever needs the store or the database reports it.
            _record(settings, database)


def _record(settings: Settings, database: Database) -> None:
    """Tell the store of a promotion before anything is written: whoever saw it first may have died, or met a
    full disk, and the next process may start while the promoted one is away. A short command is like that."""
    blobs = open_store(settings, os.environ)
    if blobs.store_id() == database.read(known_id):  # Nothing is written to the store of another database.
        exchange(database, blobs)
