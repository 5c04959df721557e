"""Reads and writes that must not be lost, as often as it takes. Knows no kind of job."""

import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from tenuto.blobs.blob import BlobRecord
from tenuto.blobs.reasons import reason
from tenuto.db.database import Transaction
from tenuto.errors import StorageFailed, StoreAwayForWrites, Unavailable
from tenuto.worker.parts import Parts

T = TypeVar("T")

STORE_TRIES = 5
STORE_PAUSE_S = 0.5
AWAY_PAUSE_S = 10.0
WRITE_PAUSE_S = 0.2

_log = structlog.get_logger("tenuto.worker")


def store(
    parts: Parts, blob_id: str, content: bytes, *, on_wait: Callable[[], None] = lambda: None
) -> BlobRecord:
    """Make bytes durable. Raises StorageFailed when that failed a few times, with pauses that grow.

    A store that is away is waited for, as the database is: what was made, or paid for, is not given up.
    `on_wait` is called before each pause: an engine that waits for us has not gone silent.
    """
    nth = 1
    while True:
        try:
            return parts.blobs.write(blob_id, content)
        except StorageFailed as error:
            why = reason(error.__cause__ or error)
            _log.error("blob.not_stored", blob_id=blob_id, nth=nth, reason=f"the store {why}")
            if nth >= STORE_TRIES and not isinstance(error, StoreAwayForWrites):
                raise
            on_wait()
            time.sleep(min(STORE_PAUSE_S * nth, AWAY_PAUSE_S))
            nth += 1


def read(parts: Parts, operation: Callable[[Transaction], T]) -> T:
    """One look, as often as it takes while the database is away."""
    while True:
        try:
            return parts.database.read(operation)
        except Unavailable:
            time.sleep(WRITE_PAUSE_S)


def write(parts: Parts, transition: Callable[[Transaction, int], T]) -> T:
    """One transition, as often as it takes while the database is away.

    What stays unknown of a commit is found out by trying again: the fence answers Stale when it was made.
    """
    while True:
        now_ms = parts.clock()
        try:
            return parts.database.write(lambda tx: transition(tx, now_ms))  # noqa: B023 (called at once)
        except Unavailable:
            time.sleep(WRITE_PAUSE_S)
