"""What an attempt reads before its engine runs: stored bytes, checked as they are read."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tenuto import failpoints
from tenuto.artifacts import operations as artifacts
from tenuto.blobs.blob import BlobRecord
from tenuto.errors import ArtifactUnavailable, CorruptBlob, StoreUnreachable
from tenuto.hosts.host import Cancelled, EngineFailed
from tenuto.logs import get_logger
from tenuto.worker.calls import EngineCalls
from tenuto.worker.context import WorkerContext
from tenuto.worker.heartbeat import Watched
from tenuto.worker.retrying import read

T = TypeVar("T")

AWAY_PAUSE_S = 2.0
PATIENCE_S = 60.0
"""A read that fails for so long holds its lane's slot up: the job waits in the queue instead."""

_log = get_logger("tenuto.worker")


def read_input(calls: EngineCalls, blob_id: str, what: str) -> bytes:
    """The bytes of an input, waited for while the database or the store is away.

    Raises EngineFailed with `input_unreadable`: damaged bytes fail a job at once, missing ones after a few
    tries. StoreUnreachable: they still cannot be read after a minute. Cancelled: the attempt is to stop.
    """
    record = input_record(calls.context, blob_id, what)
    try:
        content = when_back(calls.watched, lambda: calls.context.blobs.read_all(record))
        failpoints.hit("input.after_read")
        return content
    except StoreUnreachable:
        raise
    except CorruptBlob as error:
        raise EngineFailed("input_unreadable", f"{what} is damaged", transient=False) from error
    except ArtifactUnavailable as error:
        raise EngineFailed("input_unreadable", f"{what} cannot be read", transient=True) from error


def input_record(context: WorkerContext, blob_id: str, what: str) -> BlobRecord:
    """Where the bytes of an input are. Raises EngineFailed when they have been erased."""
    record = read(context, lambda tx: artifacts.blob_record(tx, blob_id))
    if record is None:
        raise EngineFailed("input_unreadable", f"{what} is not there any more", transient=False)
    return record


def when_back(watched: Watched, read_bytes: Callable[[], T]) -> T:
    """What a read gives; while the store is away it is made again, until the attempt is to stop."""
    began = time.monotonic()
    while True:
        try:
            return read_bytes()
        except StoreUnreachable as error:
            _log.warning("store.away", attempt_id=watched.attempt_id, reason=error.message)
            if time.monotonic() - began >= PATIENCE_S:
                raise
        stopped = threading.Event()
        with watched.stop.calling(stopped.set):
            if watched.stop.is_set() or stopped.wait(AWAY_PAUSE_S):
                raise Cancelled(lost=False)
