"""Accepting a copy of the database that was restored or moved as the one in use."""

from collections.abc import Callable
from contextlib import suppress

import msgspec

from tenuto.db import generation_row as row
from tenuto.db.database import Database
from tenuto.db.migrations import migrate, pending, shipped
from tenuto.errors import OperatorError
from tenuto.file.blob import BlobStore
from tenuto.process.newest_copy import recorded_in


def accept(database: Database, open_blobs: Callable[[], BlobStore]) -> str:
    """Make the copy of the one server that answers the newest, and migrate it; returns its host.

    Raises OperatorError if several answer or the database is empty, Unavailable if none answers.
    """
    servers = database.servers
    assert servers is not None, "a file has no other copy"
    found = list(servers.primaries().values())
    if len(found) > 1:
        hosts = ", ".join(f"{host} (timeline {copy.timeline}, epoch {copy.epoch})" for host, copy in found)
        raise OperatorError(
            f"several servers take writes: {hosts}; write the one to accept alone in `database`"
        )
    lacking = pending(database)  # Unavailable if there is none.
    if len(lacking) == len(shipped()):
        raise OperatorError("the database is empty; correct the setting database, or restore into it first")
    # Nobody else can migrate it: an older version's, restored from before an upgrade, is refused until then.
    migrate(database)
    blobs = open_blobs()
    recorded = None
    with suppress(OperatorError):  # A damaged record is replaced.
        recorded = recorded_in(blobs)
    (host, seen) = found[0]
    accepted = database.write(lambda tx: row.accept(tx, seen, recorded))
    servers.learn(accepted)
    blobs.record_newest(msgspec.json.encode(accepted))
    return host
